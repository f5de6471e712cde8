// A model that was saved, in the memory of the ranks, to be used and not trained: there are no
// gradients, and no optimizer.
//
//   LoadedModel loaded(config.use, group);
//   ... what depends on loaded.model() is checked ...
//   loaded.Load({.bytes = ..., .rows = ..., .advice = ...});
//   TextGenerator generator(loaded.model(), loaded.parallel(), prompt, threads);
//
// Every function but the accessors is collective over the ranks of the group. Throws BadInput,
// WeftFailure. Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_INFERENCE_LOADED_MODEL_H_
#define WEFT_TRAINER_INFERENCE_LOADED_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "weft/group.h"

#include "trainer/inference/use_config.h"
#include "trainer/matmul.h"
#include "trainer/model_files/saved_model.h"
#include "trainer/parallel.h"
#include "trainer/resolved_config.h"

namespace weft::trainer {

// What all ranks must have alike.
ResolvedConfig OptionsOf(const UseConfig& use);

// What a rank will take beside the weights.
struct WorkingMemory {
  uint64_t bytes = 0;
  size_t rows = 0;  // of the largest product, in tokens
  Precision precision = Precision::kFp32;
  const char* advice = "";  // which options make it less, as of CheckMemory
};

class LoadedModel {
 public:
  // Finds out what there is; nothing is loaded yet.
  LoadedModel(const UseConfig& use, weft_group_t group);

  SavedModel::Kind kind() const { return kind_; }

  const ModelConfig& model() const { return run_.model; }

  // Of one that is a run's.
  const RunModel& run() const { return run_; }

  size_t ranks() const { return ranks_; }

  // Throws BadInput if a machine has not got so much memory.
  void Load(const WorkingMemory& working);

  DataParallel& parallel() { return *parallel_; }

  // The checkpoint, or the other program's file.
  const std::string& path() const { return path_; }

  // "runs/a/checkpoints/step-00000050: GPT, 5 layers x 128 wide, ...", as a line.
  std::string Describe() const;

 private:
  const UseConfig use_;
  const weft_group_t group_;
  const size_t ranks_;
  SavedModel::Kind kind_ = SavedModel::Kind::kRun;
  RunModel run_;
  std::unique_ptr<DataParallel> parallel_;
  std::string path_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_INFERENCE_LOADED_MODEL_H_
