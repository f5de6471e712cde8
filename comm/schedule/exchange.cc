#include "comm/schedule/exchange.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft {
namespace {

// How many steps of the pairwise exchange come before a block's.
int StepOf(int from, int to, int participants) {
  return (to - from + participants) % participants;
}

}  // namespace

ExchangeSchedule::ExchangeSchedule(int participants, int self, const ExchangedBlocks& blocks)
    : IndexedSchedule({.kind = GoalKind::kAllToAll, .participants = participants}), self_(self) {
  struct Message {
    int step;
    bool is_send;
    ExchangedBlock block;
  };

  std::vector<Message> messages;
  ExchangedBlock own;
  for (const ExchangedBlock& block : blocks.sends) {
    if (block.peer == self) {
      own = block;
    } else {
      messages.push_back({StepOf(self, block.peer, participants), true, block});
    }
  }
  for (const ExchangedBlock& block : blocks.receives)
    messages.push_back({StepOf(block.peer, self, participants), false, block});
  std::stable_sort(messages.begin(), messages.end(),
                   [](const Message& a, const Message& b) { return a.step < b.step; });
  for (const Message& message : messages) {
    ScheduleOp& op = ops_.emplace_back();
    op.units = message.block.units;
    op.peer = message.block.peer;
    if (message.is_send) {
      op.action = OpAction::kSend;
      AddSource(&op, {kInputBuffer, message.block.offset});
      continue;
    }
    op.to = {kOutputBuffer, message.block.offset};
    op.action = OpAction::kRecv;
    if (op.peer != self) continue;
    WEFT_CHECK(own.peer == self && own.units == op.units);
    op.action = OpAction::kCopy;
    op.peer = -1;
    AddSource(&op, {kInputBuffer, own.offset});
  }
}

uint32_t ExchangeSchedule::OpCount(int participant) const {
  return participant == self_ ? static_cast<uint32_t>(ops_.size()) : 0;
}

void ExchangeSchedule::OpAt(int participant, uint32_t index, ScheduleOp* op) const {
  WEFT_CHECK(participant == self_);
  *op = ops_[index];
}

SentUnits ExchangeSchedule::SentBy(int participant) const {
  SentUnits sent;
  for (uint32_t i = 0; i < OpCount(participant); ++i) {
    if (ops_[i].action == OpAction::kSend) sent.elements += ops_[i].units;
  }
  return sent;
}

}  // namespace weft
