#include "tests/shard/saved_state.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gtest/gtest.h"
#include "tests/shard/gradient_step.h"
#include "tests/shard/param_values.h"
#include "tests/shard/ranks.h"

namespace weft {
namespace {

// HYBRID_SHARD wants a power of two on the last axis.
std::vector<int> AxesOf(const StateCase& setup) {
  if (setup.preset != WEFT_SHARD_HYBRID_SHARD && setup.preset != WEFT_SHARD_HPZ) return {};
  if (setup.ranks == 8) return {2, 4};
  return setup.ranks % 2 == 0 ? std::vector{setup.ranks / 2, 2} : std::vector{setup.ranks, 1};
}

bool ShouldExist(const ModelParam& param, weft_shard_state_kind_t kind,
                 const OptimizerConfig& optimizer) {
  if (param.count() == 0) return false;
  if (kind == WEFT_SHARD_STATE_VALUE) return true;
  if (param.frozen) return false;
  if (kind == WEFT_SHARD_STATE_MAIN) return param.dtype != WEFT_FLOAT32;
  const bool two = optimizer.kind == WEFT_OPTIMIZER_ADAMW || optimizer.kind == WEFT_OPTIMIZER_LAMB;
  if (kind == WEFT_SHARD_STATE_MOMENT2) return two;
  return optimizer.kind != WEFT_OPTIMIZER_SGD || optimizer.sgd.momentum != 0;
}

// Puts together one state of one param from what the ranks write.
std::vector<char> Merge(const std::vector<Saved>& ranks, size_t p, weft_shard_state_kind_t kind,
                        size_t count, size_t size) {
  std::vector<char> whole(count * size);
  std::vector<int> writers(count);
  for (const Saved& rank : ranks) {
    const weft_shard_state_part_t& part = rank.parts[p][kind];
    EXPECT_LE(part.begin + part.count, count);
    if (part.write_count == 0) continue;
    EXPECT_GE(part.write_begin, part.begin);
    EXPECT_LE(part.write_begin + part.write_count, part.begin + part.count);
    EXPECT_EQ(part.write_begin, rank.parts[p][WEFT_SHARD_STATE_VALUE].write_begin)
        << "the same for all kinds";
    std::memcpy(whole.data() + part.write_begin * size,
                rank.kept[p][kind].data() + (part.write_begin - part.begin) * size,
                part.write_count * size);
    for (size_t i = 0; i < part.write_count; ++i)
      ++writers[part.write_begin + i];
  }
  EXPECT_EQ(std::count(writers.begin(), writers.end(), 1), static_cast<int64_t>(count))
      << "each element is written once";
  return whole;
}

// Ranks with the same interval have the same bytes, and are numbered.
void ExpectReplicas(const std::vector<Saved>& ranks, size_t p, weft_shard_state_kind_t kind,
                    const std::vector<char>& whole, size_t size) {
  for (const Saved& rank : ranks) {
    const weft_shard_state_part_t& part = rank.parts[p][kind];
    if (part.count == 0) {
      EXPECT_EQ(part.data, nullptr);
      EXPECT_EQ(part.begin, 0u);
      continue;
    }
    EXPECT_EQ(
        std::memcmp(rank.kept[p][kind].data(), whole.data() + part.begin * size, part.count * size),
        0);
    std::vector<int> replicas;
    for (const Saved& other : ranks) {
      const weft_shard_state_part_t& same = other.parts[p][kind];
      if (same.begin == part.begin && same.count == part.count) replicas.push_back(same.replica);
    }
    std::vector<int> expected(replicas.size());
    for (size_t i = 0; i < expected.size(); ++i)
      expected[i] = static_cast<int>(i);
    std::sort(replicas.begin(), replicas.end());
    EXPECT_EQ(replicas, expected);
    EXPECT_EQ(part.replicas, static_cast<int>(replicas.size()));
  }
}

}  // namespace

std::vector<ModelParam> StateModel() {
  std::vector<ModelParam> model = SmallModel();
  for (ModelParam& param : model) {
    if (param.dtype == WEFT_FLOAT64 && !param.frozen) param.dtype = WEFT_FLOAT32;
  }
  model.push_back({"tail", "tail.weight", {61, 37}, WEFT_BFLOAT16});
  model.push_back({"tail", "tail.table", {5, 7}, WEFT_BFLOAT16, /*frozen=*/true});
  model.push_back({"tail", "tail.bias", {701}, WEFT_FLOAT32});
  return model;
}

std::string NameOf(const StateCase& setup) {
  return StrCat(
      PresetName(setup.preset), " on ", setup.ranks, " ranks, cut ", static_cast<int>(setup.cut),
      setup.offload_bytes > 0 ? StrCat(", ", setup.offload_bytes, " bytes in memory") : "",
      setup.offload_params ? ", params offloaded" : "");
}

OptimizerConfig StateOptimizer(weft_optimizer_kind_t kind, double momentum) {
  OptimizerConfig config{.kind = kind};
  config.adamw.weight_decay = 0.1;
  config.sgd = {.momentum = momentum, .weight_decay = 0.01};
  config.lion.weight_decay = 0.1;
  config.dynamic_scale = true;
  config.scale = {.initial = 4, .least = 1, .greatest = 64, .growth_steps = 2, .hysteresis = 2};
  config.nonfinite = WEFT_NONFINITE_SKIP;
  return config;
}

absl::StatusOr<std::unique_ptr<Context>> MakeTrained(const std::shared_ptr<ProcessGroup>& group,
                                                     const StateCase& setup) {
  ContextOptions options{.limits = {.bucket_bytes = 8192, .first_bucket_bytes = 2048}};
  if (setup.offload_bytes > 0)
    options.offload = {.directory = testing::TempDir(),
                       .buffer_bytes = setup.offload_bytes,
                       .params = setup.offload_params};
  return MakeTrained(group, setup, options);
}

absl::StatusOr<std::unique_ptr<Context>> MakeTrained(const std::shared_ptr<ProcessGroup>& group,
                                                     const StateCase& setup,
                                                     const ContextOptions& options) {
  WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options, AxesOf(setup)));
  WEFT_RETURN_IF_ERROR(context->SetOptimizer(setup.optimizer));
  Placement placement = PlacementOf(setup.preset);
  placement.cut = setup.cut;
  placement.cut_rows = 3;
  WEFT_RETURN_IF_ERROR(Declare(*context, StateModel(), placement));
  WEFT_RETURN_IF_ERROR(context->Finalize().status());
  return context;
}

absl::Status LoadValues(Context& context) {
  const std::vector<ModelParam> model = StateModel();
  return LoadParams(context, model, DrawnValues(model, {}));
}

weft_shard_update_t StateUpdate() {
  return {.struct_size = sizeof(weft_shard_update_t), .learning_rate = 0.01, .norm_max = 0.5};
}

absl::Status TrainSteps(Context& context, const StateCase& setup, int rank, int first, int count) {
  const std::vector<ModelParam> model = StateModel();
  for (int step = first; step < first + count; ++step) {
    Scenario scenario{.seed = 5, .ranks = setup.ranks, .missing_percent = 5};
    const bool infinite =
        rank == 0 && std::count(setup.infinite.begin(), setup.infinite.end(), step) > 0;
    if (infinite) scenario.in_use = InfiniteGradient(context);
    WEFT_RETURN_IF_ERROR(RunStep(context, model, scenario, rank, step).status());
    WEFT_RETURN_IF_ERROR(context.OptimizerStep(StateUpdate()).status());
    WEFT_RETURN_IF_ERROR(context.StepEnd());
  }
  return absl::OkStatus();
}

std::string WholeState::DifferenceFrom(const WholeState& other) const {
  const std::vector<ModelParam> model = StateModel();
  if (params.size() != other.params.size()) return "one of them is empty";
  std::string text;
  for (size_t p = 0; p < params.size(); ++p) {
    for (const weft_shard_state_kind_t kind : kStateKinds) {
      if (params[p][kind] != other.params[p][kind])
        text += StrCat(" ", model[p].name, "/", static_cast<int>(kind));
    }
  }
  if (std::memcmp(&scalars, &other.scalars, sizeof(scalars)) != 0) {
    text += StrCat(" scalars: updates ", scalars.update_count, " and ", other.scalars.update_count,
                   ", scale ", scalars.loss_scale, " and ", other.scalars.loss_scale, ", steps ",
                   scalars.steps_begun, " and ", other.scalars.steps_begun);
  }
  return text;
}

absl::StatusOr<Saved> SaveState(Context& context) {
  Saved saved;
  for (size_t p = 0; p < StateModel().size(); ++p) {
    auto& parts = saved.parts.emplace_back();
    auto& kept = saved.kept.emplace_back();
    for (const weft_shard_state_kind_t kind : kStateKinds) {
      WEFT_ASSIGN_OR_RETURN(const weft_shard_state_part_t part,
                            context.state().Part(static_cast<int>(p), kind));
      parts[kind] = part;
      if (part.count == 0) continue;
      std::vector<char>& bytes = kept[kind];
      bytes.resize(part.count * DtypeSize(part.dtype));
      WEFT_RETURN_IF_ERROR(
          context.state().Read(static_cast<int>(p), kind, {part.begin, part.count}, bytes.data()));
      EXPECT_EQ(part.data == nullptr, part.offloaded != 0);
      EXPECT_TRUE(part.data == nullptr || std::memcmp(part.data, bytes.data(), bytes.size()) == 0);
    }
  }
  WEFT_ASSIGN_OR_RETURN(saved.scalars, context.state().Scalars());
  return saved;
}

WholeState MergeStates(const std::vector<Saved>& ranks, const OptimizerConfig& optimizer) {
  const std::vector<ModelParam> model = StateModel();
  WholeState checkpoint{.scalars = ranks[0].scalars};
  for (size_t p = 0; p < model.size(); ++p) {
    SCOPED_TRACE(model[p].name);
    auto& states = checkpoint.params.emplace_back();
    for (const weft_shard_state_kind_t kind : kStateKinds) {
      SCOPED_TRACE(StrCat("kind ", static_cast<int>(kind)));
      const bool exists = ShouldExist(model[p], kind, optimizer);
      const weft_dtype_t dtype =
          kind == WEFT_SHARD_STATE_VALUE ? model[p].dtype : weft_dtype_t{WEFT_FLOAT32};
      for (const Saved& rank : ranks) {
        EXPECT_EQ(rank.parts[p][kind].replicas > 0, exists);
        EXPECT_EQ(rank.parts[p][kind].dtype, dtype);
        if (!exists) {
          EXPECT_EQ(rank.parts[p][kind].count, 0u);
          EXPECT_EQ(rank.parts[p][kind].write_count, 0u);
        }
      }
      if (!exists) continue;
      states[kind] = Merge(ranks, p, kind, model[p].count(), DtypeSize(dtype));
      ExpectReplicas(ranks, p, kind, states[kind], DtypeSize(dtype));
    }
  }
  for (const Saved& rank : ranks) {
    EXPECT_EQ(std::memcmp(&rank.scalars, &checkpoint.scalars, sizeof(rank.scalars)), 0);
  }
  return checkpoint;
}

absl::Status RestoreParts(Context& context, const WholeState& from) {
  for (size_t p = 0; p < from.params.size(); ++p) {
    for (const weft_shard_state_kind_t kind : kStateKinds) {
      WEFT_ASSIGN_OR_RETURN(const weft_shard_state_part_t part,
                            context.state().Part(static_cast<int>(p), kind));
      if (part.count == 0) continue;
      const size_t size = DtypeSize(part.dtype);
      const char* const bytes = from.params[p][kind].data() + part.begin * size;
      if (part.data != nullptr) {
        std::memcpy(part.data, bytes, part.count * size);
        continue;
      }
      // In two pieces: what is written need not be a whole part.
      const size_t first = part.count / 2;
      StateAccess& state = context.state();
      WEFT_RETURN_IF_ERROR(state.Write(static_cast<int>(p), kind, {part.begin, first}, bytes));
      WEFT_RETURN_IF_ERROR(state.Write(static_cast<int>(p), kind,
                                       {part.begin + first, part.count - first},
                                       bytes + first * size));
    }
  }
  return absl::OkStatus();
}

absl::Status RestoreState(Context& context, const WholeState& from) {
  WEFT_RETURN_IF_ERROR(context.state().SetScalars(from.scalars));
  WEFT_RETURN_IF_ERROR(RestoreParts(context, from));
  WEFT_RETURN_IF_ERROR(context.state().Written(WEFT_SHARD_STATE_ALL));
  return context.Verify();
}

WholeState RunFrom(const StateCase& setup, const WholeState* from, int first, int count) {
  SCOPED_TRACE(NameOf(setup));
  std::vector<Saved> saved(static_cast<size_t>(setup.ranks));
  ExpectAllOk(RunRanks(GroupKind::kLocal, setup.ranks,
                       [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
                         WEFT_ASSIGN_OR_RETURN(auto context, MakeTrained(group, setup));
                         WEFT_RETURN_IF_ERROR(from == nullptr ? LoadValues(*context)
                                                              : RestoreState(*context, *from));
                         WEFT_RETURN_IF_ERROR(TrainSteps(*context, setup, rank, first, count));
                         WEFT_ASSIGN_OR_RETURN(saved[static_cast<size_t>(rank)],
                                               SaveState(*context));
                         return absl::OkStatus();
                       }));
  if (testing::Test::HasFailure()) return {};
  return MergeStates(saved, setup.optimizer);
}

}  // namespace weft
