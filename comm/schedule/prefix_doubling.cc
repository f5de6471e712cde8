// Prefix doubling: scan and exscan in ceil(log2 N) levels (Hillis and Steele, "Data parallel algorithms", 1986, for the levels; the sums
// are those of the canonical tree).
//
// At level k a participant's block are the 2^k participants that differ from it in the k lowest bits only. It knows the sum of its block,
// and its prefix there: the sum of those in the block up to itself. The blocks of p and of its partner p xor 2^k are neighbours. They
// exchange their sums: the sum of both is the left one plus the right one, and a prefix in the right block is the left block's sum plus
// what it was. A prefix that begins at participant 0 is then B + (B' + ...), where B is the largest block, of the largest power of two,
// that fits: the canonical tree of as many leaves, and the bits of an all_reduce of these participants alone. exscan leaves its own
// contribution out of the prefix, not out of the sums.
//
// A sum is sent only if somebody needs it: to the right always, to the left if the partner will send the sum of both blocks on. A block
// whose sum is sent is whole, whatever N is. So everybody sends at most one vector per level, and nobody more than ceil(log2 N); a
// participant adds at most two vectors per level, and has four of scratch, whatever N is. Vectors are not cut: what crosses between two
// islands is a whole vector of each participant per level.
//
// Ops of a participant, level by level from below: send the own sum; receive the partner's; add the sums; add to the prefix.
#include <bit>
#include <initializer_list>
#include <memory>
#include <vector>

#include "comm/schedule/algorithms.h"

namespace weft {
namespace {

// Scratch: what was received; the sum of the own block; the prefix.
constexpr uint32_t kReceivedElements = kScratchBuffers;
constexpr uint32_t kReceivedAccumulators = kScratchBuffers + 1;
constexpr uint32_t kBlockSum = kScratchBuffers + 2;
constexpr uint32_t kPrefix = kScratchBuffers + 3;

constexpr uint32_t kNoOp = UINT32_MAX;

class PrefixDoublingSchedule;

// Makes the ops of one participant, some for each level.
class PrefixOps final : public OpStream {
 public:
  PrefixOps(const PrefixDoublingSchedule& schedule, int participant);

  bool Next(ScheduleOp* op) override {
    if (next_ == ops_.size()) return false;
    *op = ops_[next_++];
    return true;
  }

 private:
  using Places = std::initializer_list<UnitPlace>;
  using Indexes = std::initializer_list<uint32_t>;

  void AddLevel(int level);
  uint32_t AddMessage(OpAction action, int level, Indexes after);
  uint32_t AddReduction(SumStage stage, Places sources, const UnitPlace& to, Indexes after);
  void AddToPrefix(const UnitPlace& received, uint32_t arrived, bool last);

  const PrefixDoublingSchedule& schedule_;
  const int self_;
  std::vector<ScheduleOp> ops_;
  size_t next_ = 0;
  // The sum of the own block and the prefix there, and which ops made them; kNoOp: they are the input.
  UnitPlace sum_;
  uint32_t summed_ = kNoOp;
  UnitPlace prefix_;
  uint32_t prefixed_ = kNoOp;
  bool has_prefix_;
  // The sends and sums of level 0, which read the input.
  uint32_t input_sent_ = kNoOp;
  uint32_t input_summed_ = kNoOp;
};

class PrefixDoublingSchedule final : public CollectiveSchedule {
 public:
  explicit PrefixDoublingSchedule(const ScheduleGoal& goal)
      : CollectiveSchedule(goal), order_(goal.EffectiveOrder()) {}

  std::string_view algorithm() const override { return "prefix_doubling"; }

  // A level's send and receive.
  uint32_t window() const override { return 2; }

  bool in_place() const override { return HasPlaceInPlace(goal()); }

  std::vector<ScratchBuffer> ScratchOf(int participant) const override {
    bool received[2] = {};
    bool sums = false;
    for (int level = 0; level < Levels(); ++level) {
      if (Receives(participant, level))
        received[static_cast<size_t>(FormAt(PartnerOf(participant, level), level))] = true;
      sums = sums || NeedsSum(participant, level + 1);
    }
    const auto count_if = [&](bool needed) {
      return needed ? goal().count : 0;
    };
    // One that is added to once has its result at once.
    const bool keeps = std::popcount(static_cast<unsigned>(participant)) > 1;
    return {{count_if(received[0]), UnitForm::kElement},
            {count_if(received[1]), UnitForm::kAccumulator},
            {count_if(sums), UnitForm::kAccumulator},
            {count_if(keeps), UnitForm::kAccumulator}};
  }

  std::unique_ptr<OpStream> OpsOf(int participant) const override {
    return std::make_unique<PrefixOps>(*this, participant);
  }

  SentUnits SentBy(int participant) const override {
    SentUnits sent;
    for (int level = 0; level < Levels(); ++level) {
      if (!Sends(participant, level)) continue;
      const bool elements = FormAt(participant, level) == UnitForm::kElement;
      (elements ? sent.elements : sent.accumulators) += goal().count;
    }
    return sent;
  }

  int Levels() const {
    return static_cast<int>(std::bit_width(static_cast<unsigned>(goal().participants - 1)));
  }

  static int PartnerOf(int participant, int level) { return participant ^ 1 << level; }

  static bool IsRight(int participant, int level) { return (participant >> level & 1) != 0; }

  // Whether the participant sends its block's sum to its partner of the level.
  bool Sends(int participant, int level) const {
    const int partner = PartnerOf(participant, level);
    return IsRight(participant, level) ? NeedsSum(partner, level + 1)
                                       : partner < goal().participants;
  }

  bool Receives(int participant, int level) const {
    const int partner = PartnerOf(participant, level);
    return partner < goal().participants && Sends(partner, level);
  }

  // Whether the participant sends the sum of its block of level `level`, or of a larger one. A sum goes to the right at some level, by the
  // way of partners on the left, each of which clears a bit: so it is asked of the one with none of the bits between.
  bool NeedsSum(int participant, int level) const {
    for (int above = level; above < Levels(); ++above) {
      const int between = (1 << above) - (1 << level);
      const int sender = participant & ~between;
      if (!IsRight(participant, above) && sender + (1 << above) < goal().participants) return true;
    }
    return false;
  }

  // Of what the participant sends.
  UnitForm FormAt(int participant, int level) const {
    return level == 0 ? order_.FormOf(participant) : UnitForm::kAccumulator;
  }

  UnitPlace InputOf(int participant) const {
    const bool elements = order_.FormOf(participant) == UnitForm::kElement;
    return {elements ? kInputBuffer : kPartialsBuffer, 0};
  }

 private:
  const ReductionOrder order_;
};

PrefixOps::PrefixOps(const PrefixDoublingSchedule& schedule, int participant)
    : schedule_(schedule),
      self_(participant),
      sum_(schedule.InputOf(participant)),
      prefix_(sum_),
      has_prefix_(schedule.goal().kind == GoalKind::kScan) {
  for (int level = 0; level < schedule.Levels(); ++level)
    AddLevel(level);
  // Nobody is before participant 0: what it has from the beginning is its result.
  if (participant == 0 && has_prefix_)
    AddReduction(SumStage::kFinal, {prefix_}, {kOutputBuffer, 0}, {input_sent_, input_summed_});
}

uint32_t PrefixOps::AddMessage(OpAction action, int level, Indexes after) {
  ScheduleOp& op = ops_.emplace_back();
  op.action = action;
  op.peer = PrefixDoublingSchedule::PartnerOf(self_, level);
  op.tag = static_cast<uint64_t>(level);
  op.units = schedule_.goal().count;
  for (const uint32_t index : after) {
    if (index != kNoOp) op.after.push_back({index, index + 1});
  }
  return static_cast<uint32_t>(ops_.size()) - 1;
}

uint32_t PrefixOps::AddReduction(SumStage stage, Places sources, const UnitPlace& to,
                                 Indexes after) {
  ScheduleOp& op = ops_.emplace_back();
  op.action = OpAction::kReduce;
  op.stage = stage;
  op.units = schedule_.goal().count;
  op.to = to;
  for (const UnitPlace& source : sources)
    op.from.push_back({source});
  for (const uint32_t index : after) {
    if (index != kNoOp) op.after.push_back({index, index + 1});
  }
  return static_cast<uint32_t>(ops_.size()) - 1;
}

void PrefixOps::AddLevel(int level) {
  const int partner = PrefixDoublingSchedule::PartnerOf(self_, level);
  const bool right = PrefixDoublingSchedule::IsRight(self_, level);
  uint32_t sent = kNoOp;
  if (schedule_.Sends(self_, level)) {
    sent = AddMessage(OpAction::kSend, level, {summed_});
    AddSource(&ops_.back(), sum_);
    if (level == 0) input_sent_ = sent;
  }
  if (!schedule_.Receives(self_, level)) return;
  const bool elements = schedule_.FormAt(partner, level) == UnitForm::kElement;
  const UnitPlace received = {elements ? kReceivedElements : kReceivedAccumulators, 0};
  // What lay there has been added: to the sum and the prefix of an earlier level.
  const uint32_t arrived = AddMessage(OpAction::kRecv, level, {summed_, prefixed_});
  ops_.back().to = received;
  if (schedule_.NeedsSum(self_, level + 1)) {
    const UnitPlace left_sum = right ? received : sum_;
    const UnitPlace right_sum = right ? sum_ : received;
    sum_ = {kBlockSum, 0};
    summed_ = AddReduction(SumStage::kPartial, {left_sum, right_sum}, sum_, {sent, arrived});
    if (level == 0) input_summed_ = summed_;
  }
  if (right) AddToPrefix(received, arrived, (self_ >> level) == 1);
}

void PrefixOps::AddToPrefix(const UnitPlace& received, uint32_t arrived, bool last) {
  const UnitPlace to = last ? UnitPlace{kOutputBuffer, 0} : UnitPlace{kPrefix, 0};
  const SumStage stage = last ? SumStage::kFinal : SumStage::kPartial;
  // In place the last one writes over the input.
  const uint32_t sent = last ? input_sent_ : kNoOp;
  const uint32_t summed = last ? input_summed_ : kNoOp;
  prefixed_ = has_prefix_ ? AddReduction(stage, {received, prefix_}, to, {sent, summed, arrived})
                          : AddReduction(stage, {received}, to, {sent, summed, arrived});
  prefix_ = to;
  has_prefix_ = true;
}

// True if every participant holds the piece of its number and the tree is the canonical one, whatever the pieces consist of.
bool IsOfRanks(const ReductionOrder& order) {
  if (order.IsCanonicalOfRanks()) return true;
  if (!order.OnePieceEach()) return false;
  for (int piece = 0; piece < order.pieces(); ++piece) {
    if (order.HolderOf(piece) != piece) return false;
  }
  std::vector<OrderVertex> left = {order.Root()};
  while (!left.empty()) {
    const OrderVertex vertex = left.back();
    left.pop_back();
    if (vertex.count == 1) continue;
    if (order.Left(vertex).count != CanonicalLeft(vertex.count)) return false;
    left.push_back(order.Left(vertex));
    left.push_back(order.Right(vertex));
  }
  return true;
}

}  // namespace

std::unique_ptr<CollectiveSchedule> MakePrefixDoublingSchedule(const ScheduleGoal& goal) {
  if (!goal.IsPrefix() || !IsOfRanks(goal.EffectiveOrder())) return nullptr;
  return std::make_unique<PrefixDoublingSchedule>(goal);
}

}  // namespace weft
