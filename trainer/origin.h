// Where a run begins: at its first step, after a step that this run or another one has saved
// (--resume, or a job that is started again), or with the values of something that was saved
// (--init).
//
//   const Origin origin(config, resolved, group, "runs/x/checkpoints", /*own=*/false);
//   const std::optional<Resumed> resumed = origin.Resume(trainer, &checkpoints);
//   if (!resumed) values = origin.TakeValues(trainer, checkpoints.get());
//
// Making checkpoints, Resume and TakeValues are collective over the ranks of the group. All throw
// BadInput. Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_ORIGIN_H_
#define WEFT_TRAINER_ORIGIN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "weft/group.h"

#include "trainer/checkpoints.h"
#include "trainer/config.h"
#include "trainer/resolved_config.h"
#include "trainer/train.h"

namespace weft::trainer {

class Origin {
 public:
  // `checkpoints`: the directory of this run's; `own`: this job has saved there, and goes on from
  // that whatever it began with. config and group are borrowed.
  Origin(const ProgramConfig& config, ResolvedConfig resolved, weft_group_t group,
         std::string checkpoints, bool own);

  // This run's.
  std::unique_ptr<Checkpoints> MakeCheckpoints(const Trainer& trainer) const;
  // Of its best state, beside these.
  std::unique_ptr<Checkpoints> MakeBest(const Trainer& trainer) const;

  // Loads what the run goes on from; nothing if it begins anew. *checkpoints: this run's, if it
  // saves.
  std::optional<Resumed> Resume(const Trainer& trainer,
                                std::unique_ptr<Checkpoints>* checkpoints) const;

  // Loads the values of --init, if it is given. `checkpoints`: this run's, nullptr if it does not
  // save.
  std::optional<InitialValues> TakeValues(Trainer& trainer, Checkpoints* checkpoints) const;

  // On rank 0 of a run that has resumed: the steps that the other run has made are shown as this
  // one's, which is written in `directory`. Throws NotWritten.
  void TakeMetricsAlong(const std::string& directory) const;

 private:
  // From which directory of checkpoints, or from which checkpoint, the run goes on; "": from none.
  std::string From() const;
  // The step of --resume, if it is one.
  std::optional<int64_t> Step() const;
  // Loads them from a model of transformers or llm.c, which rank 0 reads; false if --init is none.
  bool TakeOtherPrograms(Trainer& trainer) const;
  std::unique_ptr<Checkpoints> CheckpointsOf(const Trainer& trainer, const std::string& directory,
                                             size_t keep) const;

  const ProgramConfig& config_;
  const ResolvedConfig resolved_;
  const weft_group_t group_;
  const std::string checkpoints_;
  const bool own_;
};

// What rank 0 says of it; `size`: of the group.
std::string DescribeResumed(const Resumed& resumed, size_t size, size_t steps);
std::string DescribeValues(const InitialValues& values, size_t size);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ORIGIN_H_
