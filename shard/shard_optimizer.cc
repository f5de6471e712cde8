#include "shard/shard_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/sum_squares.h"
#include "shard/widen.h"

namespace weft {
namespace {

constexpr size_t kWordsPerSum = std::tuple_size_v<ExactSum::Words>;

float* Floats(const Block& block) {
  return reinterpret_cast<float*>(block.data());
}

LossScale MakeLossScale(const OptimizerConfig& config) {
  return config.dynamic_scale ? LossScale(config.scale) : LossScale::Static(config.static_scale);
}

// How many moments the optimizer keeps.
int MomentCount(const OptimizerConfig& config) {
  switch (config.kind) {
    case WEFT_OPTIMIZER_ADAMW:
    case WEFT_OPTIMIZER_LAMB:
      return 2;
    case WEFT_OPTIMIZER_SGD:
      return config.sgd.momentum == 0 ? 0 : 1;
    default:
      return 1;
  }
}

void Append(const ExactSum& sum, std::vector<int64_t>& words) {
  const ExactSum::Words more = sum.words();
  words.insert(words.end(), more.begin(), more.end());
}

double ValueAt(const std::vector<int64_t>& words, size_t index) {
  ExactSum::Words one;
  std::copy_n(words.begin() + static_cast<std::ptrdiff_t>(index * kWordsPerSum), kWordsPerSum,
              one.begin());
  return ExactSum(one).Value();
}

}  // namespace

std::string OptimizerText(const OptimizerConfig& config) {
  std::string text = StrCat("kind ", static_cast<int>(config.kind));
  switch (config.kind) {
    case WEFT_OPTIMIZER_ADAMW:
      absl::StrAppend(&text, ", ", config.adamw.beta1, " ", config.adamw.beta2, " ",
                      config.adamw.epsilon, " decay ", config.adamw.weight_decay);
      break;
    case WEFT_OPTIMIZER_SGD:
      absl::StrAppend(&text, ", momentum ", config.sgd.momentum, " decay ", config.sgd.weight_decay,
                      config.sgd.nesterov ? " nesterov" : "");
      break;
    case WEFT_OPTIMIZER_LION:
      absl::StrAppend(&text, ", ", config.lion.beta1, " ", config.lion.beta2, " decay ",
                      config.lion.weight_decay);
      break;
    case WEFT_OPTIMIZER_LAMB:
      absl::StrAppend(&text, ", ", config.lamb.beta1, " ", config.lamb.beta2, " ",
                      config.lamb.epsilon, " decay ", config.lamb.weight_decay);
      break;
    case WEFT_OPTIMIZER_LARS:
      absl::StrAppend(&text, ", momentum ", config.lars.momentum, " decay ",
                      config.lars.weight_decay, " trust ", config.lars.coefficient);
      break;
  }
  if (config.dynamic_scale) {
    absl::StrAppend(&text, ", loss scale from ", config.scale.initial, " every ",
                    config.scale.growth_steps, " steps, hysteresis ", config.scale.hysteresis);
  } else {
    absl::StrAppend(&text, ", loss scale ", config.static_scale);
  }
  return text;
}

absl::Status CheckUpdatable(const Registry& registry) {
  for (const ParamSpec& param : registry.params()) {
    if (param.frozen || param.dtype != WEFT_FLOAT64) continue;
    return MakeError(WEFT_UNSUPPORTED, {.operation = "finalize"},
                     StrCat("finalize: parameter ", param.name,
                            " is float64, which the optimizers do not update; freeze it, or "
                            "update its parts yourself"));
  }
  return absl::OkStatus();
}

StateSize StateSizeOf(const OptimizerConfig& config, const Layout& layout, const Extent& extent) {
  const Space& space = layout.SpaceOf(extent);
  const bool cut = space.placement.optimizer_cut;
  return {.first = cut ? layout.OwnFirst(extent) : extent.range.begin,
          .count = cut ? layout.OwnCount(extent) : extent.range.count,
          .main = space.dtype != WEFT_FLOAT32,
          .moments = MomentCount(config)};
}

size_t StateBytes(const OptimizerConfig& config, const Layout& layout) {
  size_t bytes = 0;
  for (const Extent& extent : layout.extents) {
    if (!layout.SpaceOf(extent).frozen) bytes += StateSizeOf(config, layout, extent).bytes();
  }
  return bytes;
}

absl::StatusOr<std::unique_ptr<ShardOptimizer>> ShardOptimizer::Allocate(
    const OptimizerConfig& config, const Registry& registry, const Layout& layout, Isa isa,
    const BlockSource& source) {
  WEFT_RETURN_IF_ERROR(CheckUpdatable(registry));
  std::unique_ptr<ShardOptimizer> optimizer(new ShardOptimizer(config, registry, layout, isa));
  for (size_t extent = 0; extent < layout.extents.size(); ++extent) {
    WEFT_RETURN_IF_ERROR(optimizer->AllocateExtent(static_cast<int>(extent), source));
  }
  return optimizer;
}

ShardOptimizer::ShardOptimizer(const OptimizerConfig& config, const Registry& registry,
                               const Layout& layout, Isa isa)
    : config_(config),
      registry_(registry),
      layout_(layout),
      isa_(isa),
      loss_scale_(MakeLossScale(config)),
      states_(layout.extents.size()),
      ratios_(registry.params().size(), 1) {}

absl::Status ShardOptimizer::AllocateExtent(int index, const BlockSource& source) {
  const Extent& extent = layout_.extents[static_cast<size_t>(index)];
  const Space& space = layout_.SpaceOf(extent);
  State& state = states_[static_cast<size_t>(index)];
  if (space.frozen) return absl::OkStatus();
  const StateSize size = StateSizeOf(config_, layout_, extent);
  state.first = size.first;
  state.count = size.count;
  // Replicas have the same sums: the first one's count.
  state.counts = space.placement.replicated
                     ? layout_.member.rank < layout_.inner.size
                     : space.placement.optimizer_cut || layout_.member.rank == 0;
  const auto allocate = [&](bool wanted, Block& block) -> absl::Status {
    const size_t bytes = wanted ? state.count * sizeof(float) : 0;
    absl::StatusOr<Block> made = Block::Allocate(source, WEFT_SHARD_TIER_OPTIMIZER, bytes);
    if (!made.ok()) {
      return Annotate(made.status(),
                      StrCat("allocating ", bytes, " bytes for the optimizer's state: "));
    }
    block = *std::move(made);
    return absl::OkStatus();
  };
  WEFT_RETURN_IF_ERROR(allocate(size.main, state.main));
  WEFT_RETURN_IF_ERROR(allocate(size.moments >= 1, state.first_moment));
  WEFT_RETURN_IF_ERROR(allocate(size.moments >= 2, state.second_moment));
  AddRuns(index, state);
  return absl::OkStatus();
}

void ShardOptimizer::AddRuns(int extent, State& state) const {
  for (size_t i = 0; i < layout_.places.size(); ++i) {
    const Place& place = layout_.places[i];
    const ParamSpec& spec = registry_.params()[i];
    if (place.extent != extent || spec.count == 0) continue;
    const size_t end = std::min(place.begin + RoundUpToCut(spec.count), state.first + state.count);
    const size_t begin = std::max(place.begin, state.first);
    if (begin >= end) continue;
    const bool joins = !NeedsNorms() && !state.runs.empty() &&
                       state.runs.back().decays == spec.decays &&
                       state.runs.back().begin + state.runs.back().count == begin;
    if (joins) {
      state.runs.back().count += end - begin;
    } else {
      state.runs.push_back({static_cast<int>(i), begin, end - begin, spec.decays});
    }
  }
}

size_t ShardOptimizer::bytes() const {
  size_t bytes = 0;
  for (const State& state : states_) {
    bytes += state.main.bytes() + state.first_moment.bytes() + state.second_moment.bytes();
  }
  return bytes;
}

Digest ShardOptimizer::DigestOf(const Place& place, size_t count) const {
  const State& state = states_[static_cast<size_t>(place.extent)];
  const size_t begin = std::max(place.begin, state.first);
  const size_t end = std::min(place.begin + count, state.first + state.count);
  if (begin >= end) return Digest();
  Hasher hasher;
  const auto add = [&](const Block& block) {
    if (block.bytes() == 0) return;
    hasher.Update(Floats(block) + (begin - state.first), (end - begin) * sizeof(float));
  };
  if (!main_stale_) add(state.main);
  add(state.first_moment);
  add(state.second_moment);
  return hasher.Finish();
}

GradientSums ShardOptimizer::SumGradients(const Storage& storage) const {
  GradientSums sums;
  for (const Extent& extent : layout_.extents) {
    const Space& space = layout_.SpaceOf(extent);
    const size_t count = layout_.OwnCount(extent);
    const bool counted = !space.placement.replicated || layout_.member.rank < layout_.inner.size;
    if (space.frozen || count == 0 || !counted) continue;
    const Part reduced = storage.Reduced(layout_, extent);
    const size_t skipped =
        space.placement.optimizer_cut ? 0 : layout_.OwnFirst(extent) - extent.range.begin;
    sums.nonfinite +=
        AddSquares(isa_, space.grad_dtype, reduced.data + skipped * DtypeSize(space.grad_dtype),
                   count, layout_.OwnFirst(extent), sums.squares);
  }
  return sums;
}

void ShardOptimizer::Begin(const Storage& storage, double learning_rate, double gradient_factor) {
  ++update_count_;
  learning_rate_ = learning_rate;
  factor_ = gradient_factor;
  if (!std::exchange(main_stale_, false)) return;
  for (size_t extent = 0; extent < states_.size(); ++extent)
    WidenParams(storage, static_cast<int>(extent));
}

void ShardOptimizer::WidenParams(const Storage& storage, int index) {
  const State& state = states_[static_cast<size_t>(index)];
  if (state.main.bytes() == 0) return;
  const Extent& extent = layout_.extents[static_cast<size_t>(index)];
  const void* const params = ArraysOf(storage, index, {.begin = state.first}).cast;
  Widen(layout_.SpaceOf(extent).dtype, params, state.count, Floats(state.main));
}

OptimizerArrays ShardOptimizer::ArraysOf(const Storage& storage, int index, const Run& run) const {
  const State& state = states_[static_cast<size_t>(index)];
  const Extent& extent = layout_.extents[static_cast<size_t>(index)];
  const Space& space = layout_.SpaceOf(extent);
  const size_t at = run.begin - state.first;
  const size_t size = DtypeSize(space.dtype);
  // Params lie whole in their space, or as this rank's part alone; in both cases the state begins there.
  std::byte* params = space.placement.optimizer_cut
                          ? storage.OwnParams(layout_, extent).data
                          : storage.Data(extent.range.space, extent.range.begin);
  params += at * size;
  OptimizerArrays arrays;
  const auto moment = [&](const Block& block) {
    return block.bytes() == 0 ? nullptr : Floats(block) + at;
  };
  arrays.weights = state.main.bytes() == 0 ? reinterpret_cast<float*>(params) : moment(state.main);
  arrays.cast = state.main.bytes() == 0 ? nullptr : params;
  arrays.cast_dtype = space.dtype;
  arrays.first_moment = moment(state.first_moment);
  arrays.second_moment = moment(state.second_moment);
  arrays.gradients = storage.Reduced(layout_, extent).data + at * DtypeSize(space.grad_dtype);
  arrays.gradient_dtype = space.grad_dtype;
  arrays.count = run.count;
  return arrays;
}

std::vector<int64_t> ShardOptimizer::StartNorms(const Storage& storage) {
  if (!NeedsNorms()) return {};
  std::vector<LambSums> sums(registry_.params().size());
  for (size_t extent = 0; extent < states_.size(); ++extent) {
    for (const Run& run : states_[extent].runs) {
      const OptimizerArrays arrays = ArraysOf(storage, static_cast<int>(extent), run);
      LambSums of_run;
      if (config_.kind == WEFT_OPTIMIZER_LAMB) {
        LambOptions options = config_.lamb;
        if (!run.decays) options.weight_decay = 0;
        UpdateLambMoments(isa_, MakeLambStep(options, update_count_, factor_), arrays, run.begin,
                          of_run);
      } else {
        AddSquares(isa_, WEFT_FLOAT32, arrays.weights, run.count, run.begin, of_run.weights);
        AddSquares(isa_, arrays.gradient_dtype, arrays.gradients, run.count, run.begin,
                   of_run.updates);
      }
      if (!states_[extent].counts) continue;
      sums[static_cast<size_t>(run.param)].weights.Merge(of_run.weights);
      sums[static_cast<size_t>(run.param)].updates.Merge(of_run.updates);
    }
  }
  std::vector<int64_t> words;
  for (const LambSums& of_param : sums) {
    Append(of_param.weights, words);
    Append(of_param.updates, words);
  }
  return words;
}

void ShardOptimizer::TakeNorms(const std::vector<int64_t>& words) {
  if (!NeedsNorms()) return;
  WEFT_CHECK(words.size() == 2 * ratios_.size() * kWordsPerSum);
  for (size_t param = 0; param < ratios_.size(); ++param) {
    const double weights = ValueAt(words, 2 * param);
    const double updates = ValueAt(words, 2 * param + 1);
    if (config_.kind == WEFT_OPTIMIZER_LAMB) {
      ratios_[param] = LambTrustRatio(weights, updates);
    } else {
      LarsOptions options = config_.lars;
      if (!registry_.params()[param].decays) options.weight_decay = 0;
      options.learning_rate = learning_rate_;
      ratios_[param] = LarsTrustRatio(MakeLarsStep(options, factor_), weights, updates);
    }
  }
}

void ShardOptimizer::Update(const Storage& storage, int extent) {
  for (const Run& run : states_[static_cast<size_t>(extent)].runs)
    UpdateRun(ArraysOf(storage, extent, run), run);
}

void ShardOptimizer::UpdateRun(const OptimizerArrays& arrays, const Run& run) const {
  const auto with_rate = [&](auto options) {
    options.learning_rate = learning_rate_;
    if (!run.decays) options.weight_decay = 0;
    return options;
  };
  const double ratio = ratios_[static_cast<size_t>(run.param)];
  switch (config_.kind) {
    case WEFT_OPTIMIZER_ADAMW:
      return UpdateAdamW(isa_, MakeAdamWStep(with_rate(config_.adamw), update_count_, factor_),
                         arrays);
    case WEFT_OPTIMIZER_SGD:
      return UpdateSgd(isa_, MakeSgdStep(with_rate(config_.sgd), factor_), arrays);
    case WEFT_OPTIMIZER_LION:
      return UpdateLion(isa_, MakeLionStep(with_rate(config_.lion), factor_), arrays);
    case WEFT_OPTIMIZER_LAMB:
      return ApplyLamb(isa_, MakeLambStep(with_rate(config_.lamb), update_count_, factor_), ratio,
                       arrays);
    case WEFT_OPTIMIZER_LARS:
      return UpdateLars(isa_, MakeLarsStep(with_rate(config_.lars), factor_), ratio, arrays);
  }
}

}  // namespace weft
