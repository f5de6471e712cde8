// The sequences of a step, and how they are dealt: train_batch_size = micro-batch x micro-batches x
// ranks, whichever of these are given.
//
//   config = WithDefaults(config, ranks);     // solved
//   CheckBatch(config, ranks);                // throws BadInput: they contradict each other
//
// Without a size of micro-batches any number of sequences will do: each micro-batch of each rank
// has as many as the others, or one less.
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_BATCH_H_
#define WEFT_TRAINER_BATCH_H_

#include <cstddef>
#include <string>

namespace weft::trainer {

struct TrainConfig;

// With what `ranks` decides where the user has not: a batch of 4, or of one sequence per
// micro-batch of each rank if these are more; the optimizer's and the model's own numbers.
TrainConfig WithDefaults(const TrainConfig& config, size_t ranks);

// Throws BadInput with the nearest numbers that fit. `config` has its defaults.
void CheckBatch(const TrainConfig& config, size_t ranks);

// Sequences of the largest micro-batch of any rank.
size_t LargestMicroBatch(const TrainConfig& config, size_t ranks);

// "2 on each rank", or "1 or 2 on each rank": how a step's sequences are dealt.
std::string DescribeShares(const TrainConfig& config, size_t ranks);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_BATCH_H_
