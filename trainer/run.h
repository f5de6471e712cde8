// One run of the program on this rank: data, training, the report; and with --elastic, going on when other ranks are lost.
//
//   Run run(config, group);
//   run.ToTheEnd();
//
// When a rank is lost the others make the group anew, agree on the state of the rank that is furthest, and go on with a trainer
// on the new group. Each keeps its share of the batch, so the batch of a step shrinks with the number of ranks.
//
// Every function is collective over the ranks of the group. Throws BadInput or RunFailure. Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_RUN_H_
#define WEFT_TRAINER_RUN_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/group.h"

#include "trainer/config.h"
#include "trainer/corpus.h"
#include "trainer/curve.h"
#include "trainer/failure.h"
#include "trainer/report.h"
#include "trainer/train.h"
#include "trainer/train_state.h"

namespace weft::trainer {

// Rank and process of one that is gone.
struct LostRank {
  int world_rank = -1;
  int pid = -1;
};

// The configuration of a run that began with `at_first` ranks, now that it has `now`: a rank's share of the batch stays.
TrainConfig ForRanks(const TrainConfig& config, size_t at_first, size_t now);

class Run {
 public:
  // The group is borrowed.
  Run(const ProgramConfig& config, weft_group_t group);

  void ToTheEnd();

 private:
  void Begin();
  void Train();
  // Validates where that is due, and reports.
  void EndStep(const StepRecord& record);
  void End();
  // Whom the failure is due to, if a rank was lost and the others may go on.
  std::optional<LostRank> WhoWasLost(const WeftFailure& failure) const;
  void GoOnWithout(const LostRank& lost);
  void SayWhoGoesOn(const std::string& lost, const TrainConfig& now);
  void BecomeFirst();
  void AskGroup();
  std::string RunName();

  const ProgramConfig config_;
  const weft_group_t group_;
  const std::chrono::steady_clock::time_point start_;
  const Corpus corpus_;
  const std::vector<size_t> some_, many_;  // windows that are validated in between, and at the end
  std::chrono::steady_clock::time_point training_start_;
  size_t rank_ = 0;
  size_t size_ = 1;
  size_t size_at_first_ = 1;
  std::unique_ptr<Trainer> trainer_;
  TrainState state_;                // of an elastic run: as of the last loss of a rank
  std::string directory_;           // where rank 0 writes
  std::unique_ptr<Report> report_;  // of rank 0
  Curve curve_;                     // of all ranks: any may become rank 0
  size_t reported_ = 0;             // steps
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RUN_H_
