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
#include "shard/optimizer/sum_squares.h"

namespace weft {
namespace {

// So much is updated before the store may go on with its transfers: a millisecond or less.
constexpr size_t kPiecesAtOnce = 16;

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

absl::StatusOr<std::unique_ptr<ShardOptimizer>> ShardOptimizer::Make(
    const OptimizerConfig& config, const std::vector<OptimizerGroup>& groups,
    const Registry& registry, const Layout& layout, Isa isa, std::unique_ptr<StateStore> store,
    const BlockSource& source) {
  WEFT_RETURN_IF_ERROR(CheckUpdatable(groups, registry, layout));
  std::unique_ptr<ShardOptimizer> optimizer(
      new ShardOptimizer(config, groups, registry, layout, isa, std::move(store)));
  absl::StatusOr<Block> scratch =
      Block::Allocate(source, WEFT_SHARD_TIER_OPTIMIZER, ScratchBytes(groups, registry, layout));
  if (!scratch.ok()) return Annotate(scratch.status(), "allocating what MUON works in: ");
  optimizer->scratch_ = *std::move(scratch);
  absl::StatusOr<std::unique_ptr<ThreadTeam>> team = ThreadTeam::Start(config.threads);
  if (!team.ok()) return Annotate(team.status(), "the optimizer's threads: ");
  optimizer->team_ = *std::move(team);
  return optimizer;
}

ShardOptimizer::ShardOptimizer(const OptimizerConfig& config,
                               const std::vector<OptimizerGroup>& groups, const Registry& registry,
                               const Layout& layout, Isa isa, std::unique_ptr<StateStore> store)
    : groups_(groups),
      groups_mark_(GroupsMark(groups)),
      registry_(registry),
      layout_(layout),
      isa_(isa),
      product_(config.product),
      loss_scale_(MakeLossScale(config)),
      kept_(groups, registry, layout, std::move(store)),
      order_(UpdateOrder(layout)),
      updates_(layout.extents.size()),
      summer_(registry, layout, isa),
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
  for (size_t i = 0; i < registry_.params().size(); ++i) {
    const auto param = static_cast<int>(i);
    const ParamSpec& spec = registry_.params()[i];
    if (spec.frozen || spec.count == 0 || !NeedsNorms(GroupOfParam(param))) continue;
    normed_at_[i] = static_cast<int>(normed_.size());
    normed_.push_back(param);
  }
  const std::vector<std::vector<int>> params_of = ParamsByExtent(layout_);
  for (size_t extent = 0; extent < layout_.extents.size(); ++extent) {
    const Space& space = layout_.SpaceOf(layout_.extents[extent]);
    if (space.frozen) continue;
    Updates& updates = updates_[extent];
    // Replicas have the same sums: the first one's count.
    updates.counts = space.placement.replicated
                         ? layout_.member.rank < layout_.inner.size
                         : space.placement.optimizer_sharded || layout_.member.rank == 0;
    updates.visits.clear();
    const std::vector<UpdateRange> ranges = RangesOf(params_of[extent]);
    for (const StateWindow& window : kept_.store().WindowsOf(static_cast<int>(extent)))
      updates.visits.push_back(VisitOf(window, ranges, params_of[extent]));
  }
}

ShardOptimizer::Visit ShardOptimizer::VisitOf(const StateWindow& window,
                                              const std::vector<UpdateRange>& ranges,
                                              const std::vector<int>& params) {
  Visit visit{.window = window, .first_piece = pieces_.size()};
  const size_t end = window.begin + window.count;
  for (const UpdateRange& range : ranges) {
    const size_t from = std::max(range.begin, window.begin);
    const size_t to = std::min(range.begin + range.count, end);
    if (from >= to) continue;
    for (size_t i = 0; i < PieceCount(from, to - from); ++i) {
      const Piece piece = PieceOf(from, to - from, i);
      UpdateRange& part = pieces_.emplace_back(range);
      part.begin = piece.begin;
      part.count = piece.count;
    }
    const OptimizerGroup& group = GroupOfParam(range.param);
    visit.normed = visit.normed || NeedsNorms(group);
    visit.norms_change = visit.norms_change || NormsChangeState(group);
    visit.updates_change =
        visit.updates_change || UpdateChangesState(group, kept_.NeedsOf(range.param));
  }
  visit.piece_count = pieces_.size() - visit.first_piece;
  for (const int param : params) {
    if (GroupOfParam(param).kind != WEFT_OPTIMIZER_MUON) continue;
    const OwnedElements part = kept_.PartOf(param);
    const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
    const Place& place = layout_.places[static_cast<size_t>(param)];
    const size_t begin = place.begin + part.begin;
    if (part.count == 0 || begin < window.begin || begin >= end) continue;
    visit.matrices.push_back({place.extent, param, begin, part.count, spec.decays, spec.group});
    visit.updates_change = true;
  }
  return visit;
}

std::vector<int> ShardOptimizer::WindowsOfVisits(
    absl::FunctionRef<bool(const Visit& visit)> counts) const {
  std::vector<int> windows;
  for (const int extent : order_) {
    for (const Visit& visit : updates_[static_cast<size_t>(extent)].visits) {
      const int window = visit.window.number;
      if (counts(visit) && (windows.empty() || windows.back() != window)) windows.push_back(window);
    }
  }
  return windows;
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

void ShardOptimizer::Begin(double learning_rate, double gradient_factor) {
  ++update_count_;
  learning_rate_ = learning_rate;
  factor_ = gradient_factor;
  kept_.BeginUpdate();
  ExpectUpdate();
}

void ShardOptimizer::ExpectUpdate() {
  std::vector<int> windows = WindowsOfVisits([](const Visit& visit) { return visit.normed; });
  const std::vector<int> all = WindowsOfVisits([](const Visit& /*visit*/) { return true; });
  windows.insert(windows.end(), all.begin(), all.end());
  kept_.store().Expect(std::move(windows));
}

absl::Status ShardOptimizer::Open(const Storage& storage, int extent, const Visit& visit,
                                  bool changes) {
  WEFT_RETURN_IF_ERROR(
      kept_.store().Visit(visit.window.number, changes || kept_.IsWritten(extent, visit.window)));
  kept_.WidenWritten(storage, extent, visit.window);
  return absl::OkStatus();
}

std::byte* ShardOptimizer::GradientsOf(const Storage& storage, const UpdateRange& range) const {
  const Extent& extent = layout_.extents[static_cast<size_t>(range.extent)];
  const size_t at = range.begin - UpdatedBy(layout_, extent).first;
  return storage.Reduced(layout_, extent).data + at * DtypeSize(layout_.SpaceOf(extent).grad_dtype);
}

OptimizerArrays ShardOptimizer::ArraysOf(const Storage& storage, const UpdateRange& range) const {
  const Extent& extent = layout_.extents[static_cast<size_t>(range.extent)];
  const Space& space = layout_.SpaceOf(extent);
  const StateArrays state = kept_.store().At(range.extent, range.begin);
  std::byte* const params = kept_.ParamsAt(storage, range.extent, range.begin);
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

absl::StatusOr<std::vector<int64_t>> ShardOptimizer::StartNorms(const Storage& storage) {
  std::vector<int64_t> words;
  if (normed_.empty()) return words;
  std::vector<LambSums> sums(normed_.size());
  for (const int extent : order_) {
    const Updates& updates = updates_[static_cast<size_t>(extent)];
    for (const Visit& visit : updates.visits) {
      if (!visit.normed) continue;
      WEFT_RETURN_IF_ERROR(Open(storage, extent, visit, visit.norms_change));
      AddNorms(storage, visit, updates.counts, sums);
    }
  }
  for (const LambSums& of_param : sums) {
    Append(of_param.weights, words);
    Append(of_param.updates, words);
  }
  return words;
}

// Sums that do not count are made all the same: LAMB's moments are updated on the way.
void ShardOptimizer::AddNorms(const Storage& storage, const Visit& visit, bool counts,
                              std::vector<LambSums>& sums) const {
  Mutex adding;
  team_->ForEach(visit.piece_count, [&](size_t index, int) {
    const UpdateRange& range = pieces_[visit.first_piece + index];
    const int at = normed_at_[static_cast<size_t>(range.param)];
    if (at < 0) return;
    const LambSums of_range = NormsOf(ArraysOf(storage, range), range);
    if (!counts) return;
    LambSums& of_param = sums[static_cast<size_t>(at)];
    MutexLock lock(adding);
    of_param.weights.Merge(of_range.weights);
    of_param.updates.Merge(of_range.updates);
  });
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

absl::Status ShardOptimizer::Update(const Storage& storage, int extent) {
  for (const Visit& visit : updates_[static_cast<size_t>(extent)].visits) {
    WEFT_RETURN_IF_ERROR(Open(storage, extent, visit, visit.updates_change));
    const size_t at_once = kept_.resident() ? visit.piece_count : kPiecesAtOnce;
    for (size_t first = 0; first < visit.piece_count; first += at_once) {
      const size_t count = std::min(at_once, visit.piece_count - first);
      team_->ForEach(count, [&](size_t index, int) {
        UpdatePiece(storage, pieces_[visit.first_piece + first + index]);
      });
      kept_.store().Advance();
    }
    for (const UpdateRange& matrix : visit.matrices)
      UpdateMatrix(storage, matrix);
  }
  return absl::OkStatus();
}

// What the next update begins with may be read while the next step computes.
absl::Status ShardOptimizer::End() {
  WEFT_RETURN_IF_ERROR(kept_.store().Leave());
  ExpectUpdate();
  return absl::OkStatus();
}

void ShardOptimizer::UpdateMatrix(const Storage& storage, const UpdateRange& range) const {
  const OptimizerGroup& group = groups_[static_cast<size_t>(range.group)];
  UpdateMuon(isa_, *team_, product_, WithRate(group.muon, group, {learning_rate_, range.decays}),
             factor_, MatrixOf(registry_.params()[static_cast<size_t>(range.param)]),
             ArraysOf(storage, range), reinterpret_cast<float*>(scratch_.data()));
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
