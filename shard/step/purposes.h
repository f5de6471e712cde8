// What the collectives of a context are for: ranks that make them for different things are told, in names.
//
//   Purposes purposes(registry);
//   call.purpose = purposes.Of(Purpose::Kind::kLoad, param);
//   purposes.BeginStep();
//   call.purpose = purposes.OfReduction(bucket);
//
// Gathers run ahead of the calls that need them, by as much as this rank has room, so only the unit is compared; of
// reductions and norms also the step, and which of its reducing micro-batches it is.
//
// Thread-safety: numbers are guarded by the context's mutex; names are constant from finalize on, before which only
// the thread in finalize communicates. Outlives all operations that have its purposes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/group/purpose.h"
#include "shard/layout/layout.h"
#include "shard/layout/registry.h"

namespace weft {

class Purposes final : public PurposeNames {
 public:
  // `registry` outlives this.
  explicit Purposes(const Registry& registry) : registry_(registry) {}

  // From finalize on: the number that tells the context from others on the group, on all ranks alike, and its layout,
  // which outlives this.
  void SetContext(uint64_t context, const Layout* layout) {
    context_ = context;
    layout_ = layout;
  }

  // A training step begins; a micro-batch of any step; a micro-batch that is reduced; no micro-batch is left.
  void BeginStep() {
    ++step_;
    reducing_ = 0;
  }

  // Goes on after so many training steps.
  void SetStep(int64_t step) { step_ = static_cast<uint64_t>(step); }

  void BeginMicrobatch(int index) { microbatch_ = index; }

  void BeginReducing() { ++reducing_; }

  void EndMicrobatches() { microbatch_ = -1; }

  // The same at any time.
  CallPurpose Of(Purpose::Kind kind, int subject = -1) const;
  // Belongs to this step, and to this micro-batch among those that are reduced.
  CallPurpose InStep(Purpose::Kind kind, int subject = -1) const;

  CallPurpose OfReduction(int bucket) const { return InStep(Purpose::Kind::kReduce, bucket); }

  int64_t step() const { return static_cast<int64_t>(step_); }

  std::optional<std::string> SubjectOf(const Purpose& purpose) const override;

 private:
  CallPurpose Make(Purpose::Kind kind, int subject, uint64_t round) const;

  const Registry& registry_;
  const Layout* layout_ = nullptr;
  uint64_t context_ = 0;
  uint64_t step_ = 0;      // of training, from 1
  uint64_t reducing_ = 0;  // micro-batches of the step that are reduced, this one included
  int microbatch_ = -1;
};

}  // namespace weft
