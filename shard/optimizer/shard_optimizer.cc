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

LossScale MakeLossScale(const OptimizerConfig& config) {
  return config.dynamic_scale ? LossScale(config.scale) : LossScale::Static(config.static_scale);
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

absl::StatusOr<std::unique_ptr<ShardOptimizer>> ShardOptimizer::Allocate(
    const OptimizerConfig& config, const std::vector<OptimizerGroup>& groups,
    const Registry& registry, const Layout& layout, Isa isa, const BlockSource& source) {
  WEFT_RETURN_IF_ERROR(CheckUpdatable(groups, registry, layout));
  std::unique_ptr<ShardOptimizer> optimizer(
      new ShardOptimizer(config, groups, registry, layout, isa));
  WEFT_ASSIGN_OR_RETURN(optimizer->state_,
                        OptimizerState::Allocate(groups, registry, layout, source));
  absl::StatusOr<std::unique_ptr<ThreadTeam>> team = ThreadTeam::Start(config.threads);
  if (!team.ok()) return Annotate(team.status(), "the optimizer's threads: ");
  optimizer->team_ = *std::move(team);
  return optimizer;
}

ShardOptimizer::ShardOptimizer(const OptimizerConfig& config,
                               const std::vector<OptimizerGroup>& groups, const Registry& registry,
                               const Layout& layout, Isa isa)
    : groups_(groups),
      groups_mark_(GroupsMark(groups)),
      registry_(registry),
      layout_(layout),
      isa_(isa),
      product_(config.product),
      loss_scale_(MakeLossScale(config)),
      updates_(layout.extents.size()),
      summer_(layout, isa),
      mains_(registry.params().size()),
      ratios_(registry.params().size(), 1) {
  Arrange();
}

void ShardOptimizer::SetGroup(int group, const OptimizerGroup& numbers) {
  OptimizerGroup& own = groups_[static_cast<size_t>(group)];
  const bool rearranges = own.kind != numbers.kind;
  own = numbers;
  groups_mark_ = GroupsMark(groups_);
  if (rearranges) Arrange();
}

void ShardOptimizer::Arrange() {
  pieces_.clear();
  normed_.clear();
  normed_at_.assign(registry_.params().size(), -1);
  const std::vector<std::vector<int>> params_of = ParamsByExtent(layout_);
  for (size_t extent = 0; extent < layout_.extents.size(); ++extent) {
    const Space& space = layout_.SpaceOf(layout_.extents[extent]);
    if (space.frozen) continue;
    Updates& updates = updates_[extent];
    // Replicas have the same sums: the first one's count.
    updates.counts = space.placement.replicated
                         ? layout_.member.rank < layout_.inner.size
                         : space.placement.optimizer_sharded || layout_.member.rank == 0;
    updates.matrices.clear();
    for (const int param : params_of[extent]) {
      const bool muon = GroupOfParam(param).kind == WEFT_OPTIMIZER_MUON;
      if (muon && UpdatesAny(registry_, layout_, param)) updates.matrices.push_back(KeptOf(param));
    }
    updates.first_piece = pieces_.size();
    for (const UpdateRange& range : RangesOf(params_of[extent])) {
      for (size_t i = 0; i < PieceCount(range.begin, range.count); ++i) {
        const Piece piece = PieceOf(range.begin, range.count, i);
        UpdateRange& part = pieces_.emplace_back(range);
        part.begin = piece.begin;
        part.count = piece.count;
      }
    }
    updates.piece_count = pieces_.size() - updates.first_piece;
  }
  for (size_t i = 0; i < registry_.params().size(); ++i) {
    const auto param = static_cast<int>(i);
    const ParamSpec& spec = registry_.params()[i];
    if (spec.frozen || spec.count == 0 || !NeedsNorms(GroupOfParam(param))) continue;
    normed_at_[i] = static_cast<int>(normed_.size());
    normed_.push_back(param);
  }
}

std::vector<ShardOptimizer::UpdateRange> ShardOptimizer::RangesOf(
    const std::vector<int>& params) const {
  std::vector<UpdateRange> ranges;
  for (const int param : params) {
    const Place& place = layout_.places[static_cast<size_t>(param)];
    const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
    if (spec.count == 0 || GroupOfParam(param).kind == WEFT_OPTIMIZER_MUON) continue;
    const UpdatedElements own =
        UpdatedBy(layout_, layout_.extents[static_cast<size_t>(place.extent)]);
    const size_t end = std::min(place.begin + RoundUpToCut(spec.count), own.first + own.count);
    const size_t begin = std::max(place.begin, own.first);
    if (begin >= end) continue;
    const bool joins = !NeedsNorms(GroupOfParam(param)) && !ranges.empty() &&
                       ranges.back().group == spec.group && ranges.back().decays == spec.decays &&
                       ranges.back().begin + ranges.back().count == begin;
    if (joins) {
      ranges.back().count += end - begin;
    } else {
      ranges.push_back({place.extent, param, begin, end - begin, spec.decays, spec.group});
    }
  }
  return ranges;
}

ShardOptimizer::UpdateRange ShardOptimizer::KeptOf(int param) const {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Place& place = layout_.places[static_cast<size_t>(param)];
  if (spec.frozen || spec.count == 0) return {};
  const UpdatedElements own =
      UpdatedBy(layout_, layout_.extents[static_cast<size_t>(place.extent)]);
  const size_t begin = std::max(place.begin, own.first);
  const size_t end = std::min(place.begin + spec.count, own.first + own.count);
  return {place.extent, param, begin, begin < end ? end - begin : 0, spec.decays, spec.group};
}

Digest ShardOptimizer::DigestOf(int param) const {
  const UpdateRange kept = KeptOf(param);
  if (kept.count == 0) return Digest();
  const StateArrays state = state_.At(kept.extent, kept.begin);
  Hasher hasher;
  const auto add = [&](const float* values) {
    if (values != nullptr) hasher.Update(values, kept.count * sizeof(float));
  };
  if (!mains_[static_cast<size_t>(param)].stale) add(state.main);
  add(state.first_moment);
  add(state.second_moment);
  return hasher.Finish();
}

void ShardOptimizer::ParamWritten(int param) {
  MainCopy& main = mains_[static_cast<size_t>(param)];
  main.stale = true;
  main.made = false;
}

void ShardOptimizer::ParamsWritten() {
  for (size_t param = 0; param < mains_.size(); ++param)
    ParamWritten(static_cast<int>(param));
}

void ShardOptimizer::TellMain(const Storage& storage, int param) {
  MainCopy& main = mains_[static_cast<size_t>(param)];
  if (main.stale && !main.made) WidenParam(storage, param);
  main.made = true;
  main.known = true;
}

void ShardOptimizer::MainsWritten() {
  for (MainCopy& main : mains_)
    main.stale = main.stale && !main.known;
}

ShardOptimizer::Kept ShardOptimizer::StateOf(const Storage& storage, int param) const {
  const UpdateRange range = KeptOf(param);
  if (range.count == 0) return {};
  const OptimizerArrays arrays = ArraysOf(storage, range);
  return {.begin = range.begin - layout_.places[static_cast<size_t>(param)].begin,
          .count = range.count,
          .main = arrays.cast == nullptr ? nullptr : arrays.weights,
          .first_moment = arrays.first_moment,
          .second_moment = arrays.second_moment};
}

bool ShardOptimizer::KeepsMain(int param) const {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const bool updated = !spec.frozen && spec.count > 0;
  return updated && spec.dtype != WEFT_FLOAT32 && GroupOfParam(param).kind != WEFT_OPTIMIZER_OWN;
}

int ShardOptimizer::MomentsOf(int param) const {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  return spec.frozen || spec.count == 0 ? 0 : MomentCount(GroupOfParam(param));
}

void ShardOptimizer::Begin(const Storage& storage, double learning_rate, double gradient_factor) {
  ++update_count_;
  learning_rate_ = learning_rate;
  factor_ = gradient_factor;
  for (size_t param = 0; param < mains_.size(); ++param) {
    if (mains_[param].stale && !mains_[param].made) WidenParam(storage, static_cast<int>(param));
    mains_[param].stale = false;
  }
}

void ShardOptimizer::WidenParam(const Storage& storage, int param) {
  const UpdateRange kept = KeptOf(param);
  if (kept.count == 0) return;
  const OptimizerArrays arrays = ArraysOf(storage, kept);
  if (arrays.cast != nullptr) Widen(arrays.cast_dtype, arrays.cast, kept.count, arrays.weights);
}

std::byte* ShardOptimizer::GradientsOf(const Storage& storage, const UpdateRange& range) const {
  const Extent& extent = layout_.extents[static_cast<size_t>(range.extent)];
  const size_t at = range.begin - UpdatedBy(layout_, extent).first;
  return storage.Reduced(layout_, extent).data + at * DtypeSize(layout_.SpaceOf(extent).grad_dtype);
}

OptimizerArrays ShardOptimizer::ArraysOf(const Storage& storage, const UpdateRange& range) const {
  const Extent& extent = layout_.extents[static_cast<size_t>(range.extent)];
  const Space& space = layout_.SpaceOf(extent);
  const size_t at = range.begin - UpdatedBy(layout_, extent).first;
  // Params lie whole in their space, or as this rank's part alone; in both cases what is updated begins there.
  std::byte* params = space.placement.optimizer_sharded
                          ? storage.OwnParams(layout_, extent).data
                          : storage.Data(extent.range.space, extent.range.begin);
  params += at * DtypeSize(space.dtype);
  const StateArrays state = state_.At(range.extent, range.begin);
  OptimizerArrays arrays;
  arrays.weights = state.main == nullptr ? reinterpret_cast<float*>(params) : state.main;
  arrays.cast = state.main == nullptr ? nullptr : params;
  arrays.cast_dtype = space.dtype;
  arrays.first_moment = state.first_moment;
  arrays.second_moment = state.second_moment;
  arrays.gradients = GradientsOf(storage, range);
  arrays.gradient_dtype = space.grad_dtype;
  arrays.count = range.count;
  return arrays;
}

std::vector<int64_t> ShardOptimizer::StartNorms(const Storage& storage) {
  if (normed_.empty()) return {};
  std::vector<LambSums> sums(normed_.size());
  Mutex adding;
  team_->ForEach(pieces_.size(), [&](size_t index, int) {
    const UpdateRange& range = pieces_[index];
    const int at = normed_at_[static_cast<size_t>(range.param)];
    if (at < 0) return;
    const LambSums of_range = NormsOf(ArraysOf(storage, range), range);
    if (!updates_[static_cast<size_t>(range.extent)].counts) return;
    LambSums& of_param = sums[static_cast<size_t>(at)];
    MutexLock lock(adding);
    of_param.weights.Merge(of_range.weights);
    of_param.updates.Merge(of_range.updates);
  });
  std::vector<int64_t> words;
  for (const LambSums& of_param : sums) {
    Append(of_param.weights, words);
    Append(of_param.updates, words);
  }
  return words;
}

LambSums ShardOptimizer::NormsOf(const OptimizerArrays& arrays, const UpdateRange& range) const {
  const OptimizerGroup& group = groups_[static_cast<size_t>(range.group)];
  LambSums sums;
  if (group.kind == WEFT_OPTIMIZER_LAMB) {
    const LambOptions options = WithRate(group.lamb, group, {learning_rate_, range.decays});
    UpdateLambMoments(isa_, MakeLambStep(options, update_count_, factor_), arrays, range.begin,
                      sums);
  } else {
    AddSquares(isa_, WEFT_FLOAT32, arrays.weights, range.count, range.begin, sums.weights);
    AddSquares(isa_, arrays.gradient_dtype, arrays.gradients, range.count, range.begin,
               sums.updates);
  }
  return sums;
}

void ShardOptimizer::TakeNorms(const std::vector<int64_t>& words) {
  WEFT_CHECK(words.size() == 2 * normed_.size() * kWordsPerSum);
  for (size_t at = 0; at < normed_.size(); ++at) {
    const auto param = static_cast<size_t>(normed_[at]);
    const OptimizerGroup& group = GroupOfParam(normed_[at]);
    const double weights = ValueAt(words, 2 * at);
    const double updates = ValueAt(words, 2 * at + 1);
    if (group.kind == WEFT_OPTIMIZER_LAMB) {
      ratios_[param] = LambTrustRatio(weights, updates);
    } else {
      const LarsOptions options =
          WithRate(group.lars, group, {learning_rate_, registry_.params()[param].decays});
      ratios_[param] = LarsTrustRatio(MakeLarsStep(options, factor_), weights, updates);
    }
  }
}

void ShardOptimizer::Update(const Storage& storage, int extent) {
  const Updates& updates = updates_[static_cast<size_t>(extent)];
  team_->ForEach(updates.piece_count, [&](size_t index, int) {
    const UpdateRange& range = pieces_[updates.first_piece + index];
    UpdatePiece(storage, range);
  });
  for (const UpdateRange& matrix : updates.matrices)
    UpdateMatrix(storage, matrix);
}

void ShardOptimizer::UpdateMatrix(const Storage& storage, const UpdateRange& range) const {
  const OptimizerGroup& group = groups_[static_cast<size_t>(range.group)];
  UpdateMuon(isa_, *team_, product_, WithRate(group.muon, group, {learning_rate_, range.decays}),
             factor_, MatrixOf(registry_.params()[static_cast<size_t>(range.param)]),
             ArraysOf(storage, range), state_.scratch());
}

void ShardOptimizer::UpdatePiece(const Storage& storage, const UpdateRange& range) const {
  const OptimizerGroup& group = groups_[static_cast<size_t>(range.group)];
  const OptimizerArrays arrays = ArraysOf(storage, range);
  const auto with_rate = [&](const auto& options) {
    return WithRate(options, group, {learning_rate_, range.decays});
  };
  const double ratio = ratios_[static_cast<size_t>(range.param)];
  switch (group.kind) {
    case WEFT_OPTIMIZER_ADAMW:
      return UpdateAdamW(isa_, MakeAdamWStep(with_rate(group.adamw), update_count_, factor_),
                         arrays);
    case WEFT_OPTIMIZER_SGD:
      return UpdateSgd(isa_, MakeSgdStep(with_rate(group.sgd), factor_), arrays);
    case WEFT_OPTIMIZER_LION:
      return UpdateLion(isa_, MakeLionStep(with_rate(group.lion), factor_), arrays);
    case WEFT_OPTIMIZER_LAMB:
      return ApplyLamb(isa_, MakeLambStep(with_rate(group.lamb), update_count_, factor_), ratio,
                       arrays);
    case WEFT_OPTIMIZER_LARS:
      return UpdateLars(isa_, MakeLarsStep(with_rate(group.lars), factor_), ratio, arrays);
    case WEFT_OPTIMIZER_MUON:
      return;  // whole, in UpdateMatrix
    case WEFT_OPTIMIZER_OWN:
      return ScaleGradients(isa_, factor_, arrays.gradient_dtype, GradientsOf(storage, range),
                            range.count);
  }
}

}  // namespace weft
