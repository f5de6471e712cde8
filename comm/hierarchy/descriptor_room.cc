#include "comm/hierarchy/descriptor_room.h"

#include <filesystem>
#include <iterator>
#include <system_error>

#include <sys/resource.h>

#include "fmt/format.h"

namespace weft {

std::string DescriptorSentence(const DescriptorUse& use) {
  if (use.links <= use.limit && use.open <= use.limit - use.links) return "";
  return fmt::format(
      "a rank here may need {} connections with ranks of other nodes, and of the {} files that its "
      "process may have open {} are; raise that limit to {} or more (ulimit -n), or operations "
      "that "
      "need the last of them fail",
      use.links, use.limit, use.open, use.links + use.open);
}

uint64_t OpenDescriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator open("/proc/self/fd", error);
  if (error) return 0;
  return static_cast<uint64_t>(std::distance(begin(open), end(open))) - 1;  // its own
}

uint64_t DescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return limit.rlim_cur;
}

}  // namespace weft
