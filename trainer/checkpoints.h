// Checkpoints of a run: what is in them beside weights and optimizer state, where they are, and
// which one a run goes on from.
//
//   Checkpoints checkpoints(group, trainer.parallel(), directory, keep, config, {});
//   if (std::optional<Resumed> resumed = checkpoints.Resume()) ...         // collective
//   checkpoints.Save(record, place);                                       // in the background; no rank waits for another
//   checkpoints.Finish();                                                  // until the last one is committed
//
// Beside the context a checkpoint has one value, "run": the record of the last step, the place in
// the training text, and all options with what tells that text from others. So the next run reads
// on where this one has stopped, whatever its batch, says which options are other ones, and refuses
// those that would make it another run.
//
// The model must outlive it. Throws BadInput for what is no checkpoint for this run: of another
// model, or saved by a run of other options, damaged, of a newer version, or in a directory that
// cannot be read or written; WeftFailure if the group fails. Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_CHECKPOINTS_H_
#define WEFT_TRAINER_CHECKPOINTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "weft/checkpoint.h"
#include "weft/group.h"

#include "trainer/parallel.h"
#include "trainer/resolved_config.h"
#include "trainer/sampler.h"
#include "trainer/train.h"

namespace weft::trainer {

// Where the run that a checkpoint is of had come to.
struct Resumed {
  StepRecord last;
  SamplePlace place;  // of the next step
  std::string path;   // of the checkpoint
  int ranks = 0;      // that saved it
  // What the ranks' options were before and are now, where they differ: "--lr 0.001 -> 0.01".
  // Empty: nowhere.
  std::string differences;
};

// The checkpoint, or the files of another program, whose values a run begins with.
struct InitialValues {
  std::string path;
  int ranks = 0;                    // that saved it; 0: it is of another program
  std::vector<std::string> unused;  // tensors that the model has not
  std::vector<std::string> kept;    // the model's that it has not
};

// Whether a directory is a checkpoint, and not one of several.
bool HasManifest(const std::string& directory);

class Checkpoints {
 public:
  // `directory`: of all checkpoints of this run; `changed`: keys of `config` that may be other ones
  // than those of a checkpoint, though they say what is trained. Collective.
  Checkpoints(weft_group_t group, const DataParallel& parallel, const std::string& directory,
              size_t keep, const ResolvedConfig& config, const std::vector<std::string>& changed);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Loads the latest checkpoint there is, or that of a step; nothing if there is none. Collective.
  std::optional<Resumed> Resume(std::optional<int64_t> step = std::nullopt);
  // Loads the values of params alone, whoever has written them, from what
  // weft_checkpoint_load_config_t has as its source: all of them, or with `partial` those that are
  // on both sides. Nothing if there are none. Collective.
  std::optional<InitialValues> TakeValues(const std::string& source, bool partial);
  // That rank 0 may write here, or make the directory. Collective.
  void CheckWritable() const;
  // The state after a step. A save that fails is told of by weft's warning, and training goes on.
  // Steps that were saved are passed over.
  void Save(const StepRecord& record, const SamplePlace& next);
  // Until the last save has ended; false if it failed on this rank, which is said.
  bool Finish();

 private:
  static weft_result_t SaveRun(void* self, const void** bytes, size_t* count);
  static weft_result_t LoadRun(void* self, const void* bytes, size_t count);
  void ComplainOfLast() const;
  std::string RunText() const;
  // What is wrong with it, in words.
  std::string ReadRun(const std::string& text);
  // Compares the options of a checkpoint, values by key, with this run's: what refuses it, in
  // words.
  std::string CompareOptions(const std::map<std::string, std::string>& saved);
  // As weft_checkpoint_load; `attempt` begins the sentence of a BadInput.
  weft_checkpoint_loaded_t Load(const weft_checkpoint_load_config_t& config, const char* attempt);

  const weft_group_t group_;
  const std::string directory_;
  const ResolvedConfig config_;
  const std::vector<std::string> changed_;
  weft_checkpoint_t checkpoint_ = nullptr;
  StepRecord record_;
  SamplePlace place_;
  std::string text_;         // of the value, while it is saved
  std::string refused_;      // why the checkpoint that was looked at is none for this run
  std::string differences_;  // of its options from this run's
  size_t last_saved_ = 0;
  bool last_refused_ = false;  // the last save did not begin
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CHECKPOINTS_H_
