// Jobs that save and load checkpoints: a context on each rank, and its checkpoint.
//
//   SimFiles files;
//   TrainAndSave(ThreeRanks(), files, Checkpoint::How::kBackground);
//   EXPECT_EQ(LoadAndTrain(others, files, 0).DifferenceFrom(...), "");
//
// What a rank returns that is not Ok fails the test.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "base/files.h"
#include "shard/checkpoint/checkpoint.h"
#include "tests/shard/saved_state.h"

namespace weft {

// The step that these save after.
inline constexpr int kSavedSteps = 3;

CheckpointOptions InDirectory(std::string directory);

// Three ranks that shard everything, trained by AdamW.
const StateCase& ThreeRanks();

// A context of the case on each rank, and its checkpoint; returns the whole state at the end.
using JobBody = std::function<absl::Status(int rank, Context& context, Checkpoint& checkpoint)>;
WholeState RunJob(const StateCase& setup, Files& files, const CheckpointOptions& options,
                  const JobBody& body);

// Trains kSavedSteps, and saves to "/c".
WholeState TrainAndSave(const StateCase& setup, Files& files, Checkpoint::How how);

// Loads that, and trains so many steps more.
WholeState LoadAndTrain(const StateCase& setup, Files& files, int steps);

}  // namespace weft
