// Failures of shard calls name the unit and the param that they are about, in fields of their own.
#include <chrono>
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/bindings/context_owner.h"
#include "tests/bindings/last_error_info.h"
#include "tests/bindings/local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_error_test {
namespace {

using testing::StartsWith;

void ExpectSubject(const char* unit, const char* param) {
  const weft_error_info_t info = LastErrorInfo();
  EXPECT_STREQ(info.unit, unit) << weft_last_error();
  EXPECT_STREQ(info.param, param) << weft_last_error();
  EXPECT_EQ(info.device, -1);
}

// A rank's context with the units "a" and "b", each with the param "a.w" or "b.w" of `count` float32.
class Units : public ContextOwner {
 public:
  Units(weft_group_t group, weft_shard_preset_t preset) : ContextOwner(group) {
    policy_.struct_size = sizeof(policy_);
    policy_.preset = preset;
  }

  void Declare(int64_t count_of_a, int64_t count_of_b) {
    Add("a", "a.w", count_of_a, &a, &a_weight);
    Add("b", "b.w", count_of_b, &b, &b_weight);
  }

  weft_shard_unit_t a = nullptr;
  weft_shard_unit_t b = nullptr;
  weft_shard_param_t a_weight = nullptr;
  weft_shard_param_t b_weight = nullptr;

 private:
  void Add(const char* name, const char* param_name, int64_t count, weft_shard_unit_t* unit,
           weft_shard_param_t* param) {
    EXPECT_EQ(weft_shard_unit_begin(context, name, &policy_, unit), WEFT_SUCCESS);
    EXPECT_EQ(AddParam(*unit, param_name, &count, 1, WEFT_FLOAT32, 0, param), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_unit_seal(*unit), WEFT_SUCCESS);
  }

  weft_shard_policy_t policy_ = {};
};

// One rank per thread, each with a group that ends with the body.
template <typename Body>
void OnRanks(int ranks, const Body& body) {
  const weft_group_config_t config = ConfigNamed("errors");
  weft_group_t groups[8] = {};
  ASSERT_EQ(weft_group_create_local(ranks, &config, groups), WEFT_SUCCESS) << weft_last_error();
  OnThreads(ranks, [&](int rank) {
    body(rank, groups[rank]);
    EXPECT_EQ(weft_group_destroy(groups[rank]), WEFT_SUCCESS) << weft_last_error();
  });
}

TEST(ShardError, NamesUnitAndParamOfARefusedCall) {
  OnRanks(1, [](int, weft_group_t group) {
    Units units(group, WEFT_SHARD_FULL_SHARD);
    units.Declare(100, 200);
    weft_shard_unit_t unit = nullptr;
    EXPECT_EQ(weft_shard_unit_begin(units.context, "b", nullptr, &unit), WEFT_INVALID_ARGUMENT);
    ExpectSubject("b", "");
    weft_shard_param_t param = nullptr;
    EXPECT_EQ(AddParam(units.a, "late", nullptr, 0, WEFT_FLOAT32, 0, &param), WEFT_BAD_STATE);
    ExpectSubject("a", "late");
    weft_shard_view_t view = {};
    view.struct_size = sizeof(view);
    EXPECT_EQ(weft_shard_param_view(units.b_weight, &view), WEFT_BAD_STATE);
    ExpectSubject("b", "b.w");
    ASSERT_EQ(weft_shard_context_finalize(units.context, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_forward(units.a, nullptr), WEFT_BAD_STATE);
    ExpectSubject("a", "");
    EXPECT_EQ(weft_shard_grad_ready(units.b_weight, nullptr, nullptr), WEFT_BAD_STATE);
    ExpectSubject("b", "b.w");
    EXPECT_EQ(ReadValues(units.a_weight, nullptr), WEFT_INVALID_ARGUMENT);
    ExpectSubject("a", "a.w");
    // A failure that is about no unit says so.
    EXPECT_EQ(weft_barrier(nullptr, nullptr, nullptr), WEFT_INVALID_ARGUMENT);
    ExpectSubject("", "");
  });
}

TEST(ShardError, NamesTheParamOfAListThatIsWrong) {
  OnRanks(1, [](int, weft_group_t group) {
    Units units(group, WEFT_SHARD_NO_SHARD);
    const int64_t shape[] = {4};
    const weft_shard_param_config_t specs[] = {
        {sizeof(weft_shard_param_config_t), "blocks.0.w", shape, 1, WEFT_FLOAT32, 0},
        {sizeof(weft_shard_param_config_t), "blocks.1.w", shape, 1, WEFT_INT32, 0}};
    weft_shard_grouping_t grouping = {};
    grouping.struct_size = sizeof(grouping);
    grouping.by_prefix = "blocks.*";
    weft_shard_param_t params[2] = {};
    weft_shard_unit_t made[2] = {};
    size_t count = 2;
    EXPECT_EQ(
        weft_shard_add_units(units.context, specs, 2, &grouping, nullptr, params, made, &count),
        WEFT_INVALID_ARGUMENT);
    ExpectSubject("blocks.1", "blocks.1.w");
  });
}

TEST(ShardError, CutsNamesThatAreLongerThanTheField) {
  OnRanks(1, [](int, weft_group_t group) {
    Units units(group, WEFT_SHARD_NO_SHARD);
    const std::string name = std::string(40, 'u') + "." + std::string(200, 'v');
    weft_shard_unit_t unit = nullptr;
    ASSERT_EQ(weft_shard_unit_begin(units.context, name.c_str(), nullptr, &unit), WEFT_SUCCESS);
    weft_shard_param_t param = nullptr;
    EXPECT_EQ(AddParam(unit, "w", nullptr, 0, WEFT_INT8, 0, &param), WEFT_INVALID_ARGUMENT);
    ExpectSubject(name.substr(0, 63).c_str(), "w");
  });
}

// Names are the program's own, and may have any character.
TEST(ShardError, KeepsItsFieldsWhateverANameHas) {
  OnRanks(1, [](int, weft_group_t group) {
    Units units(group, WEFT_SHARD_NO_SHARD);
    weft_shard_unit_t unit = nullptr;
    ASSERT_EQ(weft_shard_unit_begin(units.context, "u\x1fv", nullptr, &unit), WEFT_SUCCESS);
    weft_shard_param_t param = nullptr;
    EXPECT_EQ(AddParam(unit, "w\x1f", nullptr, 0, WEFT_INT8, 0, &param), WEFT_INVALID_ARGUMENT);
    EXPECT_STREQ(LastErrorInfo().operation, "unit_add_param");
    ExpectSubject("u?v", "w?");
  });
}

TEST(ShardError, NamesTheDeclarationInWhichRanksDiffer) {
  OnRanks(3, [](int rank, weft_group_t group) {
    Units units(group, WEFT_SHARD_ZERO1);
    units.Declare(100, rank == 1 ? 201 : 200);
    EXPECT_EQ(weft_shard_context_finalize(units.context, nullptr), WEFT_MISMATCH);
    ExpectSubject("b", "b.w");
    EXPECT_EQ(LastErrorInfo().rank, 1);
  });
}

TEST(ShardError, NamesTheParamWhoseValuesDiffer) {
  OnRanks(3, [](int rank, weft_group_t group) {
    Units units(group, WEFT_SHARD_NO_SHARD);
    units.Declare(100, 200);
    ASSERT_EQ(weft_shard_context_finalize(units.context, nullptr), WEFT_SUCCESS)
        << weft_last_error();
    const std::vector<float> values(200, rank == 2 ? 2.0f : 1.0f);
    EXPECT_EQ(LoadValues(units.b_weight, values.data(), WEFT_SHARD_EVERY_RANK), WEFT_MISMATCH);
    ExpectSubject("b", "b.w");
    EXPECT_EQ(LastErrorInfo().rank, 2);
    EXPECT_EQ(weft_shard_context_verify(units.context), WEFT_MISMATCH);
    ExpectSubject("b", "b.w");
    EXPECT_EQ(LastErrorInfo().rank, 2);
  });
}

// Every rank is told of the unit that it waited for, then and in later calls.
TEST(ShardError, NamesTheUnitThatCouldNotBeGathered) {
  std::promise<void> begun;
  OnRanks(2, [&begun](int rank, weft_group_t group) {
    Units units(group, WEFT_SHARD_FULL_SHARD);
    units.Declare(1000, 2000);
    ASSERT_EQ(weft_shard_context_finalize(units.context, nullptr), WEFT_SUCCESS)
        << weft_last_error();
    ASSERT_EQ(StepBegin(units.context, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    // Rank 1 starts no gather, and leaves when rank 0 has started its own.
    if (rank == 1) {
      begun.get_future().wait_for(std::chrono::seconds(60));
      EXPECT_EQ(weft_shard_abort_step(units.context, "no data"), WEFT_SUCCESS);
      return;
    }
    EXPECT_EQ(MicrobatchBegin(units.context, 0, 1), WEFT_SUCCESS) << weft_last_error();
    begun.set_value();
    weft_result_t result = weft_shard_pre_forward(units.a, nullptr);
    if (result == WEFT_SUCCESS) {
      EXPECT_EQ(weft_shard_post_forward(units.a, nullptr), WEFT_SUCCESS);
      result = weft_shard_pre_forward(units.b, nullptr);
    }
    EXPECT_EQ(result, WEFT_ABORTED) << weft_last_error();
    EXPECT_EQ(LastErrorInfo().rank, 1);
    const std::string unit = LastErrorInfo().unit;
    EXPECT_TRUE(unit == "a" || unit == "b") << unit;
    EXPECT_EQ(weft_shard_finish(units.context, nullptr, nullptr), WEFT_ABORTED);
    EXPECT_EQ(LastErrorInfo().unit, unit);
    EXPECT_THAT(weft_last_error(), StartsWith("finish: an earlier call failed"));
  });
}

}  // namespace
}  // namespace weft::test::shard_error_test
