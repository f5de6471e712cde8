// By readdir: std::filesystem's iterators would be in the way of programs that are linked statically with libweft.a.
#include "comm/transport/ucx/rdma_devices.h"

#include <memory>
#include <string_view>
#include <vector>

#include <dirent.h>

#include "base/file.h"
#include "base/new_fd.h"
#include "base/text.h"

namespace weft {
namespace {

// The names in a folder, but for hidden ones; none if it cannot be read.
std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> folder = OpenFolder(path);
  if (folder == nullptr) return names;
  while (const dirent* const entry = readdir(folder.get())) {
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  return names;
}

// "4: ACTIVE"
bool HasPortThatIsUp(const std::string& device) {
  for (const std::string& port : NamesIn(device + "/ports")) {
    const std::string state = ReadFirstLine(StrCat(device, "/ports/", port, "/state"));
    if (state.find("ACTIVE") != std::string::npos) return true;
  }
  return false;
}

// A container may see the adapters of its machine and have no way to them.
bool MayOpenOne(const std::string& folder) {
  for (const std::string& name : NamesIn(folder))
    if (name.starts_with("uverbs")) return true;
  return false;
}

}  // namespace

bool HasRdmaDevice(const std::string& root) {
  if (!MayOpenOne(root + "/dev/infiniband")) return false;
  const std::string devices = root + "/sys/class/infiniband";
  for (const std::string& device : NamesIn(devices))
    if (HasPortThatIsUp(StrCat(devices, "/", device))) return true;
  return false;
}

}  // namespace weft
