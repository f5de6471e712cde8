// Stable views, and unsharding to memory of the caller's, through the C interface.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "local_threads.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test::shard_views_test {
namespace {

using testing::HasSubstr;

constexpr int kUnits = 4;
constexpr int64_t kCount = 100;

// A rank's context of four units with FULL_SHARD, whose element i of unit u is 1000 u + i.
class Rank {
 public:
  Rank(weft_group_t group, const weft_shard_config_t& config) : group_(group) {
    EXPECT_EQ(weft_mesh_create(group, nullptr, &mesh_), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_context_create(mesh_, &config, &context_), WEFT_SUCCESS)
        << weft_last_error();
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = WEFT_SHARD_FULL_SHARD;
    for (size_t u = 0; u < kUnits; ++u) {
      const std::string name = "unit" + std::to_string(u);
      EXPECT_EQ(weft_shard_unit_begin(context_, name.c_str(), &policy, &units[u]), WEFT_SUCCESS);
      EXPECT_EQ(
          AddParam(units[u], (name + ".weight").c_str(), &kCount, 1, WEFT_FLOAT32, 0, &params[u]),
          WEFT_SUCCESS);
      EXPECT_EQ(weft_shard_unit_seal(units[u]), WEFT_SUCCESS);
      EXPECT_EQ(UnshardedBytes(u), 0u);
    }
    plan.struct_size = sizeof(plan);
    EXPECT_EQ(weft_shard_context_finalize(context_, &plan), WEFT_SUCCESS) << weft_last_error();
    for (size_t u = 0; u < kUnits; ++u) {
      weft_shard_part_t part = {};
      part.struct_size = sizeof(part);
      EXPECT_EQ(weft_shard_param_part(params[u], &part), WEFT_SUCCESS);
      for (size_t i = 0; i < part.count; ++i)
        static_cast<float*>(part.data)[i] = ValueOf(u, part.begin + i);
    }
  }

  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  ~Rank() {
    EXPECT_EQ(weft_shard_context_destroy(context_), WEFT_SUCCESS);
    EXPECT_EQ(weft_mesh_destroy(mesh_), WEFT_SUCCESS);
    EXPECT_EQ(weft_group_destroy(group_), WEFT_SUCCESS);
  }

  static float ValueOf(size_t unit, size_t element) {
    return static_cast<float>(1000 * unit + element);
  }

  size_t UnshardedBytes(size_t unit) const {
    weft_shard_unit_info_t info = {};
    info.struct_size = sizeof(info);
    EXPECT_EQ(weft_shard_unit_info(units[unit], &info), WEFT_SUCCESS);
    return info.unsharded_bytes;
  }

  const float* ViewOf(size_t unit) const {
    weft_shard_view_t view = {};
    view.struct_size = sizeof(view);
    EXPECT_EQ(weft_shard_param_view(params[unit], &view), WEFT_SUCCESS) << weft_last_error();
    return static_cast<const float*>(view.data);
  }

  // The unit's params, where they are; `kept` if it is not NULL must be there too.
  const float* ExpectValues(size_t unit, const float* kept = nullptr) const {
    const float* const data = ViewOf(unit);
    size_t wrong = 0;
    for (size_t i = 0; i < kCount; ++i)
      wrong += (kept == nullptr ? data : kept)[i] == ValueOf(unit, i) ? 0 : 1;
    EXPECT_EQ(wrong, 0u) << "unit " << unit;
    return data;
  }

  void Begin(weft_shard_mode_t mode) {
    EXPECT_EQ(StepBegin(context_, mode, 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(MicrobatchBegin(context_, 0, 1), WEFT_SUCCESS) << weft_last_error();
  }

  void End() {
    EXPECT_EQ(weft_shard_microbatch_end(context_, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_finish(context_, nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_shard_step_end(context_), WEFT_SUCCESS) << weft_last_error();
  }

  std::array<weft_shard_unit_t, kUnits> units = {};
  std::array<weft_shard_param_t, kUnits> params = {};
  weft_shard_plan_t plan = {};

 private:
  weft_group_t group_;
  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
};

weft_shard_config_t ConfigOf(weft_shard_views_t views) {
  weft_shard_config_t config = {};
  config.struct_size = sizeof(config);
  config.stable_views = views;
  config.poison = 1;
  config.bucket_bytes = 1;
  config.first_bucket_bytes = 1;
  return config;
}

template <typename Body>
void OnRanks(int size, const weft_shard_config_t& config, const Body& body) {
  const weft_group_config_t named = ConfigNamed("views");
  std::vector<weft_group_t> groups(static_cast<size_t>(size));
  ASSERT_EQ(weft_group_create_local(size, &named, groups.data()), WEFT_SUCCESS);
  OnThreads(size, [&](int number) {
    Rank rank(groups[static_cast<size_t>(number)], config);
    body(number, rank);
  });
}

// As an autograd does that keeps in forward what backward reads.
TEST(ShardViews, KeptInForwardAreReadInBackward) {
  for (const weft_shard_views_t views : {WEFT_SHARD_VIEWS_STABLE, WEFT_SHARD_VIEWS_APART}) {
    for (const int size : {1, 2, 3}) {
      OnRanks(size, ConfigOf(views), [](int, Rank& rank) {
        std::array<const float*, kUnits> kept = {};
        for (int step = 0; step < 3; ++step) {
          rank.Begin(WEFT_SHARD_TRAIN);
          for (size_t u = 0; u < kUnits; ++u) {
            EXPECT_EQ(weft_shard_pre_forward(rank.units[u], nullptr), WEFT_SUCCESS);
            const float* const data = rank.ExpectValues(u);
            if (step > 0) {
              EXPECT_EQ(data, kept[u]);
            }
            kept[u] = data;
            EXPECT_EQ(weft_shard_post_forward(rank.units[u], nullptr), WEFT_SUCCESS);
          }
          for (size_t u = kUnits; u-- > 0;) {
            EXPECT_EQ(weft_shard_pre_backward(rank.units[u], nullptr), WEFT_SUCCESS);
            EXPECT_EQ(rank.ExpectValues(u, kept[u]), kept[u]);
            EXPECT_EQ(weft_shard_post_backward(rank.units[u], nullptr), WEFT_SUCCESS);
          }
          rank.End();
        }
      });
    }
  }
}

TEST(ShardViews, HaveAPriceInThePlan) {
  OnRanks(2, ConfigOf(WEFT_SHARD_VIEWS_MOVE), [](int, Rank& rank) {
    EXPECT_EQ(rank.plan.pool_bytes, 3 * rank.plan.largest_unit_bytes);
    EXPECT_EQ(rank.plan.moving_pool_bytes, rank.plan.pool_bytes);
  });
  OnRanks(2, ConfigOf(WEFT_SHARD_VIEWS_STABLE), [](int, Rank& rank) {
    EXPECT_EQ(rank.plan.pool_bytes, 4 * rank.plan.largest_unit_bytes);
    EXPECT_EQ(rank.plan.moving_pool_bytes, 3 * rank.plan.largest_unit_bytes);
  });
  OnRanks(2, ConfigOf(WEFT_SHARD_VIEWS_APART), [](int, Rank& rank) {
    EXPECT_EQ(rank.plan.pool_bytes, 6 * rank.plan.largest_unit_bytes);
  });
}

TEST(ShardViews, AreRefusedBothAtOnceUnlessApart) {
  for (const bool apart : {false, true}) {
    OnRanks(2, ConfigOf(apart ? WEFT_SHARD_VIEWS_APART : WEFT_SHARD_VIEWS_STABLE),
            [apart](int, Rank& rank) {
              rank.Begin(WEFT_SHARD_EVAL);
              for (weft_shard_unit_t unit : rank.units) {
                EXPECT_EQ(weft_shard_pre_forward(unit, nullptr), WEFT_SUCCESS);
                EXPECT_EQ(weft_shard_post_forward(unit, nullptr), WEFT_SUCCESS);
              }
              EXPECT_EQ(weft_shard_pre_forward(rank.units[0], nullptr), WEFT_SUCCESS);
              const weft_result_t second = weft_shard_pre_forward(rank.units[2], nullptr);
              EXPECT_EQ(second, apart ? WEFT_SUCCESS : WEFT_BAD_STATE);
              if (apart) {
                rank.ExpectValues(2);
                EXPECT_EQ(weft_shard_post_forward(rank.units[2], nullptr), WEFT_SUCCESS);
              } else {
                const std::string message = weft_last_error();
                EXPECT_THAT(message, HasSubstr("unit unit0 is in use"));
                EXPECT_THAT(message, HasSubstr("the place of unit unit2"));
                EXPECT_THAT(message, HasSubstr("WEFT_SHARD_VIEWS_APART"));
              }
              rank.ExpectValues(0);
              EXPECT_EQ(weft_shard_post_forward(rank.units[0], nullptr), WEFT_SUCCESS);
              rank.End();
            });
  }
}

TEST(ShardViews, OfAnUnshardAreWhereTheCallerSays) {
  for (const int size : {1, 2, 3}) {
    OnRanks(size, ConfigOf(WEFT_SHARD_VIEWS_MOVE), [](int number, Rank& rank) {
      const size_t bytes = rank.UnshardedBytes(1);
      ASSERT_GE(bytes, kCount * sizeof(float));
      alignas(64) std::array<std::byte, 4096> memory = {};
      ASSERT_LE(bytes, memory.size() - 64);
      weft_shard_unshard_t options = {};
      options.struct_size = sizeof(options);
      rank.Begin(WEFT_SHARD_EVAL);
      const auto refused = [&](void* data, size_t size, const char* text) {
        options.destination = data;
        options.bytes = size;
        EXPECT_EQ(weft_shard_unshard_start(rank.units[1], &options), WEFT_INVALID_ARGUMENT);
        EXPECT_THAT(weft_last_error(), HasSubstr(text));
        EXPECT_THAT(weft_last_error(), HasSubstr("unit1"));
      };
      refused(memory.data(), bytes - 1, "unsharded_bytes");
      refused(memory.data() + 16, bytes, "multiple of 64");
      refused(nullptr, bytes, "destination is NULL");
      options.destination = memory.data();
      options.bytes = bytes;
      const bool passes = number != 1;
      EXPECT_EQ(weft_shard_unshard_start(rank.units[1], passes ? &options : nullptr), WEFT_SUCCESS)
          << weft_last_error();
      EXPECT_EQ(weft_shard_unshard_wait(rank.units[1], nullptr), WEFT_SUCCESS);
      const float* const data = rank.ExpectValues(1);
      const void* const own = memory.data();
      EXPECT_EQ(data == own, passes);
      EXPECT_EQ(weft_shard_reshard(rank.units[1], nullptr), WEFT_SUCCESS);
      if (passes) {
        const auto* const values = reinterpret_cast<const float*>(memory.data());
        EXPECT_EQ(values[kCount - 1], Rank::ValueOf(1, kCount - 1));
      }
      rank.End();
    });
  }
}

}  // namespace
}  // namespace weft::test::shard_views_test
