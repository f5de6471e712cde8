// What a run will take of each rank's memory, worked out before any of it is taken.
//
//   const RunPlan plan = PlanRun(config, rank, ranks);
//   fmt::print("{}", DescribePlan(config, plan, ranks, corpus.train.size()));
//   CheckMemory(group, plan);                     // throws BadInput on all ranks if a machine has not got so much
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_PLAN_H_
#define WEFT_TRAINER_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/group.h"
#include "weft/shard.h"

#include "trainer/config.h"

namespace weft::trainer {

// Of one rank.
struct RunPlan {
  weft_shard_plan_t sharding = {};
  uint64_t activation_bytes = 0;  // and what products work in

  // At the peak.
  uint64_t Bytes() const { return sharding.peak_bytes + activation_bytes; }
};

// Local. Throws BadInput or WeftFailure for what cannot be planned, such as a budget that is too
// small.
RunPlan PlanRun(const TrainConfig& config, size_t rank, size_t ranks);

// What the products of a model work in, beside activations and weights; the largest has so many
// rows, which are tokens.
uint64_t ProductBytes(const ModelConfig& model, Precision precision, NumberType weights,
                      size_t rows, size_t threads);

// "GPT" or "Llama".
const char* ArchitectureName(const ModelConfig& model);

// "8 heads", "8 heads over 2 of keys and values".
std::string DescribeHeads(const ModelConfig& model);

// The lines before step 1 that say what is trained, and how. `train_bytes`: of the text; 0: it is
// not known, and epochs are not told.
std::string DescribePlan(const TrainConfig& config, const RunPlan& plan, size_t ranks,
                         size_t train_bytes);

// "11.45 MB of parameters, ..., 2.10 MB of activations: 14.8 MB per rank": the parts of Bytes().
std::string DescribeMemory(const RunPlan& plan);

// What a process that trains has beside the plan and its text: libraries, generated code, and what
// they keep (measured: docs/perf/trainer.md).
uint64_t ProgramBytes(Precision precision);

// What can be had without taking it from other programs; as much as there can be if the kernel does
// not say.
uint64_t FreeMemoryBytes();

// Ranks of one machine have the same.
uint64_t ThisMachine();

// What to do where a run does not fit.
inline constexpr const char* kRunMemoryAdvice =
    "use a smaller model, --batch or --seq, a --strategy that shards more, --offload, or more "
    "machines";

// Compares what the ranks of each machine will take together with what is free there. `advice`:
// what to do where that is too little. Collective.
void CheckMemory(weft_group_t group, const RunPlan& plan, const char* advice = kRunMemoryAdvice);

// "4.50 MB", powers of 1000.
std::string FormatBytes(uint64_t bytes);

// "1 rank has" or "3 ranks have".
std::string Counted(size_t count, const char* one, const char* several);

// "4.50 M".
std::string FormatCount(double count);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_PLAN_H_
