#include "cli/weftctl/msccl_schedule.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/schedule/op_graph.h"
#include "comm/schedule/table_schedule.h"

namespace weft {
namespace {

constexpr uint32_t kNoMscclOp = UINT32_MAX;

absl::Status BadAlgorithm(std::string_view what) {
  return MakeError(WEFT_CORRUPT, StrCat("the algorithm ", what));
}

struct MscclCollective {
  const char* name;
  GoalKind kind;
  bool blocks;  // the larger side has a block per GPU
};

constexpr MscclCollective kMscclCollectives[] = {{"allreduce", GoalKind::kAllReduce, false},
                                                 {"allgather", GoalKind::kAllGather, true},
                                                 {"reducescatter", GoalKind::kReduceScatter, true},
                                                 {"alltoall", GoalKind::kAllToAll, true}};

// A step of a GPU and what it has become.
struct PlacedStep {
  const MscclBlock* block = nullptr;
  const MscclStep* step = nullptr;
  std::vector<size_t> waits_for;  // steps of the GPU
  std::vector<bool> before;       // steps of the GPU that have ended when this one starts
  uint32_t last_op = kNoMscclOp;  // that is no send, of this step or one before it in its block
  uint32_t send = kNoMscclOp;
};

// Writes the ops of one GPU.
class MscclGpuWriter {
 public:
  MscclGpuWriter(const ScheduleGoal& goal, bool in_place, const MscclGpu& gpu, int number)
      : goal_(goal), in_place_(in_place), gpu_(gpu), number_(number) {}

  absl::StatusOr<TableParticipant> Write() {
    WEFT_RETURN_IF_ERROR(PlaceSteps());
    WEFT_ASSIGN_OR_RETURN(const std::vector<size_t> order, Sorted());
    if (CopiesIn()) {
      const bool gathers = goal_.kind == GoalKind::kAllGather;
      ScheduleOp copy;
      copy.units = BufferUnits(goal_, number_, kInputBuffer);
      copy.to = {WorkBuffer(), gathers ? OwnBlock() : 0};
      AddSource(&copy, {kInputBuffer, 0});
      ops_.push_back(std::move(copy));
    }
    for (const size_t at : order)
      WEFT_RETURN_IF_ERROR(WriteStep(at));
    WriteEnd();
    TableParticipant one;
    if (WorkBuffer() == kScratchBuffers)
      one.scratch.push_back(
          {goal_.count * static_cast<uint64_t>(goal_.participants), UnitForm::kElement});
    one.scratch.push_back({gpu_.scratch_chunks, UnitForm::kElement});
    one.scratch.push_back({register_chunks_, UnitForm::kElement});
    for (const ScheduleOp& op : ops_) {
      if (op.action == OpAction::kSend) one.sent.elements += op.units;
    }
    one.ops = std::move(ops_);
    return one;
  }

 private:
  uint64_t OwnBlock() const { return goal_.count * static_cast<uint64_t>(number_); }

  bool CopiesIn() const { return in_place_; }

  // In place, what the algorithm works in: the output where that has room for the input.
  uint32_t WorkBuffer() const {
    if (!in_place_) return kOutputBuffer;
    return goal_.kind == GoalKind::kAllReduce || goal_.kind == GoalKind::kAllGather
               ? kOutputBuffer
               : kScratchBuffers;
  }

  uint32_t ScratchOfSteps() const {
    return WorkBuffer() == kScratchBuffers ? kScratchBuffers + 1 : kScratchBuffers;
  }

  uint32_t Registers() const { return ScratchOfSteps() + 1; }

  UnitPlace Place(char buffer, uint64_t chunk) const {
    if (buffer == 's') return {ScratchOfSteps(), chunk};
    if (!in_place_) return {buffer == 'i' ? kInputBuffer : kOutputBuffer, chunk};
    const bool own_part = (buffer == 'i' && goal_.kind == GoalKind::kAllGather) ||
                          (buffer == 'o' && goal_.kind == GoalKind::kReduceScatter);
    return {WorkBuffer(), chunk + (own_part ? OwnBlock() : 0)};
  }

  absl::Status PlaceSteps() {
    std::map<std::pair<int, int>, size_t> by_number;  // block and step
    for (const MscclBlock& block : gpu_.blocks) {
      for (const MscclStep& step : block.steps) {
        if (!by_number.emplace(std::pair(block.id, step.number), steps_.size()).second) {
          return BadAlgorithm(
              StrCat("has two steps ", step.number, " in block ", block.id, " of GPU ", number_));
        }
        const bool first = &step == &block.steps.front();
        steps_.push_back({.block = &block, .step = &step, .waits_for = {}, .before = {}});
        if (!first) steps_.back().waits_for.push_back(steps_.size() - 2);
      }
    }
    for (PlacedStep& placed : steps_) {
      if (placed.step->after_block < 0) continue;
      const auto found = by_number.find({placed.step->after_block, placed.step->after_step});
      if (found == by_number.end()) {
        return BadAlgorithm(StrCat("has a step of GPU ", number_, " that waits for step ",
                                   placed.step->after_step, " of block ", placed.step->after_block,
                                   ", which there is not"));
      }
      placed.waits_for.push_back(found->second);
    }
    return absl::OkStatus();
  }

  // Steps so that none waits for a later one, and what comes before each.
  absl::StatusOr<std::vector<size_t>> Sorted() {
    std::vector<size_t> waits(steps_.size());
    std::vector<std::vector<size_t>> followers(steps_.size());
    std::vector<size_t> order;
    for (size_t at = 0; at < steps_.size(); ++at) {
      waits[at] = steps_[at].waits_for.size();
      for (const size_t before : steps_[at].waits_for)
        followers[before].push_back(at);
      if (waits[at] == 0) order.push_back(at);
    }
    for (size_t next = 0; next < order.size(); ++next) {
      PlacedStep& placed = steps_[order[next]];
      placed.before.assign(steps_.size(), false);
      for (const size_t before : placed.waits_for) {
        for (size_t i = 0; i < steps_.size(); ++i)
          placed.before[i] = placed.before[i] || steps_[before].before[i] || i == before;
      }
      for (const size_t follower : followers[order[next]]) {
        if (--waits[follower] == 0) order.push_back(follower);
      }
    }
    if (order.size() != steps_.size())
      return BadAlgorithm(StrCat("has steps of GPU ", number_, " that wait for each other"));
    return order;
  }

  // A message's name: the connection, and how many went over it before.
  absl::StatusOr<uint64_t> NextTag(const MscclBlock& block, bool sends) {
    const int peer = sends ? block.send_to : block.recv_from;
    const auto [user, added] = users_.try_emplace({sends, peer, block.channel}, block.id);
    if (user->second != block.id) {
      return BadAlgorithm(StrCat("has blocks ", user->second, " and ", block.id, " of GPU ",
                                 number_, " on one connection"));
    }
    return (static_cast<uint64_t>(block.channel) << 32) + counters_[user->first]++;
  }

  // Adds an op that comes after what its step waits for, and after sends that have read what it writes.
  uint32_t Add(PlacedStep* placed, ScheduleOp op) {
    std::set<uint32_t> after;
    if (CopiesIn()) after.insert(0);
    for (const size_t before : placed->waits_for) {
      if (steps_[before].last_op != kNoMscclOp) after.insert(steps_[before].last_op);
    }
    if (placed->last_op != kNoMscclOp) after.insert(placed->last_op);
    if (op.action != OpAction::kSend) {
      for (size_t i = 0; i < steps_.size(); ++i) {
        if (!placed->before[i] || steps_[i].send == kNoMscclOp) continue;
        const ScheduleOp& send = ops_[steps_[i].send];
        const UnitPlace& read = send.from[0].place;
        if (read.buffer == op.to.buffer && read.offset < op.to.offset + op.units &&
            op.to.offset < read.offset + send.units) {
          after.insert(steps_[i].send);
        }
      }
    }
    const auto index = static_cast<uint32_t>(ops_.size());
    for (const uint32_t before : after)
      AddAfter(&op, before);
    (op.action == OpAction::kSend ? placed->send : placed->last_op) = index;
    ops_.push_back(std::move(op));
    return index;
  }

  absl::Status AddMessage(PlacedStep* placed, OpAction action, const UnitPlace& place) {
    const bool sends = action == OpAction::kSend;
    ScheduleOp op;
    op.action = action;
    op.peer = sends ? placed->block->send_to : placed->block->recv_from;
    op.units = placed->step->count;
    if (op.peer < 0)
      return BadAlgorithm(
          StrCat("has a message of GPU ", number_, " in a block without that peer"));
    WEFT_ASSIGN_OR_RETURN(op.tag, NextTag(*placed->block, sends));
    if (sends) {
      AddSource(&op, place);
    } else {
      op.to = place;
    }
    Add(placed, std::move(op));
    return absl::OkStatus();
  }

  void AddSum(PlacedStep* placed, const UnitPlace& a, const UnitPlace& b, const UnitPlace& to) {
    ScheduleOp op;
    op.action = OpAction::kReduce;
    op.units = placed->step->count;
    op.to = to;
    op.from = {{a}, {b}};
    Add(placed, std::move(op));
  }

  absl::Status WriteStep(size_t at) {
    PlacedStep& placed = steps_[at];
    const MscclStep& step = *placed.step;
    const UnitPlace from = Place(step.from_buffer, step.from);
    const UnitPlace to = Place(step.to_buffer, step.to);
    if (step.type == "s") {
      WEFT_RETURN_IF_ERROR(AddMessage(&placed, OpAction::kSend, from));
    } else if (step.type == "r" || step.type == "rcs") {
      WEFT_RETURN_IF_ERROR(AddMessage(&placed, OpAction::kRecv, to));
      if (step.type == "rcs") WEFT_RETURN_IF_ERROR(AddMessage(&placed, OpAction::kSend, to));
    } else if (step.type == "rrs" || step.type == "rrc" || step.type == "rrcs") {
      const UnitPlace received = {Registers(), register_chunks_};
      register_chunks_ += step.count;
      WEFT_RETURN_IF_ERROR(AddMessage(&placed, OpAction::kRecv, received));
      const UnitPlace sum = step.type == "rrs" ? received : to;
      AddSum(&placed, received, from, sum);
      if (step.type != "rrc") WEFT_RETURN_IF_ERROR(AddMessage(&placed, OpAction::kSend, sum));
    } else if (step.type == "re") {
      AddSum(&placed, to, from, to);
    } else if (step.type == "cpy") {
      ScheduleOp op;
      op.units = step.count;
      op.to = to;
      AddSource(&op, from);
      Add(&placed, std::move(op));
    } else if (step.type != "nop") {
      return BadAlgorithm(StrCat("has a step of type ", step.type));
    }
    return JoinWaits(&placed);
  }

  // Who waits for this step waits for one op: its last, or the last before it in its block. A step that makes no op of its own but waits
  // for several others, a nop, gets one that moves nothing.
  absl::Status JoinWaits(PlacedStep* placed) {
    if (placed->last_op != kNoMscclOp) return absl::OkStatus();
    std::set<uint32_t> waited;
    for (const size_t before : placed->waits_for) {
      if (steps_[before].last_op != kNoMscclOp) waited.insert(steps_[before].last_op);
    }
    if (waited.size() == 1) placed->last_op = *waited.begin();
    if (waited.size() > 1) {
      ScheduleOp op;
      op.to = {kOutputBuffer, 0};
      AddSource(&op, {kOutputBuffer, 0});
      Add(placed, std::move(op));
    }
    return absl::OkStatus();
  }

  // Sums become results; what was worked on elsewhere goes to the output.
  void WriteEnd() {
    const bool elsewhere = WorkBuffer() != kOutputBuffer;
    if (!goal_.Reduces() && !elsewhere) return;
    const auto count = static_cast<uint32_t>(ops_.size());
    ScheduleOp op;
    op.action = goal_.Reduces() ? OpAction::kReduce : OpAction::kCopy;
    op.stage = SumStage::kFinal;
    op.units = BufferUnits(goal_, number_, kOutputBuffer);
    op.to = {kOutputBuffer, 0};
    AddSource(&op,
              {WorkBuffer(), elsewhere && goal_.kind == GoalKind::kReduceScatter ? OwnBlock() : 0});
    if (count > 0) op.after.push_back({0, count});
    ops_.push_back(std::move(op));
  }

  const ScheduleGoal& goal_;
  const bool in_place_;
  const MscclGpu& gpu_;
  const int number_;
  std::vector<PlacedStep> steps_;
  std::vector<ScheduleOp> ops_;
  uint64_t register_chunks_ = 0;
  std::map<std::tuple<bool, int, int>, int> users_;  // block by direction, peer and channel
  std::map<std::tuple<bool, int, int>, uint64_t> counters_;
};

// The smallest power of two with which nothing waits in a circle, so that whoever carries the schedule out need not keep all ops in sight.
uint32_t SmallestWindow(const ScheduleTable& table) {
  ScheduleTable tried = table;
  for (tried.window = 1; tried.window < table.window; tried.window *= 2) {
    if (OpGraph::Create(TableSchedule(tried)).ok()) return tried.window;
  }
  return table.window;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CollectiveSchedule>> ScheduleOfMsccl(
    const MscclAlgorithm& algorithm) {
  ScheduleTable table;
  table.algorithm = StrCat("msccl ", algorithm.name);
  table.goal.participants = static_cast<int>(algorithm.gpus.size());
  const auto known =
      std::find_if(std::begin(kMscclCollectives), std::end(kMscclCollectives),
                   [&](const MscclCollective& one) { return one.name == algorithm.collective; });
  if (known == std::end(kMscclCollectives)) {
    return MakeError(WEFT_UNSUPPORTED,
                     StrCat("weft has no schedules of ", algorithm.collective,
                            "; allreduce, allgather, reducescatter and alltoall can be imported"));
  }
  if (algorithm.gpus.empty()) return BadAlgorithm("has no GPUs");
  table.goal.kind = known->kind;
  table.goal.order_free = table.goal.Reduces();
  table.goal.count = algorithm.chunks / (known->blocks ? algorithm.gpus.size() : 1);
  table.in_place = algorithm.in_place &&
                   (known->kind == GoalKind::kAllReduce || known->kind == GoalKind::kAllGather);
  WEFT_RETURN_IF_ERROR(CheckGoal(table.goal));
  for (size_t gpu = 0; gpu < algorithm.gpus.size(); ++gpu) {
    MscclGpuWriter writer(table.goal, algorithm.in_place, algorithm.gpus[gpu],
                          static_cast<int>(gpu));
    WEFT_ASSIGN_OR_RETURN(TableParticipant participant, writer.Write());
    table.window = std::max(table.window, static_cast<uint32_t>(participant.ops.size()));
    table.participants.push_back(std::move(participant));
  }
  table.window = SmallestWindow(table);
  return std::make_unique<TableSchedule>(std::move(table));
}

}  // namespace weft
