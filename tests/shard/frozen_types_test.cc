// Frozen params and buffers of every element type, beside a trainable one: loaded, gathered, read, broadcast and verified
// byte for byte by every preset.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gmock/gmock.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::frozen_types_test {
namespace {

using testing::HasSubstr;

constexpr weft_dtype_t kTypes[] = {WEFT_INT8,    WEFT_UINT8,    WEFT_INT32,       WEFT_UINT32,
                                   WEFT_INT64,   WEFT_UINT64,   WEFT_FLOAT16,     WEFT_FLOAT32,
                                   WEFT_FLOAT64, WEFT_BFLOAT16, WEFT_FLOAT8_E4M3, WEFT_FLOAT8_E5M2,
                                   WEFT_BOOL};

// Nothing, one, around the 128 elements between which is cut, and many.
constexpr int64_t kCounts[] = {0, 1, 127, 129, 5003};

struct Case {
  weft_shard_preset_t preset;
  int ranks;
  std::vector<int> axes;
  CutRule cut = CutRule::kElements;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const auto preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_ZERO2,
                            WEFT_SHARD_GRAD_OP, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_FRACTION}) {
    for (const int ranks : {1, 2, 3})
      cases.push_back({preset, ranks, {}});
  }
  cases.push_back({WEFT_SHARD_HYBRID_SHARD, 4, {2, 2}});
  cases.push_back({WEFT_SHARD_HPZ, 4, {2, 2}});
  cases.push_back({WEFT_SHARD_FULL_SHARD, 3, {}, CutRule::kParams});
  cases.push_back({WEFT_SHARD_FULL_SHARD, 3, {}, CutRule::kRows});
  return cases;
}

// Any bytes are values of any type: NaNs with payloads, and bools that are neither 0 nor 1, stay as they are.
std::vector<std::byte> Values(int param, const ParamSpec& spec, uint64_t seed) {
  std::vector<std::byte> values(spec.count * DtypeSize(spec.dtype));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::byte>(Mix(Mix(seed + static_cast<uint64_t>(param)) + i));
  return values;
}

// Of each type one unit: a frozen param of each count, and one trainable float32.
absl::Status DeclareTypes(Context& context, const Placement& placement) {
  for (const weft_dtype_t dtype : kTypes) {
    const std::string name = DtypeName(dtype);
    WEFT_ASSIGN_OR_RETURN(const int unit, context.BeginUnit(name, placement));
    for (const int64_t count : kCounts) {
      WEFT_RETURN_IF_ERROR(
          context
              .AddParam(unit, StrCat(name, ".", count), &count, 1, dtype, WEFT_SHARD_PARAM_FROZEN)
              .status());
    }
    const int64_t trainable = 300;
    WEFT_RETURN_IF_ERROR(
        context.AddParam(unit, StrCat(name, ".weight"), &trainable, 1, WEFT_FLOAT32).status());
    WEFT_RETURN_IF_ERROR(context.SealUnit(unit));
  }
  return absl::OkStatus();
}

class Model {
 public:
  explicit Model(Context& context) : context_(context) {}

  int count() const { return static_cast<int>(context_.registry().params().size()); }

  const ParamSpec& spec(int param) const {
    return context_.registry().params()[static_cast<size_t>(param)];
  }

  // Param by param from another root, or from every rank.
  absl::Status Load(int ranks, uint64_t seed) {
    for (int param = 0; param < count(); ++param) {
      const int root = param % (ranks + 1) == ranks ? Context::kEveryRank : param % (ranks + 1);
      const std::vector<std::byte> values = Values(param, spec(param), seed);
      WEFT_RETURN_IF_ERROR(context_.Load(param, values.data(), root));
    }
    return absl::OkStatus();
  }

  // On every rank, or on one: then the others need no room, and what they pass is not written to.
  absl::Status ExpectRead(int rank, int ranks, uint64_t seed) {
    for (int param = 0; param < count(); ++param) {
      for (int root = Context::kEveryRank; root < ranks; ++root) {
        const std::vector<std::byte> expected = Values(param, spec(param), seed);
        const std::vector<std::byte> untouched(expected.size(), std::byte{0x5a});
        std::vector<std::byte> values = untouched;
        const bool gets = root == Context::kEveryRank || root == rank;
        const bool passes = gets || (param + root) % 2 == 0;
        WEFT_RETURN_IF_ERROR(context_.Read(param, passes ? values.data() : nullptr, root));
        EXPECT_TRUE(values == (gets ? expected : untouched)) << spec(param).name << " " << root;
      }
    }
    return absl::OkStatus();
  }

  // While `unit` is in use.
  absl::Status ExpectViews(int unit, uint64_t seed) {
    for (int param = 0; param < count(); ++param) {
      if (spec(param).unit != unit) continue;
      WEFT_ASSIGN_OR_RETURN(const ParamView view, context_.View(param));
      EXPECT_EQ(view.dtype, spec(param).dtype);
      EXPECT_EQ(view.count, spec(param).count);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(view.data) % 64, 0u) << spec(param).name;
      if (spec(param).frozen) {
        EXPECT_EQ(view.grad, nullptr) << spec(param).name;
      }
      const std::vector<std::byte> values = Values(param, spec(param), seed);
      if (values.empty()) continue;
      EXPECT_EQ(std::memcmp(view.data, values.data(), values.size()), 0) << spec(param).name;
    }
    return absl::OkStatus();
  }

  absl::Status Step(uint64_t seed) {
    const auto units = static_cast<int>(context_.registry().units().size());
    WEFT_RETURN_IF_ERROR(context_.StepBegin(WEFT_SHARD_TRAIN, 0));
    WEFT_RETURN_IF_ERROR(context_.MicrobatchBegin(0, true));
    for (int unit = 0; unit < units; ++unit) {
      WEFT_RETURN_IF_ERROR(context_.PreForward(unit));
      WEFT_RETURN_IF_ERROR(ExpectViews(unit, seed));
      WEFT_RETURN_IF_ERROR(context_.PostForward(unit));
    }
    for (int unit = units - 1; unit >= 0; --unit) {
      WEFT_RETURN_IF_ERROR(context_.PreBackward(unit));
      WEFT_RETURN_IF_ERROR(ExpectViews(unit, seed));
      for (int param = 0; param < count(); ++param) {
        if (spec(param).unit != unit || spec(param).frozen) continue;
        WEFT_RETURN_IF_ERROR(context_.GradReady(param, nullptr));
      }
      WEFT_RETURN_IF_ERROR(context_.PostBackward(unit));
    }
    WEFT_RETURN_IF_ERROR(context_.MicrobatchEnd());
    WEFT_RETURN_IF_ERROR(context_.Finish().status());
    return context_.StepEnd();
  }

 private:
  Context& context_;
};

TEST(FrozenTypes, AreGatheredAndReadByteForByteByEveryPreset) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(StrCat(PresetName(one.preset), ", ", one.ranks, " ranks"));
    Placement placement = PlacementOf(one.preset);
    placement.cut = one.cut;
    ExpectAllOk(RunRanks(GroupKind::kLocal, one.ranks,
                         [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                           WEFT_ASSIGN_OR_RETURN(
                               auto context,
                               MakeContext(group, {.memory = {.poison = true}}, one.axes));
                           WEFT_RETURN_IF_ERROR(DeclareTypes(*context, placement));
                           WEFT_RETURN_IF_ERROR(context->Finalize().status());
                           Model model(*context);
                           for (const uint64_t seed : {1, 2}) {
                             WEFT_RETURN_IF_ERROR(model.Load(one.ranks, seed));
                             WEFT_RETURN_IF_ERROR(context->Verify());
                             WEFT_RETURN_IF_ERROR(model.Step(seed));
                             WEFT_RETURN_IF_ERROR(model.Step(seed));
                             WEFT_RETURN_IF_ERROR(model.ExpectRead(rank, one.ranks, seed));
                           }
                           return absl::OkStatus();
                         }));
  }
}

// What exists more than once is copied from one rank, and compared: a byte that differs is found, and its param named.
TEST(FrozenTypes, AreBroadcastAndVerified) {
  for (const weft_dtype_t dtype : kTypes) {
    SCOPED_TRACE(DtypeName(dtype));
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 3, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
          WEFT_RETURN_IF_ERROR(
              AddUnitWithParam(*context, "u", {1000}, dtype, /*frozen=*/true).status());
          WEFT_RETURN_IF_ERROR(context->Finalize().status());
          WEFT_ASSIGN_OR_RETURN(const ParamView view, context->View(0));
          const std::vector<std::byte> values = Values(rank, context->registry().params()[0], 7);
          std::memcpy(view.data, values.data(), values.size());
          WEFT_RETURN_IF_ERROR(context->Broadcast(1));
          const std::vector<std::byte> expected = Values(1, context->registry().params()[0], 7);
          EXPECT_EQ(std::memcmp(view.data, expected.data(), expected.size()), 0);
          WEFT_RETURN_IF_ERROR(context->Verify());
          if (rank == 2) static_cast<std::byte*>(view.data)[999] ^= std::byte{1};
          const absl::Status differs = context->Verify();
          EXPECT_EQ(ResultOf(differs), WEFT_MISMATCH) << differs;
          EXPECT_EQ(FieldsOf(differs).rank, 2);
          EXPECT_EQ(FieldsOf(differs).param, "u.weight");
          return absl::OkStatus();
        }));
  }
}

TEST(FrozenTypes, OnlyFourAreTrainable) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 1, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_ASSIGN_OR_RETURN(const int unit, context->BeginUnit("u"));
        const int64_t count = 4;
        for (const weft_dtype_t dtype : kTypes) {
          const bool trainable = dtype == WEFT_FLOAT16 || dtype == WEFT_BFLOAT16 ||
                                 dtype == WEFT_FLOAT32 || dtype == WEFT_FLOAT64;
          const absl::Status added =
              context->AddParam(unit, DtypeName(dtype), &count, 1, dtype).status();
          EXPECT_EQ(ResultOf(added), trainable ? WEFT_SUCCESS : WEFT_INVALID_ARGUMENT) << added;
          if (trainable) continue;
          EXPECT_THAT(std::string(added.message()), HasSubstr("WEFT_SHARD_PARAM_FROZEN"));
        }
        const auto unknown = static_cast<weft_dtype_t>(99);
        const absl::Status refused =
            context->AddParam(unit, "x", &count, 1, unknown, WEFT_SHARD_PARAM_FROZEN).status();
        EXPECT_EQ(ResultOf(refused), WEFT_INVALID_ARGUMENT) << refused;
        return context->SealUnit(unit);
      }));
}

}  // namespace
}  // namespace weft::frozen_types_test
