// Where this rank's parts of params come from that do not rest in memory: what a gather of them begins with. A seam: a file in practice
// (shard/offload/param_reads.h).
//
//   std::shared_ptr<PartFetch> fetch = source.Fetch(unit, whole);
//   ... fetch->ended() ...
//   WEFT_RETURN_IF_ERROR(source.failure());
//   (gather the unit in place)
//
// A part goes to where it lies among those of the other ranks, so that nothing else has to have room for it.
//
// Thread-safety: each function says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/wait.h"
#include "comm/group/callback_work.h"

namespace weft {

// A part that is on its way. As a work it ends well in any case: what went wrong is the source's failure().
class PartFetch : public CallbackWork {
 public:
  bool Test() override { return ended(); }

  absl::Status Wait(int64_t timeout_ns) override;

  // Ends it before it has come: nothing is written to its destination from here on. Any thread; waits for a copy of a few MiB at most.
  void Cancel() { End(); }

  // The source's, on one thread: writes [to, to + bytes), unless the fetch has ended.
  void Copy(std::byte* to, const std::byte* from, size_t bytes);
  // It has come, or never will; only the first time counts.
  void End();

 private:
  EventCount end_;
  Mutex mutex_;
  bool over_ WEFT_GUARDED_BY(mutex_) = false;
};

class PartSource {
 public:
  // Ends all fetches.
  virtual ~PartSource() = default;

  // Starts to read this rank's parts of the unit's extents to where they lie in `whole`, which has the unit's bytes. Fetches end in the
  // order in which they were started. Never waits. One thread at a time.
  virtual std::shared_ptr<PartFetch> Fetch(int unit, std::byte* whole) = 0;

  // Of memory.
  virtual size_t bytes() const = 0;

  // What went wrong first, for good; Ok if nothing did. Any thread.
  virtual absl::Status failure() const = 0;
};

}  // namespace weft
