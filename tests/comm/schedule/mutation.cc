#include "tests/comm/schedule/mutation.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text.h"

namespace weft::test {
namespace {

// The ops of a participant with `after` as plain lists, so that they can be moved.
struct LooseOps {
  std::vector<ScheduleOp> ops;
  std::vector<std::vector<uint32_t>> after;

  explicit LooseOps(const std::vector<ScheduleOp>& listed) : ops(listed) {
    for (const ScheduleOp& op : listed) {
      std::vector<uint32_t>& names = after.emplace_back();
      for (const OpRange& range : op.after) {
        for (uint32_t i = range.begin; i < range.end; i += range.step)
          names.push_back(i);
      }
    }
  }

  // to[i] is the new number of op i, or UINT32_MAX if it is gone.
  void Renumber(const std::vector<uint32_t>& to) {
    for (std::vector<uint32_t>& names : after) {
      for (uint32_t& name : names)
        name = to[name];
      std::erase(names, UINT32_MAX);
    }
  }

  std::vector<ScheduleOp> Listed() {
    for (size_t i = 0; i < ops.size(); ++i) {
      ops[i].after.clear();
      std::sort(after[i].begin(), after[i].end());
      for (const uint32_t name : after[i])
        AddAfter(&ops[i], name);
    }
    return ops;
  }
};

class Mutator {
 public:
  Mutator(ScheduleTable* table, std::mt19937_64* random) : table_(*table), random_(*random) {}

  // "" if the kind that was drawn does not fit the participant.
  std::string Try() {
    const size_t participant = Draw(table_.participants.size());
    TableParticipant& one = table_.participants[participant];
    if (one.ops.empty()) return "";
    LooseOps loose(one.ops);
    const size_t at = Draw(loose.ops.size());
    const std::string done = Change(&loose, at, &one);
    if (done.empty()) return "";
    one.ops = loose.Listed();
    return StrCat("participant ", participant, " op ", at, " ", done);
  }

 private:
  size_t Draw(size_t below) { return static_cast<size_t>(random_() % below); }

  // A shift by one unit or a few, either way.
  uint64_t Shifted(uint64_t value) {
    const uint64_t by = 1 + Draw(3);
    return random_() % 2 == 0 || value < by ? value + by : value - by;
  }

  static std::vector<uint32_t> Numbers(size_t count) {
    std::vector<uint32_t> numbers(count);
    for (size_t i = 0; i < count; ++i)
      numbers[i] = static_cast<uint32_t>(i);
    return numbers;
  }

  template <typename T>
  static std::string ChangeTo(T* value, T to, const char* what) {
    if (*value == to) return "";
    *value = to;
    return what;
  }

  std::string Drop(LooseOps* loose, size_t at) {
    std::vector<uint32_t> to = Numbers(loose->ops.size());
    for (size_t i = at + 1; i < to.size(); ++i)
      --to[i];
    to[at] = UINT32_MAX;
    loose->ops.erase(loose->ops.begin() + static_cast<std::ptrdiff_t>(at));
    loose->after.erase(loose->after.begin() + static_cast<std::ptrdiff_t>(at));
    loose->Renumber(to);
    return "dropped";
  }

  std::string Double(LooseOps* loose, size_t at) {
    std::vector<uint32_t> to = Numbers(loose->ops.size());
    for (size_t i = at + 1; i < to.size(); ++i)
      ++to[i];
    const ScheduleOp op = loose->ops[at];
    const std::vector<uint32_t> after = loose->after[at];
    loose->Renumber(to);
    loose->ops.insert(loose->ops.begin() + static_cast<std::ptrdiff_t>(at) + 1, op);
    loose->after.insert(loose->after.begin() + static_cast<std::ptrdiff_t>(at) + 1, after);
    // In half of the cases the second one waits for the first one.
    if (random_() % 2 == 0) return "doubled";
    loose->after[at + 1].push_back(static_cast<uint32_t>(at));
    return "done twice";
  }

  std::string Swap(LooseOps* loose, size_t at, bool names_follow) {
    const size_t other = Draw(loose->ops.size());
    if (other == at) return "";
    std::swap(loose->ops[at], loose->ops[other]);
    std::swap(loose->after[at], loose->after[other]);
    std::vector<uint32_t> to = Numbers(loose->ops.size());
    std::swap(to[at], to[other]);
    if (names_follow) loose->Renumber(to);
    return StrCat("changes places with op ", other);
  }

  std::string ChangeAfter(std::vector<uint32_t>* after, size_t at) {
    if (random_() % 3 == 0) {
      if (at == 0) return "";
      after->push_back(static_cast<uint32_t>(Draw(at)));
      return "waits for one more";
    }
    if (after->empty()) return "";
    const size_t which = Draw(after->size());
    if (random_() % 2 == 0) {
      after->erase(after->begin() + static_cast<std::ptrdiff_t>(which));
      return "waits for one less";
    }
    return ChangeTo(&(*after)[which], static_cast<uint32_t>(Draw(at)), "waits for another");
  }

  std::string Change(LooseOps* loose, size_t at, TableParticipant* one) {
    ScheduleOp& op = loose->ops[at];
    const bool message = op.action == OpAction::kSend || op.action == OpAction::kRecv;
    const auto buffers = static_cast<uint32_t>(kScratchBuffers + one->scratch.size());
    switch (Draw(17)) {
      case 0:
        return Drop(loose, at);
      case 1:
        return Double(loose, at);
      case 2:
        return Swap(loose, at, /*names_follow=*/true);
      case 3:
        return Swap(loose, at, /*names_follow=*/false);
      case 4:
        if (!message) return "";
        return ChangeTo(&op.peer, static_cast<int32_t>(Draw(table_.participants.size())),
                        "has another peer");
      case 5:
        if (!message) return "";
        op.tag = Shifted(op.tag);
        return "has another tag";
      case 6:
        if (op.action == OpAction::kSend) return "";
        op.to.offset = Shifted(op.to.offset);
        return "writes elsewhere";
      case 7:
        if (op.from.empty()) return "";
        op.from[Draw(op.from.size())].place.offset += random_() % 2 == 0 ? 1 : UINT64_MAX;
        return "reads elsewhere";
      case 8:
        op.units = Shifted(op.units);
        return "has other units";
      case 9:
        if (op.action == OpAction::kSend) return "";
        return ChangeTo(&op.to.buffer, static_cast<uint32_t>(Draw(buffers)),
                        "writes to another buffer");
      case 10:
        if (op.from.empty()) return "";
        return ChangeTo(&op.from[Draw(op.from.size())].place.buffer,
                        static_cast<uint32_t>(Draw(buffers)), "reads another buffer");
      case 11:
      case 12:
        return ChangeAfter(&loose->after[at], at);
      case 13:
        if (op.from.size() < 2) return "";
        std::swap(op.from[0], op.from[1 + Draw(op.from.size() - 1)]);
        return "has its sources in another order";
      case 14:
        if (op.action != OpAction::kReduce) return "";
        op.from.push_back(op.from[Draw(op.from.size())]);
        return "has a source twice";
      case 15:
        if (op.action != OpAction::kReduce) return "";
        op.stage = op.stage == SumStage::kFinal ? SumStage::kPartial : SumStage::kFinal;
        return "is of the other stage";
      default:
        return ChangeBothHalves(loose, at);
    }
  }

  // A message that is dropped, shortened or moved at both ends: nothing is amiss but what arrives.
  std::string ChangeBothHalves(LooseOps* loose, size_t at) {
    ScheduleOp& op = loose->ops[at];
    if (op.action != OpAction::kSend) return "";
    std::vector<ScheduleOp>& others = table_.participants[static_cast<size_t>(op.peer)].ops;
    for (ScheduleOp& other : others) {
      if (other.action != OpAction::kRecv || other.tag != op.tag ||
          &table_.participants[static_cast<size_t>(other.peer)].ops == &others)
        continue;
      if (other.units != op.units || other.units == 0) continue;
      if (random_() % 2 == 0) {
        --op.units;
        other.units = op.units;
        return "is a unit shorter at both ends";
      }
      other.to.offset = Shifted(other.to.offset);
      op.from[0].place.offset = Shifted(op.from[0].place.offset);
      return "is of another place at both ends";
    }
    return "";
  }

  ScheduleTable& table_;
  std::mt19937_64& random_;
};

void CountSent(ScheduleTable* table) {
  for (TableParticipant& one : table->participants) {
    one.sent = {};
    for (const ScheduleOp& op : one.ops) {
      if (op.action != OpAction::kSend || op.from.empty()) continue;
      const uint32_t buffer = op.from[0].place.buffer;
      const bool accumulators =
          buffer == kPartialsBuffer ||
          (buffer >= kScratchBuffers && buffer - kScratchBuffers < one.scratch.size() &&
           one.scratch[buffer - kScratchBuffers].form == UnitForm::kAccumulator);
      (accumulators ? one.sent.accumulators : one.sent.elements) += op.units;
    }
  }
}

}  // namespace

ScheduleTable Mutate(ScheduleTable table, std::mt19937_64* random, std::string* what) {
  what->clear();
  for (int tries = 0; tries < 100 && what->empty(); ++tries)
    *what = Mutator(&table, random).Try();
  CountSent(&table);
  return table;
}

}  // namespace weft::test
