// Params that rest with the optimizer's state in a file, read for gathers while the step goes on.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<PartSource> params,
//                         ParamReads::Start(layout, plan, std::move(memory), std::move(store), [doorbell] { doorbell->Ring(); }));
//
// It has a store of its own, of the same bytes as the optimizer's, and goes past the windows that are in memory: between updates the file has
// all params (offloaded_state.h), and during an update nothing is gathered. What is read goes to a few buffers first, because the disk wants
// addresses that a part need not have.
//
// Threads: one, which sleeps when there is nothing to read, and calls `told` after each fetch; in a forked child it is the parent's.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "shard/layout/block.h"
#include "shard/layout/layout.h"
#include "shard/layout/part_source.h"
#include "shard/offload/block_store.h"
#include "shard/offload/offloaded_state.h"
#include "shard/offload/value_runs.h"

namespace weft {

class ParamReads : public PartSource {
 public:
  // `memory` has plan.reads.bytes() from its first aligned byte on. SYSTEM_ERROR if there is no thread to be had.
  static absl::StatusOr<std::unique_ptr<ParamReads>> Start(const Layout& layout,
                                                           const OffloadPlan& plan, Block memory,
                                                           std::unique_ptr<BlockStore> store,
                                                           std::function<void()> told);
  ParamReads(const ParamReads&) = delete;
  ParamReads& operator=(const ParamReads&) = delete;
  ~ParamReads() override;

  std::shared_ptr<PartFetch> Fetch(int unit, std::byte* whole) override;

  size_t bytes() const override { return memory_.bytes(); }

  absl::Status failure() const override;

 private:
  struct Request {
    int unit = 0;
    std::byte* whole = nullptr;
    std::shared_ptr<PartFetch> fetch;
  };

  // What is read of a unit, and where it goes from the unit's first byte on.
  struct Piece {
    ValueRun run;
    size_t to = 0;
  };

  ParamReads(const Layout& layout, const OffloadPlan& plan, Block memory,
             std::unique_ptr<BlockStore> store, std::function<void()> told);

  void Loop();
  // The next one, when there is one; false at the end.
  bool Next(Request* request);
  // Keeps all buffers busy. Ends at the first failure, or when the fetch has ended.
  absl::Status Read(const Request& request);

  std::vector<std::vector<Piece>> pieces_;  // by unit
  const uint64_t fork_generation_;
  Block memory_;
  std::vector<std::byte*> buffers_;
  const std::unique_ptr<BlockStore> store_;  // the thread's
  const std::function<void()> told_;
  mutable Mutex mutex_;
  std::condition_variable asked_or_ending_;
  std::deque<Request> requests_ WEFT_GUARDED_BY(mutex_);
  bool ending_ WEFT_GUARDED_BY(mutex_) = false;
  absl::Status failure_ WEFT_GUARDED_BY(mutex_);
  bool memory_is_lost_ = false;  // the thread's; then the destructor's
  std::thread thread_;
};

}  // namespace weft
