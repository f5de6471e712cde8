// Checkpoints of a run: what is in them beside weights and optimizer state, where they are, and which one a run goes on from.
//
//   Checkpoints checkpoints(setup, trainer);
//   if (std::optional<Resumed> resumed = checkpoints.Resume()) ...         // collective
//   checkpoints.Save(record, place);                                       // in the background; no rank waits for another
//   checkpoints.Finish();                                                  // until the last one is committed
//
// Beside the context a checkpoint has one value, "run": the record of the last step, the place in the training text and what that text
// is, so that the next run reads on where this one has stopped, whatever its batch.
//
// The trainer must outlive it. Throws BadInput for what is no checkpoint for this run: of another model, text or seed, damaged, of a newer
// version, or in a directory that cannot be read or written; WeftFailure if the group fails.
// Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_CHECKPOINTS_H_
#define WEFT_TRAINER_CHECKPOINTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "weft/checkpoint.h"
#include "weft/group.h"

#include "trainer/config.h"
#include "trainer/sampler.h"
#include "trainer/train.h"

namespace weft::trainer {

// Where the run that a checkpoint is of had come to.
struct Resumed {
  StepRecord last;
  SamplePlace place;  // of the next step
  std::string path;   // of the checkpoint
  int ranks = 0;      // that saved it
};

// The checkpoint whose values a run begins with.
struct InitialValues {
  std::string path;
  int ranks = 0;  // that saved it
};

// What must be the same when a run goes on.
struct RunIdentity {
  uint64_t seed = 0;
  uint64_t corpus = 0;  // CorpusDigest
  size_t seq = 0;
  size_t heads = 0;         // no shape tells it
  bool any_corpus = false;  // another text will do
};

class Checkpoints {
 public:
  // `directory`: of all checkpoints of this run; `config`: the text of config.json. Collective.
  Checkpoints(weft_group_t group, const Trainer& trainer, const std::string& directory, size_t keep,
              const std::string& config, const RunIdentity& identity);
  ~Checkpoints();
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;

  // Loads the latest checkpoint there is; nothing if there is none. Collective.
  std::optional<Resumed> Resume();
  // Loads the values of its params alone, whoever has written them, all of them. Collective.
  std::optional<InitialValues> TakeValues();
  // That rank 0 may write here, or make the directory. Collective.
  void CheckWritable() const;
  // The state after a step. A save that fails is told of by weft's warning, and training goes on. Steps that were saved are passed over.
  void Save(const StepRecord& record, const SamplePlace& next);
  // Until the last save has ended; false if it failed, which is said.
  bool Finish();

 private:
  static weft_result_t SaveRun(void* self, const void** bytes, size_t* count);
  static weft_result_t LoadRun(void* self, const void* bytes, size_t count);
  std::string RunText() const;
  // What is wrong with it, in words.
  std::string ReadRun(const std::string& text);
  // As weft_checkpoint_load; `attempt` begins the sentence of a BadInput.
  weft_checkpoint_loaded_t Load(uint32_t flags, const char* attempt);

  const weft_group_t group_;
  const std::string directory_;
  const RunIdentity identity_;
  weft_checkpoint_t checkpoint_ = nullptr;
  StepRecord record_;
  SamplePlace place_;
  std::string text_;     // of the value, while it is saved
  std::string refused_;  // why the checkpoint that was looked at is none for this run
  size_t last_saved_ = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CHECKPOINTS_H_
