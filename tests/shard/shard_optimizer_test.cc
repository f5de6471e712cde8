// The optimizer of a rank, without peers: any number of threads gives the bits of one.
#include "shard/optimizer/shard_optimizer.h"

#include <cmath>
#include <cstring>
#include <string>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "gtest/gtest.h"
#include "shard/offload/offloaded_state.h"
#include "shard/optimizer/resident_state.h"
#include "tests/shard/offload/memory_store.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::shard_optimizer_test {
namespace {

constexpr weft_optimizer_kind_t kKinds[] = {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD,
                                            WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
                                            WEFT_OPTIMIZER_LARS};

// Sizes that are odd, empty, less than a piece, and several pieces; frozen ones between.
std::vector<ModelParam> Model() {
  const auto long_side = static_cast<int64_t>(kPieceElements) + 77;
  return {
      {"a", "a.large", {3, long_side}, WEFT_FLOAT32},
      {"a", "a.scale", {}, WEFT_FLOAT32, false, false},
      {"a", "a.empty", {0, 4}, WEFT_FLOAT32},
      {"a", "a.frozen", {501}, WEFT_FLOAT32, true},
      {"a", "a.bias", {1009}, WEFT_FLOAT32, false, false},
      {"b", "b.large", {2, long_side}, WEFT_BFLOAT16},
      {"b", "b.half", {long_side}, WEFT_FLOAT16},
      {"b", "b.small", {127}, WEFT_FLOAT16, false, false},
      {"c", "c.one", {1}, WEFT_BFLOAT16},
  };
}

constexpr int kSteps = 4;  // in the third of which gradients that this rank owns are infinite

OptimizerConfig ConfigOf(weft_optimizer_kind_t kind, int threads) {
  OptimizerConfig config{.kind = kind, .threads = threads};
  config.sgd = {.momentum = 0.9, .weight_decay = 0.01, .nesterov = true};
  config.lion.weight_decay = 0.1;
  return config;
}

// What a rank's storage held after some updates, and what the ranks would have added up on the way.
struct Outcome {
  std::vector<int64_t> words;
  std::vector<std::vector<char>> params;  // by extent
  bool operator==(const Outcome&) const = default;
};

class Rank {
 public:
  Rank(const Member& member, const Placement& placement) {
    int unit = -1;
    for (const ModelParam& param : Model()) {
      if (registry_.units().empty() || registry_.units().back().name != param.unit) {
        if (unit >= 0) {
          EXPECT_TRUE(registry_.SealUnit(unit).ok());
        }
        unit = *registry_.BeginUnit(param.unit, placement);
      }
      EXPECT_TRUE(registry_
                      .AddParam(unit, param.name, param.shape.data(),
                                static_cast<int>(param.shape.size()), param.dtype, param.flags())
                      .ok());
    }
    EXPECT_TRUE(registry_.SealUnit(unit).ok());
    layout_ = MakeLayout(registry_, {.bucket_bytes = 1 << 19, .first_bucket_bytes = 4096}, member,
                         member);
    storage_ = *Storage::Allocate(layout_, Accumulate::kNothing);
  }

  // With its state in memory, or in a block store of which so many bytes are in memory.
  Outcome Train(const OptimizerConfig& config, size_t buffer_bytes = 0) {
    const std::vector<OptimizerGroup> groups = {GroupOf(config)};
    if (buffer_bytes == 0) {
      return TrainWith(*ShardOptimizer::Make(config, groups, registry_, layout_, BestIsa(),
                                             *ResidentState::Allocate(groups, registry_, layout_)));
    }
    const OffloadPlan plan = PlanOffload(groups, registry_, layout_, buffer_bytes);
    test::MemoryStore* disk = nullptr;
    auto store = *OffloadState(
        plan, {}, [&](std::span<std::byte>) -> absl::StatusOr<std::unique_ptr<BlockStore>> {
          auto made = std::make_unique<test::MemoryStore>(plan.windows.file_bytes, 1);
          disk = made.get();
          return made;
        });
    EXPECT_LE(store->bytes(), plan.memory_bytes());
    auto optimizer =
        *ShardOptimizer::Make(config, groups, registry_, layout_, BestIsa(), std::move(store));
    Outcome outcome = TrainWith(optimizer);
    EXPECT_EQ(disk->complaints(), "");
    // Nothing is read in vain, but for what the next update would have begun with.
    const uint64_t updates = PoisonCount() == 0 ? kSteps : kSteps - 1;
    EXPECT_LE(disk->read_bytes(), updates * plan.windows.read_bytes + plan.slots.bytes());
    // The first update makes main copies; where norms are asked for, before these.
    EXPECT_LE(disk->written_bytes(),
              updates * plan.windows.written_bytes + plan.windows.file_bytes);
    return outcome;
  }

  Outcome TrainWith(const std::unique_ptr<ShardOptimizer>& optimizer) {
    Outcome outcome;
    FillParams();
    for (int step = 0; step < kSteps; ++step) {
      FillGradients(step);
      const GradientSums sums = optimizer->SumGradients(storage_);
      EXPECT_EQ(sums.nonfinite, step == 2 ? PoisonCount() : 0);
      Add(sums.squares.words(), outcome);
      outcome.words.push_back(sums.nonfinite);
      if (sums.nonfinite != 0) continue;
      // As if the other ranks had nothing, so that a rank without a part goes on too.
      optimizer->Begin(0.01, GradientFactor(1, std::sqrt(sums.squares.Value()), /*norm_max=*/0.5));
      const std::vector<int64_t> norms = *optimizer->StartNorms(storage_);
      outcome.words.insert(outcome.words.end(), norms.begin(), norms.end());
      optimizer->TakeNorms(norms);
      for (const int extent : UpdateOrder(layout_))
        EXPECT_TRUE(optimizer->Update(storage_, extent).ok());
      EXPECT_TRUE(optimizer->End().ok());
    }
    for (size_t i = 0; i < layout_.extents.size(); ++i) {
      const Part part = PartOf(i);
      const size_t bytes = part.count * DtypeSize(layout_.SpaceOf(layout_.extents[i]).dtype);
      outcome.params.emplace_back(bytes);
      if (bytes != 0) std::memcpy(outcome.params.back().data(), part.data, bytes);
    }
    return outcome;
  }

 private:
  static void Add(const ExactSum::Words& words, Outcome& outcome) {
    outcome.words.insert(outcome.words.end(), words.begin(), words.end());
  }

  // Params of an extent as this rank has them.
  Part PartOf(size_t index) const {
    const Extent& extent = layout_.extents[index];
    if (layout_.SpaceOf(extent).placement.optimizer_sharded)
      return storage_.OwnParams(layout_, extent);
    return {storage_.Data(extent.range.space, extent.range.begin), extent.range.count};
  }

  static void Fill(weft_dtype_t dtype, size_t count, uint64_t seed, std::byte* to) {
    Elements elements(count);
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<float>(static_cast<int64_t>(Mix(seed + i))) * 0x1p-63f;
      elements[i] = Bits(dtype, value);
    }
    WriteElements(dtype, elements, to);
  }

  // Cut off rather than rounded: EncodeFloat is slow, and any number will do.
  static uint64_t Bits(weft_dtype_t dtype, float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    if (dtype == WEFT_FLOAT32) return bits;
    if (dtype == WEFT_BFLOAT16) return bits >> 16;
    // float16 of the same sign and mantissa, between 2^-8 and 1.
    return (bits >> 16 & 0x8000) | (7 + (bits >> 23) % 8) << 10 | (bits >> 13 & 0x3ff);
  }

  void FillParams() const {
    for (size_t i = 0; i < layout_.extents.size(); ++i) {
      const Part part = PartOf(i);
      Fill(layout_.SpaceOf(layout_.extents[i]).dtype, part.count, 1000 * i, part.data);
    }
  }

  void FillGradients(int step) const {
    for (size_t i = 0; i < layout_.extents.size(); ++i) {
      const Space& space = layout_.SpaceOf(layout_.extents[i]);
      if (space.frozen) continue;
      const Part part = storage_.Reduced(layout_, layout_.extents[i]);
      Fill(space.grad_dtype, part.count, 1 + 77777 * i + 999983 * static_cast<uint64_t>(step),
           part.data);
      // Whatever of the extent counts for this rank's norm.
      if (step == 2 && layout_.OwnCount(layout_.extents[i]) != 0) {
        const size_t at = space.placement.optimizer_sharded ? 0
                                                            : layout_.OwnFirst(layout_.extents[i]) -
                                                                  layout_.extents[i].range.begin;
        const Elements infinity = {EncodeFloat(space.grad_dtype, INFINITY)};
        WriteElements(space.grad_dtype, infinity, part.data + at * DtypeSize(space.grad_dtype));
      }
    }
  }

  int64_t PoisonCount() const {
    int64_t count = 0;
    for (const Extent& extent : layout_.extents)
      count += !layout_.SpaceOf(extent).frozen && layout_.OwnCount(extent) != 0 ? 1 : 0;
    return count;
  }

  Registry registry_;
  Layout layout_;
  Storage storage_;
};

TEST(ShardOptimizer, GivesTheSameBitsForAnyNumberOfThreads) {
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_FULL_SHARD}) {
    for (const Member& member : {Member{0, 1}, Member{1, 3}, Member{7, 8}}) {
      for (const bool float32_gradients : {false, true}) {
        Placement placement = PlacementOf(preset);
        placement.float32_gradients = float32_gradients;
        if (member.size == 8) placement.cut = CutRule::kParams;  // the last ranks have nothing
        Rank rank(member, placement);
        for (const weft_optimizer_kind_t kind : kKinds) {
          const Outcome alone = rank.Train(ConfigOf(kind, 1));
          for (const int threads : {2, 3, 7}) {
            if (kSampled && threads != 3) continue;
            EXPECT_TRUE(rank.Train(ConfigOf(kind, threads)) == alone)
                << PresetName(preset) << ", kind " << kind << ", rank " << member.rank << " of "
                << member.size << ", " << threads << " threads";
          }
        }
      }
    }
  }
}

TEST(ShardOptimizer, GivesTheSameBitsWithItsStateElsewhere) {
  size_t number = 0;
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1, WEFT_SHARD_FULL_SHARD}) {
    for (const Member& member : {Member{0, 1}, Member{1, 3}, Member{7, 8}}) {
      Placement placement = PlacementOf(preset);
      if (member.size == 8) placement.cut = CutRule::kParams;  // the last ranks have nothing
      Rank rank(member, placement);
      for (const weft_optimizer_kind_t kind : kKinds) {
        if (kSampled && number++ % 4 != 0) continue;
        OptimizerConfig config = ConfigOf(kind, 2);
        if (member.size == 3) config.sgd.momentum = 0;  // nothing is kept but main copies
        const Outcome resident = rank.Train(config);
        // A window has a few rows, a piece or so, or all there is.
        for (const size_t buffer_bytes :
             {size_t{1}, size_t{1} << 17, size_t{3} << 19, size_t{1} << 26}) {
          EXPECT_TRUE(rank.Train(config, buffer_bytes) == resident)
              << PresetName(preset) << ", kind " << kind << ", rank " << member.rank << " of "
              << member.size << ", " << buffer_bytes << " bytes of memory";
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft::shard_optimizer_test
