// Every element that is updated lies in one window, where its place is its own.
#include "shard/offload/state_windows.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "shard/offload/block_store.h"
#include "tests/comm/kernels/reference.h"

namespace weft::state_windows_test {
namespace {

struct Model {
  Registry registry;
  std::vector<OptimizerGroup> groups;
};

OptimizerGroup Group(weft_optimizer_kind_t kind) {
  OptimizerConfig config{.kind = kind};
  config.sgd.momentum = 0;
  return GroupOf(config);
}

// Params of all kinds and sizes by chance, in groups that keep nothing to three float32.
Model RandomModel(std::mt19937_64& random, CutRule* cut) {
  Model model;
  for (const weft_optimizer_kind_t kind :
       {WEFT_OPTIMIZER_ADAMW, WEFT_OPTIMIZER_SGD, WEFT_OPTIMIZER_LION, WEFT_OPTIMIZER_LAMB,
        WEFT_OPTIMIZER_OWN, WEFT_OPTIMIZER_MUON})
    model.groups.push_back(Group(kind));
  const weft_shard_preset_t presets[] = {WEFT_SHARD_NO_SHARD, WEFT_SHARD_ZERO1,
                                         WEFT_SHARD_FULL_SHARD};
  Placement placement = PlacementOf(presets[random() % 3]);
  // MUON's matrices are whole.
  placement.cut = *cut = CutRule::kParams;
  const auto units = static_cast<int>(1 + random() % 4);
  for (int u = 0; u < units; ++u) {
    const int unit = *model.registry.BeginUnit(StrCat("unit", u), placement);
    const auto params = static_cast<int>(1 + random() % 6);
    for (int p = 0; p < params; ++p) {
      const auto group = static_cast<int>(random() % model.groups.size());
      const bool matrix = model.groups[static_cast<size_t>(group)].kind == WEFT_OPTIMIZER_MUON;
      const int64_t shape[] = {static_cast<int64_t>(random() % 300),
                               static_cast<int64_t>(1 + random() % 200)};
      const weft_dtype_t dtype = random() % 2 == 0 ? WEFT_FLOAT32 : WEFT_BFLOAT16;
      const int param = *model.registry.AddParam(
          unit, StrCat("p", u, ".", p), shape, matrix ? 2 : 1 + static_cast<int>(random() % 2),
          dtype, random() % 8 == 0 ? WEFT_SHARD_PARAM_FROZEN : 0);
      model.registry.SetGroup(param, group);
    }
    EXPECT_TRUE(model.registry.SealUnit(unit).ok());
  }
  return model;
}

constexpr weft_shard_state_kind_t kKinds[] = {WEFT_SHARD_STATE_VALUE, WEFT_SHARD_STATE_MAIN,
                                              WEFT_SHARD_STATE_MOMENT1, WEFT_SHARD_STATE_MOMENT2};

// Bytes [begin, end) of a window.
struct Taken {
  int window;
  size_t begin;
  size_t end;
};

TEST(StateWindows, GiveEachElementAPlaceOfItsOwn) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    CutRule cut{};
    const Model model = RandomModel(random, &cut);
    const Member member{.rank = static_cast<int>(random() % 3), .size = 3};
    const Layout layout = MakeLayout(
        model.registry, {.bucket_bytes = 1 << 16, .first_bucket_bytes = 4096}, member, member,
        /*offloads_params=*/round % 2 == 1);
    const size_t window_bytes = size_t{1} << (random() % 22);
    const StateWindows windows = CutIntoWindows(model.groups, model.registry, layout, window_bytes);

    uint64_t file_bytes = 0;
    for (const WindowPlace& place : windows.places) {
      EXPECT_EQ(place.offset, file_bytes);
      EXPECT_EQ(place.bytes % BlockStore::kAlignment, 0u);
      file_bytes += place.bytes;
    }
    EXPECT_EQ(windows.file_bytes, file_bytes);
    std::vector<Taken> taken;
    std::set<int> muon;  // windows with matrices, which may be larger
    size_t bytes = 0;
    for (size_t param = 0; param < model.registry.params().size(); ++param) {
      const ParamSpec& spec = model.registry.params()[param];
      const OptimizerGroup& group = model.groups[static_cast<size_t>(spec.group)];
      const UpdatedElements kept = StateOfParam(model.registry, layout, static_cast<int>(param));
      if (kept.count == 0) continue;
      const auto extent = static_cast<size_t>(layout.places[param].extent);
      const StateNeeds needs =
          NeedsOfParam(model.groups, model.registry, layout, static_cast<int>(param));
      const Placement& placement =
          layout.spaces[static_cast<size_t>(layout.places[param].space)].placement;
      EXPECT_EQ(needs.value_bytes > 0, round % 2 == 1 && placement.params_sharded);
      EXPECT_TRUE(!spec.frozen || needs.floats() == 0);
      bytes += needs.bytes() * kept.count;
      // Each window of the extent, in order, and all of the param.
      size_t next = kept.first;
      for (const StateWindow& window : windows.of_extent[extent]) {
        const size_t from = std::max(next, window.begin);
        const size_t to = std::min(kept.first + kept.count, window.begin + window.count);
        if (from >= to) continue;
        EXPECT_EQ(from, next);
        next = to;
        if (group.kind == WEFT_OPTIMIZER_MUON && !spec.frozen) {
          muon.insert(window.number);
          EXPECT_EQ(to - from, kept.count) << "a matrix lies in one window";
        }
        EXPECT_TRUE(to == kept.first + kept.count || to % kCutElements == 0)
            << "rows are not parted";
        for (const WindowedStretch& stretch : windows.stretches[extent]) {
          if (stretch.window != window.number || from < stretch.elements.first ||
              from >= stretch.elements.first + stretch.elements.count)
            continue;
          EXPECT_EQ(stretch.elements.needs, needs);
          EXPECT_LE(to, stretch.elements.first + stretch.elements.count);
          const size_t at = from - stretch.elements.first;
          for (const weft_shard_state_kind_t kind : kKinds) {
            const size_t size = StateBytesOf(needs, kind);
            const size_t begin = stretch.At(kind) + at * size;
            if (size > 0) taken.push_back({window.number, begin, begin + (to - from) * size});
          }
        }
      }
      EXPECT_EQ(next, kept.first + kept.count) << spec.name;
    }
    std::sort(taken.begin(), taken.end(), [](const Taken& a, const Taken& b) {
      return std::pair(a.window, a.begin) < std::pair(b.window, b.begin);
    });
    size_t placed = 0;
    for (size_t i = 0; i < taken.size(); ++i) {
      placed += taken[i].end - taken[i].begin;
      EXPECT_LE(taken[i].end, windows.places[static_cast<size_t>(taken[i].window)].bytes);
      if (i > 0 && taken[i - 1].window == taken[i].window) {
        EXPECT_LE(taken[i - 1].end, taken[i].begin);
      }
    }
    EXPECT_EQ(placed, bytes);
    // But for a row and for what is rounded up.
    const size_t least = 4 * (BlockStore::kAlignment + kCutElements * sizeof(float));
    for (size_t i = 0; i < windows.places.size(); ++i) {
      if (muon.count(static_cast<int>(i)) == 0) {
        EXPECT_LE(windows.places[i].bytes, std::max(window_bytes, least)) << window_bytes;
      }
    }
    ASSERT_FALSE(HasFailure()) << "round " << round;
  }
}

}  // namespace
}  // namespace weft::state_windows_test
