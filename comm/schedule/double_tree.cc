// Double tree: an all_reduce over two binary trees, half of the vector by each, cut into chunks that follow each other. Nearly every
// participant is an inner vertex of one tree and a leaf of the other, so that both directions of every link are busy and the time is that
// of about two vectors, in O(log N) levels (Sanders, Speck and Träff, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan", 2009; the trees are those of NCCL 2.4).
//
// A vertex adds what its children and it have, so the order follows the trees: for goals free of order.
//
// Ops of a participant: for each chunk of a half: of each tree, receive from the children, add, send to the parent; then of each tree,
// receive the result from the parent, send it to the children.
#include <array>
#include <memory>

#include "comm/schedule/algorithms.h"
#include "comm/schedule/slices.h"

namespace weft {
namespace {

// Enough that a chunk goes down while the next ones come up.
constexpr int kDoubleTreeChunks = 4;

struct BinaryPlace {
  int parent = -1;
  std::array<int, 2> children = {-1, -1};
  uint32_t child_count = 0;

  void AddChild(int child) { children[child_count++] = child; }
};

// Inner vertices are those with even numbers; the place of the lowest set bit is the level.
BinaryPlace PlaceInTree(int n, int number) {
  BinaryPlace place;
  int bit = 1;
  while (bit < n && (bit & number) == 0)
    bit <<= 1;
  if (number == 0) {
    if (n > 1) place.AddChild(bit >> 1);
    return place;
  }
  place.parent = (number ^ bit) | (bit << 1);
  if (place.parent >= n) place.parent = number ^ bit;
  int below = bit >> 1;
  if (below == 0) return place;
  place.AddChild(number - below);
  while (below > 0 && number + below >= n)
    below >>= 1;
  if (below > 0) place.AddChild(number + below);
  return place;
}

// The second tree is the first one with its numbers mirrored, or, where mirroring would not exchange leaves and inner vertices, turned by
// one.
BinaryPlace PlaceInDoubleTree(int n, int participant, int tree) {
  if (tree == 0) return PlaceInTree(n, participant);
  const bool mirrored = n % 2 == 0;
  const auto turn = [&](int number) {
    if (number < 0) return number;
    return mirrored ? n - 1 - number : (number + 1) % n;
  };
  BinaryPlace place = PlaceInTree(n, mirrored ? n - 1 - participant : (participant + n - 1) % n);
  place.parent = turn(place.parent);
  for (int& child : place.children)
    child = turn(child);
  return place;
}

// Scratch: what each of the children sent, and the sum; each unit at its place in the vector.
constexpr uint32_t kDoubleTreeSum = kScratchBuffers + 2;

class DoubleTreeSchedule final : public IndexedSchedule {
 public:
  explicit DoubleTreeSchedule(const ScheduleGoal& goal)
      : IndexedSchedule(goal), n_(goal.participants) {}

  std::string_view algorithm() const override { return "double_tree"; }

  uint32_t window() const override { return 2; }

  bool in_place() const override { return true; }

  std::vector<ScratchBuffer> ScratchOf(int) const override {
    const ScratchBuffer vector = {n_ > 1 ? goal().count : 0, UnitForm::kElement};
    return {vector, vector, vector};
  }

  uint32_t OpCount(int participant) const override {
    const Places places = PlacesOf(participant);
    return kDoubleTreeChunks * OpsOfChunk(places);
  }

  void OpAt(int participant, uint32_t index, ScheduleOp* op) const override {
    const Places places = PlacesOf(participant);
    const uint32_t chunk = index / OpsOfChunk(places);
    uint32_t begin = chunk * OpsOfChunk(places);
    for (int tree = 0; tree < 2; begin += UpOps(places[static_cast<size_t>(tree++)])) {
      const BinaryPlace& place = places[static_cast<size_t>(tree)];
      if (index < begin + UpOps(place)) return FillUp(place, tree, chunk, begin, index - begin, op);
    }
    const uint32_t up_ops = UpOps(places[0]) + UpOps(places[1]);
    const uint32_t first = begin - up_ops;
    for (int tree = 0; tree < 2; begin += DownOps(places[static_cast<size_t>(tree++)])) {
      const BinaryPlace& place = places[static_cast<size_t>(tree)];
      if (index >= begin + DownOps(place)) continue;
      // What is sent down has come from above, or was made here, by the last op up.
      const uint32_t up_end = first + UpOps(places[0]) + (tree == 0 ? 0 : UpOps(places[1]));
      return FillDown(place, tree, chunk, place.parent < 0 ? up_end - 1 : begin, index - begin, op);
    }
  }

  SentUnits SentBy(int participant) const override {
    const Places places = PlacesOf(participant);
    SentUnits sent;
    for (int tree = 0; tree < 2; ++tree) {
      const BinaryPlace& place = places[static_cast<size_t>(tree)];
      sent.elements +=
          SliceOf(goal().count, 2, tree).units * (place.child_count + (place.parent < 0 ? 0 : 1));
    }
    return sent;
  }

 private:
  using Places = std::array<BinaryPlace, 2>;

  Places PlacesOf(int participant) const {
    return {PlaceInDoubleTree(n_, participant, 0), PlaceInDoubleTree(n_, participant, 1)};
  }

  static bool Adds(const BinaryPlace& place) { return place.child_count > 0 || place.parent < 0; }

  static uint32_t UpOps(const BinaryPlace& place) {
    return place.child_count + (Adds(place) ? 1 : 0) + (place.parent < 0 ? 0 : 1);
  }

  static uint32_t DownOps(const BinaryPlace& place) {
    return place.child_count + (place.parent < 0 ? 0 : 1);
  }

  static uint32_t OpsOfChunk(const Places& places) {
    return UpOps(places[0]) + UpOps(places[1]) + DownOps(places[0]) + DownOps(places[1]);
  }

  UnitSlice PartOfTree(int tree, uint32_t chunk) const {
    const UnitSlice half = SliceOf(goal().count, 2, tree);
    const UnitSlice part = SliceOf(half.units, kDoubleTreeChunks, static_cast<int>(chunk));
    return {half.begin + part.begin, part.units};
  }

  static uint64_t TagOf(int tree, uint32_t chunk, bool down) {
    return (uint64_t{chunk} * 2 + static_cast<uint64_t>(tree)) * 2 + (down ? 1 : 0);
  }

  void FillUp(const BinaryPlace& place, int tree, uint32_t chunk, uint32_t begin, uint32_t index,
              ScheduleOp* op) const {
    const UnitSlice part = PartOfTree(tree, chunk);
    op->units = part.units;
    op->tag = TagOf(tree, chunk, /*down=*/false);
    if (index < place.child_count) {
      op->action = OpAction::kRecv;
      op->peer = place.children[index];
      op->to = {kScratchBuffers + index, part.begin};
    } else if (Adds(place) && index == place.child_count) {
      op->action = OpAction::kReduce;
      op->tag = 0;
      op->stage = place.parent < 0 ? SumStage::kFinal : SumStage::kPartial;
      op->to = {place.parent < 0 ? kOutputBuffer : kDoubleTreeSum, part.begin};
      AddSource(op, {kInputBuffer, part.begin});
      for (uint32_t child = 0; child < place.child_count; ++child)
        AddSource(op, {kScratchBuffers + child, part.begin});
      if (index > 0) op->after.push_back({begin, begin + index});
    } else {
      op->action = OpAction::kSend;
      op->peer = place.parent;
      AddSource(op, {Adds(place) ? kDoubleTreeSum : kInputBuffer, part.begin});
      if (Adds(place)) AddAfter(op, begin + index - 1);
    }
  }

  void FillDown(const BinaryPlace& place, int tree, uint32_t chunk, uint32_t made_by,
                uint32_t index, ScheduleOp* op) const {
    const UnitSlice part = PartOfTree(tree, chunk);
    op->units = part.units;
    op->tag = TagOf(tree, chunk, /*down=*/true);
    if (place.parent >= 0 && index == 0) {
      op->action = OpAction::kRecv;
      op->peer = place.parent;
      op->to = {kOutputBuffer, part.begin};
      return;
    }
    op->action = OpAction::kSend;
    op->peer = place.children[index - (place.parent >= 0 ? 1 : 0)];
    AddSource(op, {kOutputBuffer, part.begin});
    AddAfter(op, made_by);
  }

  const int n_;
};

}  // namespace

std::unique_ptr<CollectiveSchedule> MakeDoubleTreeSchedule(const ScheduleGoal& goal) {
  if (goal.kind != GoalKind::kAllReduce || !goal.order_free ||
      !goal.EffectiveOrder().IsCanonicalOfRanks())
    return nullptr;
  return std::make_unique<DoubleTreeSchedule>(goal);
}

}  // namespace weft
