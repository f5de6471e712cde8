// With poison, params that are resharded hold 0xff: who goes on reading it reads NaN. Numbers are the same.
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "tests/shard/ranks.h"
#include "tests/shard/trained_model.h"

namespace weft::poison_test {
namespace {

const TrainedModelOptions kModel{.preset = WEFT_SHARD_FULL_SHARD, .counts = {640, 1031, 3, 512}};

absl::StatusOr<std::shared_ptr<const Mesh>> MeshOf(std::shared_ptr<ProcessGroup> group,
                                                   std::vector<MeshAxis> axes = {}) {
  return Mesh::Create(std::move(group), std::move(axes));
}

bool AllPoison(const std::vector<unsigned char>& bytes) {
  for (const unsigned char byte : bytes) {
    if (byte != 0xff) return false;
  }
  return !bytes.empty();
}

// Reads what a caller who kept the address would read. The pool stays mapped, so this is memory of the process.
std::vector<unsigned char> Stale(const void* data, size_t bytes) {
  std::vector<unsigned char> read(bytes);
  std::memcpy(read.data(), data, bytes);
  return read;
}

TEST(Poison, IsReadThroughAStaleViewAfterPostForward) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        // Without prefetch nothing else takes the place before it is read.
        WEFT_ASSIGN_OR_RETURN(auto mesh, MeshOf(std::move(group)));
        TrainedModel model(kModel);
        WEFT_RETURN_IF_ERROR(model.Make(mesh, {.prefetch = 0, .memory = {.poison = true}}));
        Context& context = model.context();
        WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_EVAL, 0));
        WEFT_RETURN_IF_ERROR(context.MicrobatchBegin(0, true));
        WEFT_RETURN_IF_ERROR(context.PreForward(1));
        WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(1));
        EXPECT_FALSE(std::isnan(static_cast<const float*>(view.data)[1030]));
        WEFT_RETURN_IF_ERROR(context.PostForward(1));
        const auto stale = Stale(view.data, view.count * sizeof(float));
        EXPECT_TRUE(AllPoison(stale));
        float first = 0;
        std::memcpy(&first, stale.data(), sizeof(first));
        EXPECT_TRUE(std::isnan(first));
        WEFT_RETURN_IF_ERROR(context.MicrobatchEnd());
        return context.StepEnd();
      }));
}

TEST(Poison, IsInGradientsThatWereReduced) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto mesh, MeshOf(std::move(group)));
        TrainedModel model(kModel);
        WEFT_RETURN_IF_ERROR(model.Make(mesh, {.memory = {.poison = true}}));
        std::vector<std::pair<const void*, size_t>> gradients;
        WEFT_RETURN_IF_ERROR(model.Step([&](std::string_view call) -> absl::Status {
          if (call == "pre_backward" && gradients.empty()) {
            WEFT_ASSIGN_OR_RETURN(const ParamView view, model.context().View(3));
            gradients.emplace_back(view.grad, view.count * sizeof(float));
          }
          if (call != "finish") return absl::OkStatus();
          for (const auto& [data, bytes] : gradients)
            EXPECT_TRUE(AllPoison(Stale(data, bytes)));
          return absl::OkStatus();
        }));
        EXPECT_EQ(gradients.size(), 1u);
        return absl::OkStatus();
      }));
}

struct Case {
  weft_shard_preset_t preset;
  int ranks;
  std::vector<MeshAxis> axes;
};

TEST(Poison, ChangesNoBit) {
  const Case cases[] = {{WEFT_SHARD_ZERO1, 2, {}},
                        {WEFT_SHARD_ZERO2, 3, {}},
                        {WEFT_SHARD_GRAD_OP, 2, {}},
                        {WEFT_SHARD_FULL_SHARD, 3, {}},
                        {WEFT_SHARD_HYBRID_SHARD, 4, {{"a", 2}, {"b", 2}}},
                        {WEFT_SHARD_HPZ, 4, {{"a", 2}, {"b", 2}}},
                        {WEFT_SHARD_FRACTION, 2, {}}};
  for (const Case& one : cases) {
    for (const int microbatches : {1, 3}) {
      SCOPED_TRACE(StrCat("preset ", one.preset, ", ", microbatches, " micro-batches"));
      std::vector<float> results[2];
      for (const bool poison : {false, true}) {
        ExpectAllOk(RunRanks(
            GroupKind::kLocal, one.ranks,
            [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
              WEFT_ASSIGN_OR_RETURN(auto mesh, MeshOf(std::move(group), one.axes));
              TrainedModelOptions options = kModel;
              options.preset = one.preset;
              options.microbatches = microbatches;
              TrainedModel model(options);
              WEFT_RETURN_IF_ERROR(model.Make(mesh, {.accumulation = WEFT_SHARD_REDUCE_EVERY,
                                                     .microbatches = microbatches,
                                                     .memory = {.poison = poison}}));
              for (int step = 0; step < 3; ++step)
                WEFT_RETURN_IF_ERROR(model.Step());
              std::swap(model.order[0], model.order[2]);  // served on demand, beyond the pool
              for (int step = 0; step < 2; ++step)
                WEFT_RETURN_IF_ERROR(model.Step());
              WEFT_ASSIGN_OR_RETURN(auto weights, model.Read());
              if (rank == 0) results[poison ? 1 : 0] = std::move(weights);
              return absl::OkStatus();
            }));
      }
      ASSERT_EQ(results[0].size(), 2186u);
      ASSERT_EQ(results[1].size(), results[0].size());
      EXPECT_EQ(
          std::memcmp(results[0].data(), results[1].data(), results[0].size() * sizeof(float)), 0);
      EXPECT_FALSE(std::isnan(results[0][0]));
    }
  }
}

}  // namespace
}  // namespace weft::poison_test
