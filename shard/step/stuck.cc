#include "shard/step/stuck.h"

#include <algorithm>

namespace weft {
namespace {

bool UnderWay(const OpCounts& progress) {
  return progress.ended < progress.started;
}

// The first rank of `among` that has not started operation `number` of a channel, in which `rank` waits for it; -1 if there
// is none.
int Lacking(const std::vector<RankWait>& waits, const MeshShape& shape,
            const std::vector<bool>& among, int rank, ContextGroup channel, uint64_t number) {
  for (int peer = 0; peer < shape.size; ++peer) {
    const auto p = static_cast<size_t>(peer);
    if (peer == rank || !among[p] || !Meet(channel, shape, rank, peer)) continue;
    if (waits[p].channels[static_cast<size_t>(channel)].started < number) return peer;
  }
  return -1;
}

// Nothing of the rank's can end before a rank of `among` starts something.
bool Held(const std::vector<RankWait>& waits, const MeshShape& shape,
          const std::vector<bool>& among, int rank) {
  const RankWait& wait = waits[static_cast<size_t>(rank)];
  for (size_t c = 0; c < kContextGroupCount; ++c) {
    const OpCounts& progress = wait.channels[c];
    if (!UnderWay(progress)) continue;
    if (Lacking(waits, shape, among, rank, static_cast<ContextGroup>(c), progress.ended + 1) < 0)
      return false;
  }
  return true;
}

}  // namespace

bool Meet(ContextGroup channel, const MeshShape& shape, int a, int b) {
  switch (channel) {
    case ContextGroup::kMesh:
    case ContextGroup::kGather:
      return true;
    case ContextGroup::kInnerGather:
    case ContextGroup::kInnerScatter:
    case ContextGroup::kMeshInner:
      return a / shape.inner_size == b / shape.inner_size;
    case ContextGroup::kOuterReduce:
    case ContextGroup::kMeshOuter:
      break;
  }
  return a % shape.inner_size == b % shape.inner_size;
}

std::vector<bool> FindStuck(const std::vector<RankWait>& waits, const MeshShape& shape) {
  std::vector<bool> stuck;
  for (const RankWait& wait : waits) {
    const OpCounts& awaited = wait.channels[static_cast<size_t>(wait.channel)];
    stuck.push_back(wait.waits && wait.number > awaited.ended && wait.number <= awaited.started);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int rank = 0; rank < shape.size; ++rank) {
      const auto r = static_cast<size_t>(rank);
      if (!stuck[r] || Held(waits, shape, stuck, rank)) continue;
      stuck[r] = false;
      changed = true;
    }
  }
  return stuck;
}

std::vector<int> FindCycle(const std::vector<RankWait>& waits, const MeshShape& shape,
                           const std::vector<bool>& stuck) {
  const auto first = std::find(stuck.begin(), stuck.end(), true);
  std::vector<int> path;
  int rank = first == stuck.end() ? -1 : static_cast<int>(first - stuck.begin());
  while (rank >= 0 && std::find(path.begin(), path.end(), rank) == path.end()) {
    path.push_back(rank);
    // Whoever lacks the oldest operation of the channel lacks the awaited one.
    const RankWait& wait = waits[static_cast<size_t>(rank)];
    const uint64_t oldest = wait.channels[static_cast<size_t>(wait.channel)].ended + 1;
    rank = Lacking(waits, shape, stuck, rank, wait.channel, oldest);
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), rank));
  std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
  return path;
}

int FindOutlier(const std::vector<RankWait>& waits) {
  const auto same = [](const RankWait& a, const RankWait& b) {
    return a.waits && b.waits && a.channel == b.channel && a.number == b.number;
  };
  int outlier = -1;
  size_t most = 0;
  for (size_t rank = 0; rank < waits.size(); ++rank) {
    const auto like =
        static_cast<size_t>(std::count_if(waits.begin(), waits.end(), [&](const RankWait& other) {
          return same(waits[rank], other);
        }));
    most = std::max(most, like);
    if (like == 1) outlier = outlier == -1 ? static_cast<int>(rank) : -2;
  }
  return outlier >= 0 && most + 1 == waits.size() && most > 1 ? outlier : -1;
}

}  // namespace weft
