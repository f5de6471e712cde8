// The C++ wrapper of the shard managers: a whole step, and a step that an exception leaves. Compiled as C++17.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "weft/checkpoint.hpp"
#include "weft/shard.hpp"
#include "weft/shard_checks.hpp"
#include "weft/shard_state.hpp"

#include "tests/install/local_ranks.h"

namespace {

using weft_test::OnRanks;

// One unit of two params, and everything that owns them.
struct Model {
  explicit Model(const weft::Group& group)
      : mesh(group), context(mesh), unit(context.AddUnit("u")) {
    weight = unit.AddParam("weight", {3, 2}, WEFT_FLOAT32);
    bias = unit.AddParam("bias", {}, WEFT_FLOAT32, WEFT_SHARD_PARAM_FROZEN);
    unit.Seal();
    plan = context.Finalize();
  }

  weft::Mesh mesh;
  weft::ShardContext context;
  weft::ShardUnit unit;
  weft::ShardParam weight;
  weft::ShardParam bias;
  weft_shard_plan_t plan;
};

TEST(ShardWrapper, FindsWhatWasDeclared) {
  OnRanks(1, [](const weft::Group& group, int) {
    Model model(group);
    ASSERT_EQ(model.context.Units().size(), 1u);
    EXPECT_EQ(model.context.Units()[0].get(), model.unit.get());
    EXPECT_EQ(model.context.UnitByName("u").get(), model.unit.get());
    EXPECT_EQ(std::string(model.unit.Info().name), "u");
    EXPECT_EQ(model.unit.Info().unsharded, 1);
    ASSERT_EQ(model.unit.Params().size(), 2u);
    EXPECT_EQ(model.unit.Params()[1].get(), model.bias.get());
    const weft::ShardParam weight = model.context.ParamByName("weight");
    EXPECT_EQ(weight.get(), model.weight.get());
    EXPECT_EQ(weight.Info().ndim, 2);
    EXPECT_EQ(weight.Info().shape[0], 3);
    try {
      (void)model.context.ParamByName("wieght");
      FAIL() << "it was found";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.result(), WEFT_INVALID_ARGUMENT);
    }
    try {
      weight.GradReady();
      FAIL() << "no step is under way";
    } catch (const weft::Error& error) {
      EXPECT_EQ(std::string(error.info().unit), "u");
      EXPECT_EQ(std::string(error.info().param), "weight");
      EXPECT_EQ(error.info().device, -1);
    }
  });
}

// Two slices of one tensor, that lie side by side and then overlap.
TEST(ShardWrapper, SaysWhichSliceOfATensorAParamIs) {
  OnRanks(1, [](const weft::Group& group, int) {
    const weft::Mesh mesh(group);
    const weft::ShardContext context(mesh);
    const weft::ShardUnit unit = context.AddUnit("u");
    const weft::ShardParam first = unit.AddParam("first", {4, 3}, WEFT_FLOAT32);
    const weft::ShardParam second = unit.AddParam("second", {4, 3}, WEFT_FLOAT32);
    unit.Seal();
    const auto result_of = [](const auto& call) {
      try {
        call();
        return WEFT_SUCCESS;
      } catch (const weft::Error& error) {
        return error.result();
      }
    };
    first.SetGlobal("whole", {8, 3}, 0);
    second.SetGlobal("whole", {8, 3}, 11);
    EXPECT_EQ(result_of([&] { second.SetGlobal("whole", {8, 3}, 13); }), WEFT_INVALID_ARGUMENT);
    EXPECT_EQ(result_of([&] { (void)context.Finalize(); }), WEFT_INVALID_ARGUMENT);
    second.SetGlobal("whole", {8, 3}, 12);
    EXPECT_EQ(context.Finalize().param_count, 2u);
    EXPECT_EQ(result_of([&] { second.SetGlobal("whole", {8, 3}, 12); }), WEFT_BAD_STATE);
  });
}

TEST(ShardWrapper, AStepAveragesGradients) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    Model model(group);
    EXPECT_EQ(model.plan.param_count, 2u);
    EXPECT_EQ(model.plan.element_count, 7u);
    for (int i = 0; i < 6; ++i)
      model.weight.As<float>()[i] = static_cast<float>(10 * rank + i);
    model.context.Broadcast(1);
    model.context.Verify();
    EXPECT_EQ(model.weight.As<float>()[5], 15.0f);
    EXPECT_EQ(model.bias.GradAs<float>(), nullptr);

    weft::ShardStep step(model.context);
    model.context.BeginMicrobatch(0, true);
    model.unit.PreForward();
    model.unit.PostForward();
    model.unit.PreBackward();
    for (int i = 0; i < 6; ++i)
      model.weight.GradAs<float>()[i] = static_cast<float>(rank);
    model.weight.GradReady();
    model.unit.PostBackward();
    model.context.EndMicrobatch();
    EXPECT_EQ(step.Finish().reduced_bytes, model.plan.traffic_bytes);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(model.weight.GradAs<float>()[i], 0.5f);
    step.End();
  });
}

TEST(ShardWrapper, AStepUpdatesOrDropsItsGradients) {
  OnRanks(2, [](const weft::Group& group, int) {
    const weft::Mesh mesh(group);
    const weft::ShardContext context(mesh);
    context.SetOptimizer();
    const weft::ShardUnit unit = context.AddUnit("u");
    const weft::ShardParam weight = unit.AddParam("w", {5}, WEFT_FLOAT32);
    unit.Seal();
    (void)context.Finalize();
    for (const bool drops : {true, false}) {
      weft::ShardStep step(context);
      context.BeginMicrobatch(0, true);
      unit.PreForward();
      unit.PostForward();
      unit.PreBackward();
      std::fill_n(weight.GradAs<float>(), 5, 1.0F);
      weight.GradReady();
      unit.PostBackward();
      context.EndMicrobatch();
      step.Finish();
      try {
        step.End();
        ADD_FAILURE() << "a step has ended whose gradients nothing had used";
      } catch (const weft::Error& error) {
        EXPECT_EQ(error.result(), WEFT_BAD_STATE) << error.what();
      }
      if (drops) {
        step.DropGradients();
      } else {
        EXPECT_EQ(step.Update(0.5).update_count, 1);
      }
      step.End();
      EXPECT_EQ(weight.As<float>()[4] == 0, drops);
    }
  });
}

TEST(ShardWrapper, AStepLeftByAnExceptionReleasesTheOthers) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    Model model(group);
    try {
      weft::ShardStep step(model.context);
      model.context.BeginMicrobatch(0, true);
      if (rank == 1) throw std::runtime_error("bad data");
      model.unit.PreForward();
      model.unit.PostForward();
      model.unit.PreBackward();
      model.weight.GradReady();
      model.unit.PostBackward();
      model.context.EndMicrobatch();
      step.Finish();
      FAIL() << "a step without rank 1 was finished";
    } catch (const weft::Error& error) {
      EXPECT_EQ(rank, 0);
      EXPECT_EQ(error.result(), WEFT_ABORTED) << error.what();
      EXPECT_NE(std::string(error.what()).find("left before its end"), std::string::npos)
          << error.what();
    } catch (const std::runtime_error& error) {
      EXPECT_EQ(rank, 1) << error.what();
    }
  });
}

TEST(ShardWrapper, WrongOrderThrowsBadState) {
  OnRanks(1, [](const weft::Group& group, int) {
    Model model(group);
    try {
      model.unit.PreForward();
      FAIL() << "forward outside a step was accepted";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.result(), WEFT_BAD_STATE);
    }
  });
}

// A table that a head shares, gathered by hand, whose gradient is waited for alone; then rank 1 has no data left.
TEST(ShardWrapper, TiesUnshardsWaitsAndJoins) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    const weft::Mesh mesh(group);
    weft_shard_config_t config = {};
    config.struct_size = sizeof(config);
    config.uneven = 1;
    config.no_average = 1;
    const weft::ShardContext context(mesh, &config);
    weft_shard_policy_t policy = {};
    policy.struct_size = sizeof(policy);
    policy.preset = WEFT_SHARD_FULL_SHARD;
    const weft::ShardUnit embed = context.AddUnit("embed", &policy);
    const weft::ShardParam table = embed.AddParam("table", {5}, WEFT_FLOAT32);
    embed.Seal();
    const weft::ShardUnit head = context.AddUnit("head", &policy);
    const weft::ShardParam weight = head.TieParam("head.weight", table);
    head.Seal();
    (void)context.Finalize();
    const float initial[] = {1, 2, 3, 4, 5};
    table.Load(initial);

    for (int active = 2; active >= 0; --active) {
      weft::ShardStep step(context);
      if (rank < active) {
        context.BeginMicrobatch(0, true);
        embed.UnshardStart();
        embed.UnshardWait();
        EXPECT_EQ(table.As<float>()[4], 5.0f);
        embed.Reshard();
        for (const weft::ShardUnit* unit : {&embed, &head}) {
          const weft::ForwardScope scope(*unit);
          EXPECT_EQ(weight.As<float>()[0], 1.0f);
        }
        for (const weft::ShardUnit* unit : {&head, &embed}) {
          const weft::BackwardScope scope(*unit);
          std::fill_n(unit == &head ? weight.GradAs<float>() : table.GradAs<float>(), 5, 1.0f);
          (unit == &head ? weight : table).GradReady();
        }
        embed.ReduceWait();
        context.EndMicrobatch();
      } else {
        EXPECT_EQ(step.Join(), active);
        if (active == 0) return;
      }
      step.Finish();
      const weft_shard_part_t part = table.Part();
      // Written, not added: the head's gradient is overwritten by the embedding's.
      for (size_t i = 0; i < part.count; ++i)
        EXPECT_EQ(static_cast<const float*>(part.grad)[i], static_cast<float>(active));
      step.End();
    }
  });
}

TEST(ShardWrapper, ChecksSamplesAndReportsRanks) {
  OnRanks(3, [](const weft::Group& group, int rank) {
    Model model(group);
    weft::CheckSamples(model.context, &rank, sizeof(rank));
    try {
      weft::CheckSamples(model.context, rank == 1 ? "other" : "equal", 5);
      FAIL() << "equal samples were not found";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.result(), WEFT_MISMATCH);
      EXPECT_NE(std::string(error.what()).find("ranks 0, 2 were given"), std::string::npos)
          << error.what();
    }
    const weft::ShardReport report = weft::ReportRanks(model.context, group);
    EXPECT_EQ(report.summary.rank_count, 3);
    EXPECT_EQ(report.summary.largest_rank, 0);
    EXPECT_EQ(report.summary.smallest_rank, 0);
    EXPECT_EQ(report.summary.largest_element_count, 7u);
    EXPECT_EQ(report.summary.smallest_element_count, 7u);
    EXPECT_EQ(report.summary.slowest_rank, -1);
    ASSERT_EQ(report.ranks.size(), 3u);
    for (const weft_shard_rank_report_t& of_rank : report.ranks) {
      EXPECT_EQ(of_rank.struct_size, sizeof(of_rank));
      EXPECT_EQ(of_rank.param_bytes, model.plan.param_bytes);
      EXPECT_EQ(of_rank.step_count, 0);
    }
  });
}

TEST(ShardWrapper, TheSlowestRankIsThatOfTheReports) {
  OnRanks(2, [](const weft::Group& group, int) {
    Model model(group);
    weft::ShardStep step(model.context);
    model.context.BeginMicrobatch(0, true);
    model.context.EndMicrobatch();
    step.Finish();
    step.End();
    const weft::ShardReport report = weft::ReportRanks(model.context, group);
    const std::int64_t first = report.ranks[0].busy_ns;
    const std::int64_t second = report.ranks[1].busy_ns;
    ASSERT_GT(std::max(first, second), 0);
    EXPECT_EQ(report.summary.slowest_rank, first >= second ? 0 : 1);
    EXPECT_EQ(report.summary.slowest_busy_ns, std::max(first, second));
    EXPECT_EQ(report.summary.median_busy_ns, (first + second) / 2);
  });
}

TEST(ShardWrapper, StateIsReadAndWrittenBack) {
  OnRanks(2, [](const weft::Group& group, int) {
    Model model(group);
    const weft_shard_state_part_t part = weft::StatePart(model.weight, WEFT_SHARD_STATE_VALUE);
    ASSERT_EQ(part.count, 6u);
    EXPECT_EQ(part.data, model.weight.As<float>());
    EXPECT_EQ(part.replicas, 2);
    EXPECT_EQ(weft::StatePart(model.weight, WEFT_SHARD_STATE_MOMENT1).replicas, 0);
    static_cast<float*>(part.data)[5] = 2.5F;
    weft_shard_state_scalars_t scalars = weft::StateScalars(model.context);
    EXPECT_EQ(scalars.loss_scale, 1);
    scalars.steps_begun = scalars.train_steps_begun = 8;
    weft::SetStateScalars(model.context, scalars);
    weft::StateWritten(model.context);
    model.context.Verify();
    EXPECT_EQ(weft::StateScalars(model.context).steps_begun, 8);
    try {
      weft::StateWritten(model.context, 0);
      FAIL() << "nothing was said to be written";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.result(), WEFT_INVALID_ARGUMENT);
    }
  });
}

TEST(ShardWrapper, CheckpointsAreSavedAndLoaded) {
  char folder[] = "/tmp/weft-wrapper-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string directory = std::string(folder) + "/checkpoints";
  weft_checkpoint_config_t config = {};
  config.struct_size = sizeof(config);
  config.directory = directory.c_str();
  OnRanks(2, [&config](const weft::Group& group, int) {
    Model model(group);
    const weft::Checkpoint checkpoint(group, config);
    checkpoint.Add(model.context);
    EXPECT_EQ(checkpoint.Load().found, 0);
    model.weight.As<float>()[0] = 2.5F;
    checkpoint.SaveInBackground(3);
    checkpoint.Wait();
    EXPECT_TRUE(checkpoint.Test());
    model.weight.As<float>()[0] = 1;
    checkpoint.Save(4);
    EXPECT_EQ(checkpoint.LoadStep(3).step, 3);
    EXPECT_EQ(model.weight.As<float>()[0], 2.5F);
    EXPECT_EQ(checkpoint.Load(WEFT_CHECKPOINT_VALUES_ONLY).step, 4);
    EXPECT_EQ(model.weight.As<float>()[0], 1);
    try {
      checkpoint.Save(4);
      FAIL() << "a step was saved twice";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.result(), WEFT_INVALID_ARGUMENT);
    }
  });
  std::filesystem::remove_all(folder);
}

}  // namespace
