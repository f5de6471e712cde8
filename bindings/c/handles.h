// What stands behind the handles of the C interface.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "weft/types.h"

#include "comm/group/process_group.h"
#include "comm/group/work.h"
#include "comm/rendezvous/store.h"

namespace weft {
class BatchedWork;
}  // namespace weft

// The first word tells a handle from something else and a live one from a freed one.
struct weft_group {
  static constexpr uint64_t kMagic = 0x70756f7267746677ULL;
  uint64_t magic = kMagic;
  std::shared_ptr<weft::ProcessGroup> group;
};

struct weft_work {
  static constexpr uint64_t kMagic = 0x6b726f7774666577ULL;
  uint64_t magic = kMagic;
  weft::WorkRef work;
  std::shared_ptr<weft::BatchedWork> batched;  // the same as `work`, if it was noted in a batch
};

struct weft_store {
  static constexpr uint64_t kMagic = 0x65726f7473746677ULL;
  uint64_t magic = kMagic;
  std::unique_ptr<weft::Store> store;
};

namespace weft {

// False for NULL and for what is not a live group's handle.
inline bool IsGroup(weft_group_t group) {
  return group != nullptr && group->magic == weft_group::kMagic;
}

// The group of a handle; nullptr for NULL and for what is not a group's handle.
std::shared_ptr<ProcessGroup> GroupOf(weft_group_t group);

}  // namespace weft
