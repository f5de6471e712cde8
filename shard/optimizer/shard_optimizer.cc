// The bits of an update may depend neither on how many threads share it nor on where a preset cuts. So work is divided
// into pieces at fixed elements of the space, sums of squares are made of whole blocks of 128 and added exactly, and each
// element is updated by itself.
#include "shard/optimizer/shard_optimizer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/layout/widen.h"
#include "shard/optimizer/sum_squares.h"

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

absl::Status CheckUpdatable(const Registry& registry) {
  for (const ParamSpec& param : registry.params()) {
    if (param.frozen || param.dtype != WEFT_FLOAT64) continue;
    return MakeError(WEFT_UNSUPPORTED, {.operation = "finalize"},
                     StrCat("parameter ", param.name,
                            " is float64, which the optimizers do not update; freeze it, or "
                            "update its parts yourself"));
  }
  return absl::OkStatus();
}

StateSize StateSizeOf(const OptimizerConfig& config, const Layout& layout, const Extent& extent) {
  const Space& space = layout.SpaceOf(extent);
  const bool cut = space.placement.optimizer_sharded;
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
  std::vector<std::vector<int>> params_of(layout.extents.size());
  for (size_t param = 0; param < layout.places.size(); ++param) {
    const int extent = layout.places[param].extent;
    if (extent >= 0) params_of[static_cast<size_t>(extent)].push_back(static_cast<int>(param));
  }
  for (size_t extent = 0; extent < layout.extents.size(); ++extent) {
    WEFT_RETURN_IF_ERROR(
        optimizer->AllocateExtent(static_cast<int>(extent), params_of[extent], source));
  }
  optimizer->AddSumPieces();
  absl::StatusOr<std::unique_ptr<ThreadTeam>> team = ThreadTeam::Start(config.threads);
  if (!team.ok()) return Annotate(team.status(), "the optimizer's threads: ");
  optimizer->team_ = *std::move(team);
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
      main_stale_(registry.params().size(), true),
      ratios_(registry.params().size(), 1) {}

absl::Status ShardOptimizer::AllocateExtent(int index, const std::vector<int>& params,
                                            const BlockSource& source) {
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
                     : space.placement.optimizer_sharded || layout_.member.rank == 0;
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
  AddPieces(params, state);
  return absl::OkStatus();
}

std::vector<ShardOptimizer::Run> ShardOptimizer::RunsOf(const std::vector<int>& params,
                                                        const State& state) const {
  std::vector<Run> runs;
  for (const int param : params) {
    const Place& place = layout_.places[static_cast<size_t>(param)];
    const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
    if (spec.count == 0) continue;
    const size_t end = std::min(place.begin + RoundUpToCut(spec.count), state.first + state.count);
    const size_t begin = std::max(place.begin, state.first);
    if (begin >= end) continue;
    const bool joins = !NeedsNorms() && !runs.empty() && runs.back().decays == spec.decays &&
                       runs.back().begin + runs.back().count == begin;
    if (joins) {
      runs.back().count += end - begin;
    } else {
      runs.push_back({place.extent, param, begin, end - begin, spec.decays});
    }
  }
  return runs;
}

void ShardOptimizer::AddPieces(const std::vector<int>& params, State& state) {
  state.first_piece = pieces_.size();
  for (const Run& run : RunsOf(params, state)) {
    for (size_t i = 0; i < PieceCount(run.begin, run.count); ++i) {
      const Piece piece = PieceOf(run.begin, run.count, i);
      pieces_.push_back({run.extent, run.param, piece.begin, piece.count, run.decays});
    }
  }
  state.piece_count = pieces_.size() - state.first_piece;
}

void ShardOptimizer::AddSumPieces() {
  for (size_t i = 0; i < layout_.extents.size(); ++i) {
    const Extent& extent = layout_.extents[i];
    const Space& space = layout_.SpaceOf(extent);
    const size_t count = layout_.OwnCount(extent);
    const bool counted = !space.placement.replicated || layout_.member.rank < layout_.inner.size;
    if (space.frozen || !counted) continue;
    for (size_t at = 0; at < PieceCount(layout_.OwnFirst(extent), count); ++at) {
      const Piece piece = PieceOf(layout_.OwnFirst(extent), count, at);
      sum_pieces_.push_back({static_cast<int>(i), piece});
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

ShardOptimizer::Run ShardOptimizer::KeptOf(int param) const {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Place& place = layout_.places[static_cast<size_t>(param)];
  if (spec.frozen || spec.count == 0) return {};
  const State& state = states_[static_cast<size_t>(place.extent)];
  const size_t begin = std::max(place.begin, state.first);
  const size_t end = std::min(place.begin + spec.count, state.first + state.count);
  return {place.extent, param, begin, begin < end ? end - begin : 0, spec.decays};
}

Digest ShardOptimizer::DigestOf(int param) const {
  const Run kept = KeptOf(param);
  if (kept.count == 0) return Digest();
  const State& state = states_[static_cast<size_t>(kept.extent)];
  Hasher hasher;
  const auto add = [&](const Block& block) {
    if (block.bytes() == 0) return;
    hasher.Update(Floats(block) + (kept.begin - state.first), kept.count * sizeof(float));
  };
  if (!main_stale_[static_cast<size_t>(param)]) add(state.main);
  add(state.first_moment);
  add(state.second_moment);
  return hasher.Finish();
}

GradientSums ShardOptimizer::SumGradients(const Storage& storage) const {
  struct alignas(64) Sums {  // of one member, on lines of its own
    GradientSums of;
  };

  std::vector<Sums> sums(static_cast<size_t>(team_->size()));
  team_->ForEach(sum_pieces_.size(), [&](size_t index, int member) {
    const auto& [of, piece] = sum_pieces_[index];
    const Extent& extent = layout_.extents[static_cast<size_t>(of)];
    const Space& space = layout_.SpaceOf(extent);
    // What a reduction leaves here begins with this rank's share, or with the extent.
    const size_t first =
        space.placement.optimizer_sharded ? layout_.OwnFirst(extent) : extent.range.begin;
    const std::byte* const gradients = storage.Reduced(layout_, extent).data;
    GradientSums& own = sums[static_cast<size_t>(member)].of;
    own.nonfinite += AddSquares(isa_, space.grad_dtype,
                                gradients + (piece.begin - first) * DtypeSize(space.grad_dtype),
                                piece.count, piece.begin, own.squares);
  });
  for (size_t member = 1; member < sums.size(); ++member) {
    sums[0].of.squares.Merge(sums[member].of.squares);
    sums[0].of.nonfinite += sums[member].of.nonfinite;
  }
  return sums[0].of;
}

void ShardOptimizer::Begin(const Storage& storage, double learning_rate, double gradient_factor) {
  ++update_count_;
  learning_rate_ = learning_rate;
  factor_ = gradient_factor;
  for (size_t param = 0; param < main_stale_.size(); ++param) {
    if (main_stale_[param]) WidenParam(storage, static_cast<int>(param));
    main_stale_[param] = false;
  }
}

void ShardOptimizer::WidenParam(const Storage& storage, int param) {
  const Run kept = KeptOf(param);
  if (kept.count == 0) return;
  const OptimizerArrays arrays = ArraysOf(storage, kept);
  if (arrays.cast != nullptr) Widen(arrays.cast_dtype, arrays.cast, kept.count, arrays.weights);
}

OptimizerArrays ShardOptimizer::ArraysOf(const Storage& storage, const Run& run) const {
  const State& state = states_[static_cast<size_t>(run.extent)];
  const Extent& extent = layout_.extents[static_cast<size_t>(run.extent)];
  const Space& space = layout_.SpaceOf(extent);
  const size_t at = run.begin - state.first;
  const size_t size = DtypeSize(space.dtype);
  // Params lie whole in their space, or as this rank's part alone; in both cases the state begins there.
  std::byte* params = space.placement.optimizer_sharded
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
  Mutex adding;
  team_->ForEach(pieces_.size(), [&](size_t index, int) {
    const Run& run = pieces_[index];
    const LambSums of_run = NormsOf(ArraysOf(storage, run), run);
    if (!states_[static_cast<size_t>(run.extent)].counts) return;
    LambSums& of_param = sums[static_cast<size_t>(run.param)];
    MutexLock lock(adding);
    of_param.weights.Merge(of_run.weights);
    of_param.updates.Merge(of_run.updates);
  });
  std::vector<int64_t> words;
  for (const LambSums& of_param : sums) {
    Append(of_param.weights, words);
    Append(of_param.updates, words);
  }
  return words;
}

LambSums ShardOptimizer::NormsOf(const OptimizerArrays& arrays, const Run& run) const {
  LambSums sums;
  if (config_.kind == WEFT_OPTIMIZER_LAMB) {
    LambOptions options = config_.lamb;
    if (!run.decays) options.weight_decay = 0;
    UpdateLambMoments(isa_, MakeLambStep(options, update_count_, factor_), arrays, run.begin, sums);
  } else {
    AddSquares(isa_, WEFT_FLOAT32, arrays.weights, run.count, run.begin, sums.weights);
    AddSquares(isa_, arrays.gradient_dtype, arrays.gradients, run.count, run.begin, sums.updates);
  }
  return sums;
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
  const State& state = states_[static_cast<size_t>(extent)];
  team_->ForEach(state.piece_count, [&](size_t index, int) {
    const Run& run = pieces_[state.first_piece + index];
    UpdateRun(ArraysOf(storage, run), run);
  });
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
