#include "tests/shard/checkpoint/job_runs.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "base/status.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"

namespace weft {

const StateCase& ThreeRanks() {
  static const StateCase setup{.preset = WEFT_SHARD_FULL_SHARD,
                               .ranks = 3,
                               .optimizer = StateOptimizer(WEFT_OPTIMIZER_ADAMW)};
  return setup;
}

CheckpointOptions InDirectory(std::string directory) {
  return {.directory = std::move(directory), .timeout_ns = 60'000'000'000};
}

WholeState RunJob(const StateCase& setup, Files& files, const CheckpointOptions& options,
                  const JobBody& body) {
  std::vector<Saved> saved(static_cast<size_t>(setup.ranks));
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, setup.ranks,
               [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                 WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
                 WEFT_ASSIGN_OR_RETURN(auto checkpoint, Checkpoint::Create(group, files, options));
                 WEFT_RETURN_IF_ERROR(checkpoint->AddContext("", *context));
                 WEFT_RETURN_IF_ERROR(body(rank, *context, *checkpoint));
                 WEFT_ASSIGN_OR_RETURN(saved[static_cast<size_t>(rank)], SaveState(*context));
                 return absl::OkStatus();
               }));
  return MergeStates(saved, setup.optimizer);
}

WholeState TrainAndSave(const StateCase& setup, Files& files, Checkpoint::How how) {
  return RunJob(setup, files, InDirectory("/c"),
                [&](int rank, Context& context, Checkpoint& checkpoint) -> absl::Status {
                  WEFT_RETURN_IF_ERROR(LoadValues(context));
                  WEFT_RETURN_IF_ERROR(TrainSteps(context, setup, rank, 0, kSavedSteps));
                  WEFT_RETURN_IF_ERROR(checkpoint.Save(kSavedSteps, how));
                  return checkpoint.WaitUntil(std::numeric_limits<int64_t>::max()).status();
                });
}

WholeState LoadAndTrain(const StateCase& setup, Files& files, int steps) {
  return RunJob(setup, files, InDirectory("/c"),
                [&](int rank, Context& context, Checkpoint& checkpoint) -> absl::Status {
                  WEFT_ASSIGN_OR_RETURN(const Checkpoint::Loaded loaded,
                                        checkpoint.Load(-1, WEFT_SHARD_STATE_ALL));
                  EXPECT_EQ(loaded.step, kSavedSteps);
                  WEFT_RETURN_IF_ERROR(context.Verify());
                  return TrainSteps(context, setup, rank, kSavedSteps, steps);
                });
}

}  // namespace weft
