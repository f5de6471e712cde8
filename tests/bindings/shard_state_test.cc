// Checkpoints through shard_state.h: saved by the ranks of one layout, restored by those of another; what has no state; what is
// left after a failure.
#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/bindings/context_owner.h"
#include "tests/bindings/local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_state_test {
namespace {

using testing::HasSubstr;

constexpr weft_shard_state_kind_t kKinds[] = {WEFT_SHARD_STATE_VALUE, WEFT_SHARD_STATE_MAIN,
                                              WEFT_SHARD_STATE_MOMENT1, WEFT_SHARD_STATE_MOMENT2};
constexpr int64_t kRows = 37;
constexpr int64_t kColumns = 29;
constexpr size_t kTable = kRows * kColumns;
constexpr size_t kBias = 5;

weft_shard_state_part_t PartOf(weft_shard_param_t param, weft_shard_state_kind_t kind) {
  weft_shard_state_part_t part;
  std::memset(&part, 0x5a, sizeof(part));
  part.struct_size = sizeof(part);
  EXPECT_EQ(weft_shard_state_part(param, kind, &part), WEFT_SUCCESS) << weft_last_error();
  return part;
}

weft_shard_state_scalars_t ScalarsOf(weft_shard_context_t context) {
  weft_shard_state_scalars_t scalars;
  std::memset(&scalars, 0x5a, sizeof(scalars));
  scalars.struct_size = sizeof(scalars);
  EXPECT_EQ(weft_shard_state_scalars_get(context, &scalars), WEFT_SUCCESS) << weft_last_error();
  return scalars;
}

// A bfloat16 table with a small float32 bias and a frozen mask; a head that shares the table.
class Model : public ContextOwner {
 public:
  Model(weft_group_t group, weft_shard_preset_t preset, bool optimizer = true,
        const weft_shard_config_t* config = nullptr)
      : ContextOwner(group, config) {
    if (optimizer) {
      EXPECT_EQ(weft_shard_context_optimizer(context, nullptr), WEFT_SUCCESS);
    }
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = preset;
    EXPECT_EQ(weft_shard_unit_begin(context, "embed", &policy, &embed_), WEFT_SUCCESS);
    const int64_t of_table[] = {kRows, kColumns};
    EXPECT_EQ(AddParam(embed_, "table", of_table, 2, WEFT_BFLOAT16, 0, &table), WEFT_SUCCESS);
    const int64_t of_bias = kBias;
    EXPECT_EQ(AddParam(embed_, "bias", &of_bias, 1, WEFT_FLOAT32, 0, &bias), WEFT_SUCCESS);
    EXPECT_EQ(AddParam(embed_, "mask", &of_bias, 1, WEFT_BFLOAT16, WEFT_SHARD_PARAM_FROZEN, &mask),
              WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_unit_seal(embed_), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_unit_begin(context, "head", &policy, &head_), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_unit_tie_param(head_, "head.table", table, &tied), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_unit_seal(head_), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_context_finalize(context, nullptr), WEFT_SUCCESS) << weft_last_error();
  }

  void Load() const {
    std::vector<uint16_t> values(kTable);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<uint16_t>(0x3f00 + i % 128);  // 0.5 to 1
    for (const weft_shard_param_t param : {table, mask}) {
      EXPECT_EQ(LoadValues(param, values.data(), WEFT_SHARD_EVERY_RANK), WEFT_SUCCESS)
          << weft_last_error();
    }
  }

  // Gradients depend on step and element only.
  void Step(int step) const {
    EXPECT_EQ(StepBegin(context, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    EXPECT_EQ(MicrobatchBegin(context, 0, 1), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_forward(embed_, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_post_forward(embed_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_pre_backward(embed_, nullptr), WEFT_SUCCESS) << weft_last_error();
    std::vector<uint16_t> of_table(kTable);
    for (size_t i = 0; i < of_table.size(); ++i) {
      const size_t mixed = i * 2654435761u + static_cast<size_t>(step) * 40503u;
      of_table[i] = static_cast<uint16_t>(mixed % 2 * 0x8000 + 0x3e00 + mixed / 2 % 128);
    }
    EXPECT_EQ(weft_shard_grad_ready(table, of_table.data(), nullptr), WEFT_SUCCESS);
    const std::vector<float> of_bias(kBias, static_cast<float>(step) - 1.5f);
    EXPECT_EQ(weft_shard_grad_ready(bias, of_bias.data(), nullptr), WEFT_SUCCESS);
    EXPECT_EQ(weft_shard_post_backward(embed_, nullptr), WEFT_SUCCESS);
    EXPECT_EQ(UpdateAndEndStep(context, 0.01), WEFT_SUCCESS) << weft_last_error();
  }

  weft_shard_param_t table = nullptr;
  weft_shard_param_t bias = nullptr;
  weft_shard_param_t mask = nullptr;
  weft_shard_param_t tied = nullptr;

 private:
  weft_shard_unit_t embed_ = nullptr;
  weft_shard_unit_t head_ = nullptr;
};

// What lies in files: each state of each param, whole.
struct Files {
  std::mutex mutex;
  std::array<std::array<std::vector<char>, 4>, 3> states;  // by param, kind
  std::array<std::array<size_t, 4>, 3> written = {};       // elements
  weft_shard_state_scalars_t scalars = {};

  void Save(const Model& model) {
    const weft_shard_param_t params[] = {model.table, model.bias, model.mask};
    const size_t counts[] = {kTable, kBias, kBias};
    for (size_t p = 0; p < 3; ++p) {
      for (const weft_shard_state_kind_t kind : kKinds) {
        const weft_shard_state_part_t part = PartOf(params[p], kind);
        if (part.write_count == 0) continue;
        const size_t size = weft_dtype_size(part.dtype);
        const std::lock_guard<std::mutex> lock(mutex);
        states[p][kind].resize(counts[p] * size);
        char* const to = states[p][kind].data() + part.write_begin * size;
        EXPECT_EQ(weft_shard_state_read(params[p], kind, part.write_begin, part.write_count, to),
                  WEFT_SUCCESS)
            << weft_last_error();
        EXPECT_EQ(part.data == nullptr, part.offloaded != 0);
        if (part.data != nullptr) {
          EXPECT_EQ(
              std::memcmp(
                  to, static_cast<const char*>(part.data) + (part.write_begin - part.begin) * size,
                  part.write_count * size),
              0);
        }
        written[p][kind] += part.write_count;
      }
    }
    const std::lock_guard<std::mutex> lock(mutex);
    scalars = ScalarsOf(model.context);
  }

  void Restore(const Model& model) const {
    EXPECT_EQ(weft_shard_state_scalars_set(model.context, &scalars), WEFT_SUCCESS)
        << weft_last_error();
    const weft_shard_param_t params[] = {model.table, model.bias, model.mask};
    for (size_t p = 0; p < 3; ++p) {
      for (const weft_shard_state_kind_t kind : kKinds) {
        const weft_shard_state_part_t part = PartOf(params[p], kind);
        if (part.count == 0) continue;
        const size_t size = weft_dtype_size(part.dtype);
        const char* const from = states[p][kind].data() + part.begin * size;
        if (part.data != nullptr) {
          std::memcpy(part.data, from, part.count * size);
        } else {
          EXPECT_EQ(weft_shard_state_write(params[p], kind, part.begin, part.count, from),
                    WEFT_SUCCESS)
              << weft_last_error();
        }
      }
    }
    EXPECT_EQ(weft_shard_state_written(model.context, WEFT_SHARD_STATE_ALL, nullptr), WEFT_SUCCESS)
        << weft_last_error();
    EXPECT_EQ(weft_shard_context_verify(model.context), WEFT_SUCCESS) << weft_last_error();
  }
};

TEST(ShardState, GoesOnUnderAnotherPresetWithTheSameBits) {
  constexpr int kRanks = 3;
  Files half;
  Files whole;
  Files resumed;
  OnLocalRanks(kRanks, [&](int, weft_group_t group) {
    const Model model(group, WEFT_SHARD_FULL_SHARD);
    model.Load();
    model.Step(0);
    model.Step(1);
    half.Save(model);
    (void)weft_barrier(group, nullptr, nullptr);
    model.Step(2);
    model.Step(3);
    whole.Save(model);
  });
  for (const auto& of_param : half.written) {
    for (const size_t count : of_param)
      EXPECT_TRUE(count == 0 || count == kTable || count == kBias) << count;
  }
  EXPECT_EQ(half.scalars.update_count, 2);
  EXPECT_EQ(half.scalars.steps_begun, 2);
  for (const weft_shard_preset_t preset : {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO2}) {
    OnLocalRanks(kRanks, [&](int, weft_group_t group) {
      const Model model(group, preset);
      half.Restore(model);
      model.Step(2);
      model.Step(3);
      resumed.Save(model);
    });
    EXPECT_EQ(resumed.states, whole.states);
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): it has no padding, and the same bits are what is promised
    EXPECT_EQ(std::memcmp(&resumed.scalars, &whole.scalars, sizeof(whole.scalars)), 0);
  }
}

// From files and into them.
TEST(ShardState, GoesOnWhereItIsOffloadedWithTheSameBits) {
  constexpr int kRanks = 2;
  const weft_shard_offload_t offload = {
      .struct_size = sizeof(offload), .directory = "/tmp", .buffer_bytes = 1 << 20};
  weft_shard_config_t config = {};
  config.struct_size = sizeof(config);
  config.offload = &offload;
  Files half;
  Files whole;
  OnLocalRanks(kRanks, [&](int, weft_group_t group) {
    const Model model(group, WEFT_SHARD_ZERO1);
    model.Load();
    model.Step(0);
    half.Save(model);
    (void)weft_barrier(group, nullptr, nullptr);
    model.Step(1);
    whole.Save(model);
  });
  for (const bool from_half : {false, true}) {
    Files resumed;
    OnLocalRanks(kRanks, [&](int, weft_group_t group) {
      const Model model(group, WEFT_SHARD_FULL_SHARD, /*optimizer=*/true, &config);
      weft_shard_plan_t plan = {};
      plan.struct_size = sizeof(plan);
      EXPECT_EQ(weft_shard_context_plan(model.context, &plan), WEFT_SUCCESS) << weft_last_error();
      // The half of a table with its main copies, at least.
      EXPECT_GE(plan.offload_bytes, kTable / 2 * 12);
      EXPECT_EQ(plan.offload_read_bytes, plan.offload_bytes);
      EXPECT_EQ(plan.offload_written_bytes, plan.offload_bytes);
      if (from_half) {
        half.Restore(model);
      } else {
        model.Load();
        model.Step(0);
      }
      model.Step(1);
      resumed.Save(model);
      const weft_shard_state_part_t part = PartOf(model.table, WEFT_SHARD_STATE_MAIN);
      EXPECT_EQ(part.offloaded, 1);
      EXPECT_EQ(part.data, nullptr);
      float none = 0;
      EXPECT_EQ(weft_shard_state_read(model.table, WEFT_SHARD_STATE_MAIN, part.begin + part.count,
                                      1, &none),
                WEFT_INVALID_ARGUMENT);
      EXPECT_THAT(weft_last_error(), HasSubstr("this rank keeps"));
    });
    EXPECT_EQ(resumed.states, whole.states);
  }
}

TEST(ShardState, SaysWhatThereIsNot) {
  OnLocalRanks(2, [](int, weft_group_t group) {
    for (const bool optimizer : {false, true}) {
      const Model model(group, WEFT_SHARD_ZERO1, optimizer);
      model.Load();
      const auto expect = [](weft_shard_param_t param, weft_shard_state_kind_t kind, bool there) {
        const weft_shard_state_part_t part = PartOf(param, kind);
        EXPECT_EQ(part.struct_size, sizeof(part));
        EXPECT_EQ(part.replicas > 0, there);
        if (there) return;
        EXPECT_EQ(part.data, nullptr);
        EXPECT_EQ(part.count, 0u);
        EXPECT_EQ(part.write_count, 0u);
      };
      for (const weft_shard_param_t param : {model.table, model.bias, model.mask, model.tied})
        expect(param, WEFT_SHARD_STATE_VALUE, true);
      expect(model.table, WEFT_SHARD_STATE_MAIN, optimizer);
      expect(model.bias, WEFT_SHARD_STATE_MAIN, false);
      expect(model.bias, WEFT_SHARD_STATE_MOMENT2, optimizer);
      for (const weft_shard_state_kind_t kind : kKinds) {
        if (kind != WEFT_SHARD_STATE_VALUE) expect(model.mask, kind, false);
        const weft_shard_state_part_t shared = PartOf(model.table, kind);
        const weft_shard_state_part_t tied = PartOf(model.tied, kind);
        EXPECT_EQ(shared.data, tied.data) << "one storage";
        EXPECT_EQ(shared.count, tied.count);
        EXPECT_EQ(shared.replicas, tied.replicas);
      }
      // ZERO1: both ranks have the values, each has half of the state.
      const weft_shard_state_part_t value = PartOf(model.table, WEFT_SHARD_STATE_VALUE);
      EXPECT_EQ(value.count, kTable);
      EXPECT_EQ(value.replicas, 2);
      EXPECT_LT(value.write_count, kTable);
      EXPECT_EQ(value.dtype, WEFT_BFLOAT16);
      if (!optimizer) continue;
      const weft_shard_state_part_t main = PartOf(model.table, WEFT_SHARD_STATE_MAIN);
      EXPECT_EQ(main.dtype, WEFT_FLOAT32);
      EXPECT_EQ(main.replicas, 1);
      EXPECT_EQ(main.begin, value.write_begin);
      EXPECT_EQ(main.count, value.write_count);
    }
  });
}

TEST(ShardState, IsSavedByARankThatHasFailed) {
  OnLocalRanks(2, [](int rank, weft_group_t group) {
    const Model model(group, WEFT_SHARD_FULL_SHARD);
    model.Load();
    model.Step(0);
    (void)weft_barrier(group, nullptr, nullptr);
    EXPECT_EQ(StepBegin(model.context, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
    weft_shard_state_part_t part = {};
    part.struct_size = sizeof(part);
    EXPECT_EQ(weft_shard_state_part(model.table, WEFT_SHARD_STATE_MAIN, &part), WEFT_BAD_STATE);
    EXPECT_THAT(weft_last_error(), HasSubstr("between steps"));
    // The other may find the abort still inside.
    (void)weft_barrier(group, nullptr, nullptr);
    EXPECT_EQ(weft_shard_abort_step(model.context, rank == 0 ? "no memory" : "no data"),
              WEFT_SUCCESS);
    part = PartOf(model.table, WEFT_SHARD_STATE_MAIN);
    EXPECT_GT(part.count, 0u);
    EXPECT_NE(static_cast<const float*>(part.data)[0], 0);
    EXPECT_EQ(ScalarsOf(model.context).update_count, 1);
    const weft_shard_state_scalars_t scalars = ScalarsOf(model.context);
    EXPECT_NE(weft_shard_state_scalars_set(model.context, &scalars), WEFT_SUCCESS);
    EXPECT_NE(weft_shard_state_written(model.context, WEFT_SHARD_STATE_ALL, nullptr), WEFT_SUCCESS);
  });
}

}  // namespace
}  // namespace weft::test::shard_state_test
