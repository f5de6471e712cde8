// Parameters: views, broadcast, verify; and the mesh.
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "gmock/gmock.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::params_test {
namespace {

using testing::HasSubstr;

constexpr GroupKind kBothKinds[] = {GroupKind::kLocal, GroupKind::kReference};

// Writes values that depend on `seed` to all params.
absl::Status Fill(Context& context, const std::vector<ModelParam>& model, uint64_t seed) {
  for (size_t i = 0; i < model.size(); ++i) {
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(static_cast<int>(i)));
    EXPECT_EQ(view.count, model[i].count());
    EXPECT_EQ(view.dtype, model[i].dtype);
    EXPECT_EQ(view.data == nullptr, view.count == 0);
    EXPECT_EQ(view.grad == nullptr, view.count == 0 || model[i].frozen);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(view.grad) % 64, 0u);
    for (size_t e = 0; e < view.count; ++e)
      static_cast<uint16_t*>(view.data)[e] = Mix(seed + i + e);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Context>> FinalizedModel(std::shared_ptr<ProcessGroup> group,
                                                        const std::vector<ModelParam>& model) {
  WEFT_ASSIGN_OR_RETURN(
      auto context,
      MakeContext(std::move(group), {.limits = {.bucket_bytes = 300, .first_bucket_bytes = 100}}));
  WEFT_RETURN_IF_ERROR(Declare(*context, model));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

class ParamsTest : public testing::TestWithParam<int> {};

TEST_P(ParamsTest, AreCopiedFromAnyRoot) {
  const std::vector<ModelParam> model = SmallModel();
  for (const GroupKind kind : kBothKinds) {
    for (const int root : {0, GetParam() - 1}) {
      ExpectAllOk(RunRanks(
          kind, GetParam(), [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
            WEFT_ASSIGN_OR_RETURN(auto context, FinalizedModel(group, model));
            WEFT_RETURN_IF_ERROR(Fill(*context, model, static_cast<uint64_t>(rank) * 1000));
            WEFT_RETURN_IF_ERROR(context->Broadcast(root));
            for (size_t i = 0; i < model.size(); ++i) {
              WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(static_cast<int>(i)));
              for (size_t e = 0; e < view.count; ++e) {
                const auto want =
                    static_cast<uint16_t>(Mix(static_cast<uint64_t>(root) * 1000 + i + e));
                EXPECT_EQ(static_cast<const uint16_t*>(view.data)[e], want) << model[i].name;
              }
            }
            return context->Verify();
          }));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, ParamsTest, testing::ValuesIn(kRankSet));

TEST(Verify, NamesTheFirstParamThatDiffers) {
  const std::vector<ModelParam> model = SmallModel();
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 4, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, FinalizedModel(group, model));
        WEFT_RETURN_IF_ERROR(context->Verify());
        // One bit in blocks.1.bias on rank 1, and a later param on rank 2.
        for (const auto& [who, param] : {std::pair(1, 8), std::pair(2, 11)}) {
          WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(param));
          if (rank == who) static_cast<char*>(view.data)[view.count - 1] ^= 1;
        }
        const absl::Status found = context->Verify();
        EXPECT_TRUE(context->Broadcast(3).ok()) << "a difference leaves the context usable";
        EXPECT_TRUE(context->Verify().ok());
        return found;
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
    EXPECT_EQ(FieldsOf(status).rank, 1);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("parameter blocks.1.bias: rank 1 has other values than ranks 0, 2, 3"));
  }
}

TEST(Verify, IgnoresPadding) {
  ExpectAllOk(RunRanks(GroupKind::kLocal, 2,
                       [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
                         WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {3}).status());
                         WEFT_RETURN_IF_ERROR(context->Finalize().status());
                         WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
                         static_cast<float*>(view.data)[3] = static_cast<float>(rank);
                         return context->Verify();
                       }));
}

TEST(Broadcast, RefusesARootOutsideTheGroup) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        for (const int root : {-1, 2}) {
          EXPECT_EQ(ResultOf(context->Broadcast(root)), WEFT_INVALID_ARGUMENT);
        }
        return context->Broadcast(1);
      }));
}

TEST(Broadcast, NamesBothCallsWhenRootsDiffer) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kLocal, 2, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {3}).status());
        WEFT_RETURN_IF_ERROR(context->Finalize().status());
        return context->Broadcast(rank);
      });
  for (const absl::Status& status : statuses)
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
}

TEST(Mesh, ChecksItsAxes) {
  ExpectAllOk(RunRanks(GroupKind::kReference, 4, [](int, std::shared_ptr<ProcessGroup> group) {
    const auto result = [&](std::vector<MeshAxis> axes) {
      return ResultOf(Mesh::Create(group, std::move(axes)).status());
    };
    EXPECT_EQ(result({}), WEFT_SUCCESS);
    EXPECT_EQ(result({{"dp", 4}}), WEFT_SUCCESS);
    EXPECT_EQ(result({{"dp", 3}}), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(result({{"dp", 0}}), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(result({{"", 4}}), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(result({{"a", 2}, {"a", 2}}), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(result({{"a", 4}, {"b", 4}}), WEFT_INVALID_ARGUMENT);
    return absl::OkStatus();
  }));
}

// The sum of the ranks' numbers in the whole group, over a group that the mesh has split off.
absl::StatusOr<int32_t> SumOf(ProcessGroup& group, int32_t number) {
  WEFT_RETURN_IF_ERROR(group.Run({.kind = OpKind::kAllReduce,
                                  .dtype = WEFT_INT32,
                                  .count = 1,
                                  .in = &number,
                                  .out = &number}));
  return number;
}

TEST(Mesh, SplitsTheGroupAlongItsAxes) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 12, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        const int32_t bit = 1 << rank;
        {
          WEFT_ASSIGN_OR_RETURN(const auto mesh,
                                Mesh::Create(group, {{"a", 2}, {"b", 3}, {"c", 2}}));
          const int a = rank / 6;
          const int b = rank / 2 % 3;
          const int c = rank % 2;
          const auto at = [](int i, int j, int k) {
            return 1 << (i * 6 + j * 2 + k);
          };
          WEFT_ASSIGN_OR_RETURN(const int32_t along_a, SumOf(*mesh->axis_group(0), bit));
          WEFT_ASSIGN_OR_RETURN(const int32_t along_b, SumOf(*mesh->axis_group(1), bit));
          WEFT_ASSIGN_OR_RETURN(const int32_t along_c, SumOf(*mesh->inner(), bit));
          WEFT_ASSIGN_OR_RETURN(const int32_t across, SumOf(*mesh->outer(), bit));
          EXPECT_EQ(along_a, at(0, b, c) | at(1, b, c));
          EXPECT_EQ(along_b, at(a, 0, c) | at(a, 1, c) | at(a, 2, c));
          EXPECT_EQ(along_c, at(a, b, 0) | at(a, b, 1));
          EXPECT_EQ(across, 0b010101010101 << c);
          EXPECT_EQ(mesh->inner()->rank(), c);
          EXPECT_EQ(mesh->outer()->rank(), rank / 2);
          WEFT_RETURN_IF_ERROR(SumOf(*group, 0).status());  // nobody leaves before all are done
        }
        return absl::OkStatus();
      }));
}

}  // namespace
}  // namespace weft::params_test
