// Which window of the training text stands in which slot of which step.
//
//   WindowSampler sampler(text.size(), seq, global_batch, seed);
//   size_t at = sampler.Offset(step, slot);    // inputs [at, at + seq), targets one token later
//
//   SamplePlace next = sampler.PlaceOf(step);  // for a run that goes on from there, with whatever batch
//   sampler.StartAt(step, next);
//
// The global batch of a step depends on the seed and the step, not on the number of ranks, which
// take successive slots of it (ShareOf). Windows of one epoch do not overlap and none is used
// twice; each epoch starts the grid elsewhere and uses another order (permutation.h), which is
// computed and not kept: a text of any size takes no memory here.
//
// Thread-safety: between calls of StartAt any number of threads may ask.
#ifndef WEFT_TRAINER_SAMPLER_H_
#define WEFT_TRAINER_SAMPLER_H_

#include <cstddef>
#include <cstdint>

namespace weft::trainer {

// Where a step begins to read: so many windows of the epoch have been used.
struct SamplePlace {
  size_t epoch = 0;
  size_t position = 0;
  bool operator==(const SamplePlace&) const = default;
};

// A run of slots of a step's batch.
struct Share {
  size_t first = 0;
  size_t count = 0;
};

// The part of a batch that piece `index` of `pieces` gets: all together are the batch, and none has
// more than one slot more than another. Of n ranks with m micro-batches each, micro-batch k of rank
// r is piece r * m + k.
Share ShareOf(size_t batch, size_t pieces, size_t index);

class WindowSampler {
 public:
  // Throws BadInput when a batch is empty, or the text has fewer windows than one.
  WindowSampler(size_t text_tokens, size_t seq, size_t global_batch, uint64_t seed);

  // `step` begins at `place`, and later ones follow it; by default step 0 at the beginning. A place
  // beyond the epoch's windows begins the next one.
  void StartAt(size_t step, const SamplePlace& place);

  // Of a step from the first on.
  SamplePlace PlaceOf(size_t step) const;
  size_t Offset(size_t step, size_t slot) const;

  size_t steps_per_epoch() const { return steps_per_epoch_; }

 private:
  const size_t seq_;
  const size_t global_batch_;
  const uint64_t seed_;
  size_t window_count_;
  size_t shift_count_;  // how many places the grid can start at
  size_t steps_per_epoch_;
  size_t first_step_ = 0;  // which begins at first_
  SamplePlace first_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_SAMPLER_H_
