#include "comm/transport/ucx/rdma_devices.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// "4: ACTIVE"
bool HasPortThatIsUp(const fs::path& device) {
  std::error_code error;
  for (const fs::directory_entry& port : fs::directory_iterator(device / "ports", error)) {
    if (ReadFirstLine((port.path() / "state").string()).find("ACTIVE") != std::string::npos) {
      return true;
    }
  }
  return false;
}

// A container may see the adapters of its machine and have no way to them.
bool MayOpenOne(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().starts_with("uverbs")) return true;
  }
  return false;
}

}  // namespace

bool HasRdmaDevice(const std::string& root) {
  if (!MayOpenOne(root + "/dev/infiniband")) return false;
  std::error_code error;
  for (const fs::directory_entry& device :
       fs::directory_iterator(root + "/sys/class/infiniband", error)) {
    if (HasPortThatIsUp(device.path())) return true;
  }
  return false;
}

}  // namespace weft
