// Whether a process has descriptors enough for all connections with ranks of other nodes that its ranks may come to need: they are made when the first
// message needs them, so too few would be noticed in the middle of a run.
//
//   if (const std::string lacks = DescriptorSentence({.links = 96, .open = OpenDescriptors(), .limit = DescriptorLimit()}); !lacks.empty())
//     LogWarn("group ", name, ": ", lacks);
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct DescriptorUse {
  uint64_t links = 0;  // connections that may be made
  uint64_t open = 0;   // descriptors of the process now
  uint64_t limit = 0;  // that it may have
};

// "" if there is room for all.
std::string DescriptorSentence(const DescriptorUse& use);

// 0 if the system does not tell; the limit if there is none left to ask with.
uint64_t OpenDescriptors();

// The soft limit of this process; UINT64_MAX: none.
uint64_t DescriptorLimit();

}  // namespace weft
