// What stands behind the handles of the C interface.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "weft/completion_queue.h"
#include "weft/types.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bindings/c/current_group.h"
#include "comm/group/completion_queue.h"
#include "comm/group/fork.h"
#include "comm/group/process_group.h"
#include "comm/group/work.h"
#include "comm/rendezvous/store.h"

namespace weft {
class BatchedWork;
}  // namespace weft

// The first word tells a handle from something else and a live one from a destroyed one (groups': handle_pool.h), `origin` one of this process from
// its parent's, with which a forked child can do nothing. A store is callbacks only, and a child may use it.
struct weft_group {
  static constexpr uint64_t kMagic = 0x70756f7267746677ULL;
  static constexpr uint64_t kRetired = ~kMagic;

  void SetLive(bool live) { magic = live ? kMagic : kRetired; }

  uint64_t magic = kRetired;
  weft::Origin origin;
  weft::CurrentGroup group;
  bool of_mesh = false;                    // constant: it is one of a mesh
  std::atomic<bool> reconfiguring{false};  // by one thread
  // It was reconfigured without this rank, which can do nothing more with it.
  std::atomic<bool> left_out{false};
};

struct weft_work {
  weft_work() = default;
  weft_work(const weft_work&) = delete;
  weft_work& operator=(const weft_work&) = delete;

  ~weft_work() { delete sentence.load(std::memory_order_relaxed); }

  static constexpr uint64_t kMagic = 0x6b726f7774666577ULL;
  uint64_t magic = kMagic;
  weft::Origin origin;
  weft::WorkRef work;
  std::shared_ptr<weft::BatchedWork> batched;  // the same as `work`, if it was noted in a batch
  std::atomic<const std::string*> sentence{
      nullptr};  // of its failure, once somebody has asked; owned
};

struct weft_completion_queue {
  static constexpr uint64_t kMagic = 0x6575657563746677ULL;
  uint64_t magic = kMagic;
  weft::Origin origin;
  std::shared_ptr<weft::CompletionQueue> queue;
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

// INVALID_ARGUMENT for NULL and for what is not a live group's handle, FORKED for that of a parent of this
// process.
absl::Status CheckGroup(std::string_view call, weft_group_t group);

// The work of a handle, with a reference of its own: a callback that runs within the call may free the handle. Errors as
// CheckGroup's, and BAD_STATE while the work's batch has not ended.
absl::StatusOr<WorkRef> WorkOf(weft_work_t work, std::string_view call);

}  // namespace weft
