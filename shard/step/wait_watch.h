// Finds ranks of a context that wait for each other in different groups, where no group sees a difference.
//
//   auto watch = WaitWatch::Make(mesh_group, shape, context_number, wait);   // nullptr: ranks cannot see each other
//   std::shared_ptr<ProcessGroup> gather = watch->Watch(ContextGroup::kGather, group);
//   ...
//   watch->NoteEnded();                     // at the looks of a wait that takes long
//   (do what may be done now that these have ended)
//   WEFT_RETURN_IF_ERROR(watch->Look(work, promises, "pre_forward block.0"));
//   watch->EndWait();                       // before anything else is done
//
// Every operation of the context goes through a watched group, which counts it and otherwise hands on all calls. A rank
// whose call waits long shows the others of the mesh its counts and for which operation it waits, on the mesh group's
// notice board, and takes that back before it starts anything. It reads what the others show; if some of them are stuck
// (stuck.h) and show the same at its next look, they are stuck for ever, and the watch says so: MISMATCH, with the call and the
// operation of each of them.
//
// Thread-safety: operations may be started by any thread, the rest is for the one that waits. Owns no thread.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/group/process_group.h"
#include "shard/step/stuck.h"

namespace weft {

class WaitWatch {
 public:
  // Waits for an operation that a watched group was asked to run.
  using Wait = std::function<absl::Status(Work&)>;

  // `mesh_group` has all ranks of the context.
  static std::unique_ptr<WaitWatch> Make(std::shared_ptr<ProcessGroup> mesh_group,
                                         const MeshShape& shape, Wait wait);
  ~WaitWatch();
  WaitWatch(const WaitWatch&) = delete;
  WaitWatch& operator=(const WaitWatch&) = delete;

  // Tells the context from others on the mesh's group, on all ranks alike; before its first operation.
  void SetContext(uint64_t context) { context_ = context; }

  // `group` with its operations counted. The watch outlives it. nullptr for nullptr.
  std::shared_ptr<ProcessGroup> Watch(ContextGroup channel, std::shared_ptr<ProcessGroup> group);

  // Counts operations that have ended. What they make possible has to be started before Look shows the counts.
  void NoteEnded();

  // Shows that this rank waits for `work`, in `call`. `promises`: nobody but those who complete operations will start one of
  // this context until the wait has ended; without that nothing is shown. MISMATCH if it will never end.
  absl::Status Look(const Work& work, bool promises, std::string_view call);

  void EndWait();

 private:
  class Group;

  struct Operation {
    const Work* work = nullptr;  // while whoever started it holds it; nullptr before
    WorkRef left;                // since nobody does, if it had not ended
    bool ended = false;          // when nobody did any more
    OpKind kind = OpKind::kBarrier;
    weft_dtype_t dtype = WEFT_UINT8;
    size_t count = 0;
  };

  struct Line {
    Line();

    OpCounts progress;                 // `ended` as NoteEnded found it
    uint64_t dropped = 0;              // operations that have ended and are not kept
    std::vector<Operation> under_way;  // the one after these, and so on
    std::string group;

    void DropEnded();
  };

  // What a rank shows, as it lies in a notice.
  struct Shown;

  // What was seen of a rank that shows something.
  struct Seen {
    int place = 0;
    uint64_t version = 0;
    std::string text;
  };

  // What was seen of all ranks at a look, and who was stuck by that.
  struct Suspicion {
    std::vector<RankWait> waits;
    std::vector<Seen> seen;
    std::vector<bool> stuck;
  };

  WaitWatch(std::shared_ptr<ProcessGroup> mesh_group, const MeshShape& shape, Wait wait);

  uint64_t Begin(ContextGroup channel, const Collective& call);
  void Began(ContextGroup channel, uint64_t number, const Work& work);
  void DidNotBegin(ContextGroup channel, uint64_t number);
  void Released(ContextGroup channel, uint64_t number, WorkRef work);
  // Clears what is shown.
  void Hide() WEFT_REQUIRES(mutex_);
  bool Show(const Work& work, std::string_view call);
  bool Describe(const Work& work, std::string_view call, Shown* shown) WEFT_REQUIRES(mutex_);
  Suspicion ReadAll() const;
  bool StandsAsBefore(const std::vector<Seen>& seen) const;
  absl::Status Report(const Suspicion& suspicion) const;

  const std::shared_ptr<ProcessGroup> mesh_group_;
  NoticeBoard& board_;
  const MeshShape shape_;
  const Wait wait_;
  uint64_t context_ = 0;

  Mutex mutex_;
  std::array<Line, kContextGroupCount> lines_ WEFT_GUARDED_BY(mutex_);
  int place_ WEFT_GUARDED_BY(mutex_) = -1;  // of the board, while something is shown
  WaitNotice notice_ WEFT_GUARDED_BY(mutex_) = {};

  // Only for the thread that waits: of the look before, if this rank was stuck; else empty.
  Suspicion suspicion_;
};

}  // namespace weft
