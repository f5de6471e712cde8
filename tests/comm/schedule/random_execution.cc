#include "tests/comm/schedule/random_execution.h"

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"

namespace weft::test {
namespace {

constexpr double kNothingThere = std::numeric_limits<double>::quiet_NaN();

// What an op does next.
enum class Stage : uint8_t { kWaits, kStarted, kHasRead, kWrites, kDone };

struct RunningOp {
  ScheduleOp op;
  int participant = 0;
  uint32_t index = 0;
  Stage stage = Stage::kWaits;
  std::vector<double> value;   // read and not yet written
  RunningOp* other = nullptr;  // half of the message
};

class ChanceMachine {
 public:
  ChanceMachine(const CollectiveSchedule& schedule, const ChanceOptions& options)
      : schedule_(schedule),
        goal_(schedule.goal()),
        order_(goal_.EffectiveOrder()),
        options_(options),
        random_(options.seed) {
    const int n = goal_.participants;
    for (int p = 0; p < n; ++p) {
      std::vector<RunningOp>& ops = ops_.emplace_back();
      for (ScheduleOp& op : ListOps(schedule, p))
        ops.push_back(
            {.op = std::move(op), .participant = p, .index = static_cast<uint32_t>(ops.size())});
      std::vector<std::vector<double>>& buffers = memory_.emplace_back();
      for (const uint32_t buffer : {kInputBuffer, kOutputBuffer, kPartialsBuffer})
        buffers.emplace_back(BufferUnits(goal_, p, buffer), kNothingThere);
      elements_.push_back({true, true, false});
      for (const ScratchBuffer& scratch : schedule.ScratchOf(p)) {
        buffers.emplace_back(scratch.units, kNothingThere);
        elements_.back().push_back(scratch.form == UnitForm::kElement);
      }
    }
    arrived_.assign(static_cast<size_t>(n), goal_.kind != GoalKind::kBarrier);
    JoinMessages();
    FillInputs();
  }

  std::string Run() {
    uint64_t left = 0;
    for (const std::vector<RunningOp>& ops : ops_)
      left += ops.size();
    std::vector<RunningOp*> able;
    while (left > 0 || !AllArrived()) {
      able.clear();
      for (std::vector<RunningOp>& ops : ops_)
        CollectAble(ops, &able);
      const bool someone_arrives = !AllArrived() && (able.empty() || random_() % 4 == 0);
      if (someone_arrives) {
        arrived_[static_cast<size_t>(random_() % arrived_.size())] = true;
        continue;
      }
      if (able.empty()) return "nothing goes on";
      RunningOp& op = *able[static_cast<size_t>(random_() % able.size())];
      Advance(&op);
      if (op.stage != Stage::kDone) continue;
      --left;
      if (!AllArrived() && IsDone(op.participant))
        return StrCat("participant ", op.participant, " leaves the barrier too early");
    }
    return CheckOutputs();
  }

 private:
  static bool IsMessage(const RunningOp& op) {
    return op.op.action == OpAction::kSend || op.op.action == OpAction::kRecv;
  }

  bool IsSent(const RunningOp& op) const {
    return IsMessage(op) && (op.op.units > 0 || goal_.kind == GoalKind::kBarrier);
  }

  bool AllArrived() const {
    for (const bool one : arrived_) {
      if (!one) return false;
    }
    return true;
  }

  bool IsDone(int participant) const {
    for (const RunningOp& op : ops_[static_cast<size_t>(participant)]) {
      if (op.stage != Stage::kDone) return false;
    }
    return true;
  }

  void JoinMessages() {
    std::map<std::tuple<int, int, uint64_t>, RunningOp*> sends;
    for (std::vector<RunningOp>& ops : ops_) {
      for (RunningOp& op : ops) {
        if (op.op.action == OpAction::kSend) sends[{op.participant, op.op.peer, op.op.tag}] = &op;
      }
    }
    for (std::vector<RunningOp>& ops : ops_) {
      for (RunningOp& op : ops) {
        if (op.op.action != OpAction::kRecv) continue;
        op.other = sends.at({op.op.peer, op.participant, op.op.tag});
        op.other->other = &op;
      }
    }
  }

  void CollectAble(std::vector<RunningOp>& ops, std::vector<RunningOp*>* able) {
    uint64_t first = UINT64_MAX;
    for (RunningOp& op : ops) {
      if (op.stage == Stage::kDone) continue;
      first = std::min<uint64_t>(first, op.index);
      if (options_.window_only && op.index >= first + schedule_.window()) return;
      if (IsAble(ops, op)) able->push_back(&op);
    }
  }

  bool IsAble(const std::vector<RunningOp>& ops, const RunningOp& op) const {
    switch (op.stage) {
      case Stage::kWaits:
        if (!arrived_[static_cast<size_t>(op.participant)]) return false;
        for (const OpRange& range : op.op.after) {
          for (uint64_t i = range.begin; i < range.end; i += range.step) {
            if (ops[i].stage != Stage::kDone) return false;
          }
        }
        return true;
      case Stage::kStarted:
        // A receive goes on when its send has started.
        return op.op.action != OpAction::kRecv || !IsSent(op) || op.other->stage != Stage::kWaits;
      case Stage::kHasRead:
        if (op.op.action == OpAction::kSend)
          return !options_.rendezvous || op.other->stage != Stage::kWaits;
        return op.op.action != OpAction::kRecv || op.other->stage >= Stage::kHasRead;
      case Stage::kWrites:
        return true;
      case Stage::kDone:
        return false;
    }
    return false;
  }

  // The memory at a place, with input and output in one buffer if they are in place.
  double& At(int participant, const UnitPlace& place, uint64_t unit) {
    uint32_t buffer = place.buffer;
    uint64_t offset = place.offset + unit;
    const bool has_both =
        goal_.kind == GoalKind::kExscan
            ? participant != 0
            : !goal_.HasRoot() || participant == goal_.root || goal_.kind == GoalKind::kBroadcast;
    if (options_.in_place && buffer <= kOutputBuffer && has_both) {
      const uint64_t own_block = goal_.BlockBegin(participant);
      const bool out_blocks = goal_.kind == GoalKind::kAllGather || goal_.kind == GoalKind::kGather;
      const bool in_blocks =
          goal_.kind == GoalKind::kReduceScatter || goal_.kind == GoalKind::kScatter;
      if ((out_blocks && buffer == kInputBuffer) || (in_blocks && buffer == kOutputBuffer))
        offset += own_block;
      buffer = in_blocks ? kInputBuffer : kOutputBuffer;
    }
    return memory_[static_cast<size_t>(participant)][buffer][offset];
  }

  double Rounded(double value) const {
    return goal_.order_free ? value : static_cast<double>(static_cast<float>(value));
  }

  void Advance(RunningOp* op) {
    const ScheduleOp& what = op->op;
    if (what.units == 0 && !IsSent(*op)) {
      op->stage = Stage::kDone;
      return;
    }
    switch (op->stage) {
      case Stage::kWaits:
        op->stage = Stage::kStarted;
        return;
      case Stage::kStarted:
        if (what.action != OpAction::kRecv) Read(op);
        if (what.action != OpAction::kSend) Write(*op, {});
        op->stage = Stage::kHasRead;
        return;
      case Stage::kHasRead:
        if (what.action == OpAction::kRecv) op->value = op->other->value;
        op->stage = what.action == OpAction::kSend ? Stage::kDone : Stage::kWrites;
        return;
      default:
        Write(*op, op->value);
        op->stage = Stage::kDone;
        return;
    }
  }

  // Adds sources left to right as `merges` says.
  static double Add(const std::vector<double>& values, std::span<const uint8_t> merges) {
    if (merges.empty()) return AddCanonically(values, 0, values.size());
    std::vector<double> stack;
    for (size_t i = 0; i < values.size(); ++i) {
      stack.push_back(values[i]);
      for (int k = 0; k < merges[i]; ++k) {
        const double right = stack.back();
        stack.pop_back();
        stack.back() += right;
      }
    }
    return stack.front();
  }

  static double AddCanonically(const std::vector<double>& values, size_t begin, size_t end) {
    if (end - begin == 1) return values[begin];
    size_t left = 1;
    while (2 * left < end - begin)
      left *= 2;
    return AddCanonically(values, begin, begin + left) + AddCanonically(values, begin + left, end);
  }

  void Read(RunningOp* op) {
    const ScheduleOp& what = op->op;
    for (uint64_t unit = 0; unit < what.units; ++unit) {
      std::vector<double> values;
      for (const SourceRun& run : what.from) {
        for (uint32_t i = 0; i < run.count; ++i)
          values.push_back(
              At(op->participant, {run.place.buffer, run.place.offset + i * run.stride}, unit));
      }
      const double value = what.action == OpAction::kReduce ? Add(values, what.merges) : values[0];
      const bool rounds = what.action == OpAction::kReduce &&
                          elements_[static_cast<size_t>(op->participant)][what.to.buffer];
      op->value.push_back(rounds ? Rounded(value) : value);
    }
  }

  // Without a value: what is under way.
  void Write(const RunningOp& op, const std::vector<double>& value) {
    const ScheduleOp& what = op.op;
    if (what.action == OpAction::kCopy && what.units > 0 &&
        &At(op.participant, what.to, 0) == &At(op.participant, what.from[0].place, 0))
      return;
    for (uint64_t unit = 0; unit < what.units; ++unit)
      At(op.participant, what.to, unit) = value.empty() ? kNothingThere : value[unit];
  }

  // The contribution of a participant, or a piece, at a unit.
  double Contribution(int leaf, uint64_t unit, UnitForm form) const {
    std::mt19937_64 random(options_.seed * 1000003 + static_cast<uint64_t>(leaf) * 7919 + unit);
    random.discard(3);
    if (goal_.order_free) return static_cast<double>(random() % 1000000);
    const double value =
        std::ldexp(static_cast<double>(random() % 2000001) - 1e6, static_cast<int>(random() % 12));
    return form == UnitForm::kElement ? static_cast<double>(static_cast<float>(value * 1.1))
                                      : value * 1.1;
  }

  void FillInputs() {
    for (int p = 0; p < goal_.participants; ++p) {
      if (!goal_.Reduces()) {
        for (uint64_t unit = 0; unit < BufferUnits(goal_, p, kInputBuffer); ++unit)
          At(p, {kInputBuffer, 0}, unit) = Contribution(p, unit, UnitForm::kElement);
        continue;
      }
      uint64_t next[2] = {};
      for (int piece = 0; piece < order_.pieces(); ++piece) {
        if (order_.HolderOf(piece) != p) continue;
        const UnitForm form = order_.FormOf(piece);
        uint64_t& at = next[static_cast<size_t>(form)];
        for (uint64_t unit = 0; unit < goal_.VectorUnits(); ++unit)
          At(p, {form == UnitForm::kElement ? kInputBuffer : kPartialsBuffer, at++}, 0) =
              Contribution(piece, unit, form);
      }
    }
  }

  double Sum(uint64_t unit) const {
    return Rounded(Add(Contributions(order_.pieces(), unit), order_.merges()));
  }

  std::vector<double> Contributions(int pieces, uint64_t unit) const {
    std::vector<double> values;
    for (int piece = 0; piece < pieces; ++piece)
      values.push_back(Contribution(piece, unit, order_.FormOf(piece)));
    return values;
  }

  // What the goal says of a unit of an output.
  double Wanted(int participant, uint64_t unit) const {
    const uint64_t own = goal_.BlockBegin(participant);
    switch (goal_.kind) {
      case GoalKind::kAllReduce:
      case GoalKind::kReduce:
        return Sum(unit);
      case GoalKind::kReduceScatter:
        return Sum(own + unit);
      case GoalKind::kScan:
        return Rounded(Add(Contributions(participant + 1, unit), {}));
      case GoalKind::kExscan:
        return Rounded(Add(Contributions(participant, unit), {}));
      case GoalKind::kBroadcast:
        return Contribution(goal_.root, unit, UnitForm::kElement);
      case GoalKind::kScatter:
        return Contribution(goal_.root, own + unit, UnitForm::kElement);
      case GoalKind::kAllToAll:
        return Contribution(static_cast<int>(unit / goal_.count), own + unit % goal_.count,
                            UnitForm::kElement);
      default: {
        int from = 0;
        while (unit >= goal_.BlockBegin(from + 1))
          ++from;
        return Contribution(from, unit - goal_.BlockBegin(from), UnitForm::kElement);
      }
    }
  }

  std::string CheckOutputs() {
    for (int p = 0; p < goal_.participants; ++p) {
      for (uint64_t unit = 0; unit < BufferUnits(goal_, p, kOutputBuffer); ++unit) {
        const double found = At(p, {kOutputBuffer, 0}, unit);
        const double wanted = Wanted(p, unit);
        if (found != wanted)
          return StrCat("unit ", unit, " of participant ", p, " is ", found, ", not ", wanted);
      }
    }
    return "";
  }

  const CollectiveSchedule& schedule_;
  const ScheduleGoal& goal_;
  const ReductionOrder order_;
  const ChanceOptions options_;
  std::mt19937_64 random_;
  std::vector<std::vector<RunningOp>> ops_;
  std::vector<std::vector<std::vector<double>>> memory_;
  std::vector<std::vector<bool>> elements_;  // by participant and buffer
  std::vector<bool> arrived_;
};

}  // namespace

std::string ExecuteByChance(const CollectiveSchedule& schedule, const ChanceOptions& options) {
  return ChanceMachine(schedule, options).Run();
}

}  // namespace weft::test
