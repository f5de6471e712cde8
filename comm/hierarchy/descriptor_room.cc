#include "comm/hierarchy/descriptor_room.h"

#include <cerrno>
#include <memory>

#include <dirent.h>
#include <sys/resource.h>

#include "base/new_fd.h"
#include "fmt/format.h"

namespace weft {

std::string DescriptorSentence(const DescriptorUse& use) {
  if (use.links <= use.limit && use.open <= use.limit - use.links) return "";
  return fmt::format(
      "a process here may need {} connections with ranks of other nodes, and of the {} files that "
      "it may have open {} are; raise that limit to {} or more (ulimit -n), or operations that "
      "need "
      "the last of them fail",
      use.links, use.limit, use.open, use.links + use.open);
}

uint64_t OpenDescriptors() {
  const std::unique_ptr<DIR, CloseFolder> open = OpenFolder("/proc/self/fd");
  if (open == nullptr) return errno == EMFILE ? DescriptorLimit() : 0;
  uint64_t count = 0;
  while (const dirent* const entry = readdir(open.get()))
    count += entry->d_name[0] != '.' ? 1 : 0;
  return count == 0 ? 0 : count - 1;  // its own
}

uint64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

}  // namespace weft
