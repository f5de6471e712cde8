// Parts that are written while those of an update before are still being gathered.
#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "gmock/gmock.h"
#include "shard/layout/mesh.h"
#include "tests/shard/ranks.h"
#include "tests/shard/trained_model.h"

namespace weft::updated_parts_test {
namespace {

constexpr weft_shard_preset_t kGathersUpdates[] = {WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2};
const std::vector<int64_t> kCounts = {1000, 40000, 300};

// All own elements become `value`.
absl::Status Write(Context& context, float value) {
  for (size_t param = 0; param < kCounts.size(); ++param) {
    WEFT_ASSIGN_OR_RETURN(const auto part, context.OwnPart(static_cast<int>(param)));
    std::fill_n(static_cast<float*>(part.first.data), part.first.count, value);
  }
  return context.Updated();
}

absl::Status MakeModel(std::shared_ptr<ProcessGroup> group, TrainedModel& model) {
  WEFT_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(std::move(group), {}));
  return model.Make(mesh, {.limits = {.bucket_bytes = 512, .first_bucket_bytes = 512}});
}

// A gather may put back what it has read of this rank's own part before.
TEST(UpdatedParts, WrittenAgainAfterTheOptimizersStepAreNotLost) {
  for (const weft_shard_preset_t preset : kGathersUpdates) {
    const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
      TrainedModel model({.preset = preset, .counts = kCounts});
      WEFT_RETURN_IF_ERROR(MakeModel(group, model));
      // This one comes late to the gathers of what was updated.
      const auto at = [&](std::string_view call) {
        if (call == "finish" && rank == 1)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return absl::OkStatus();
      };
      for (int step = 1; step < 20; ++step) {
        WEFT_RETURN_IF_ERROR(model.Step(at));
        WEFT_RETURN_IF_ERROR(Write(model.context(), static_cast<float>(step)));
        WEFT_ASSIGN_OR_RETURN(const std::vector<float> read, model.Read());
        EXPECT_EQ(std::count(read.begin(), read.end(), static_cast<float>(step)), read.size())
            << "in step " << step << " on rank " << rank;
      }
      return absl::OkStatus();
    };
    ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
  }
}

// Between finish and optimizer_step: clamped weights, for example.
std::vector<float> WriteBeforeOptimizer(weft_shard_preset_t preset) {
  std::vector<float> result;
  const auto body = [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    TrainedModel model({.preset = preset, .counts = kCounts});
    WEFT_RETURN_IF_ERROR(MakeModel(group, model));
    for (int step = 1; step < 20; ++step) {
      const auto at = [&](std::string_view call) {
        if (call != "finish") return absl::OkStatus();
        return Write(model.context(), static_cast<float>(step));
      };
      WEFT_RETURN_IF_ERROR(model.Step(at));
      WEFT_ASSIGN_OR_RETURN(const std::vector<float> read, model.Read());
      if (rank == 0) result.insert(result.end(), read.begin(), read.end());
    }
    return absl::OkStatus();
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2, body));
  return result;
}

TEST(UpdatedParts, WrittenBeforeTheOptimizersStepAreUpdatedByIt) {
  const std::vector<float> whole = WriteBeforeOptimizer(WEFT_SHARD_NO_SHARD);
  for (const weft_shard_preset_t preset : kGathersUpdates) {
    SCOPED_TRACE(PresetName(preset));
    EXPECT_TRUE(WriteBeforeOptimizer(preset) == whole);
  }
}

}  // namespace
}  // namespace weft::updated_parts_test
