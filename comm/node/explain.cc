// An explanation must not be another opinion: whatever it says about the choice comes from SelectProtocol and ObstacleTo. Only
// bytes and waits are formulas of their own.
#include "comm/node/explain.h"

#include <cmath>

#include "comm/kernels/dtype.h"
#include "comm/node/call_facts.h"
#include "comm/node/count_exchange.h"
#include "comm/select/load_model.h"
#include "comm/select/predict.h"
#include "comm/select/select_protocol.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Bytes loaded and stored by all ranks together, every block as large as the largest. S is what a rank
// contributes and R what all ranks get, in sum.
double BytesMoved(const CallFacts& call, const Selection& selection) {
  if (!call.has_data) return 0;
  const double ranks = call.ranks;
  const auto block = static_cast<double>(call.bytes);
  const double senders = call.root_in ? 1 : ranks;
  const double receivers = call.root_out ? 1 : ranks;
  const double contributed = senders * block * (call.in_blocks ? ranks : 1);
  const bool sliced = call.reduces && !call.in_blocks && !call.prefix;
  // Of a scan: r + 1 sources and a result on rank r, at most.
  const double prefixes = ranks * (ranks + 3) / 2 * block;
  const double received = receivers * block * (call.out_blocks ? ranks : 1);
  const double others = (ranks - 1) / ranks;
  switch (selection.protocol) {
    case Protocol::kSingleRank:
      return 2 * received;
    case Protocol::kInline:
    case Protocol::kSlot:
      if (selection.meeting == Meeting::kLastArriver) {
        return 2 * contributed + (ranks + 1) * block + 2 * received;
      }
      if (call.prefix) return 2 * contributed + prefixes;
      return 2 * contributed + (call.reduces ? receivers * (ranks + 1) * block : 2 * received);
    case Protocol::kSingleCopy:
    case Protocol::kDirect:
      if (call.shared_out) return call.reduces ? (ranks + 1) * block : 2 * contributed;
      if (!call.reduces) return 2 * received;
      if (call.prefix) return prefixes;
      return sliced ? (ranks + receivers) * block : ranks * (ranks + 1) * block;
    default:
      break;
  }
  if (!call.reduces) return 2 * (contributed + received) * others + 2 * block;
  if (call.prefix) return 2 * contributed + prefixes;
  if (!sliced) return ranks * block * (2 * (ranks - 1) + ranks + 1);
  return 2 * (ranks - 1) * block + ranks * block + 2 * block + 2 * receivers * others * block;
}

std::string WaitsOf(Protocol protocol, bool shared, const NodeState& state) {
  switch (protocol) {
    case Protocol::kSingleRank:
      return "none";
    case Protocol::kInline:
    case Protocol::kSlot:
      if (shared) {
        return "two, for all ranks to arrive with their data and for all to have written the "
               "shared result, one after the other";
      }
      return "one, for all ranks to arrive with their data";
    case Protocol::kDirect:
    case Protocol::kSingleCopy:
      return "two, for all ranks to arrive and for all to be done with each other's buffers";
    default:
      return fmt::format(
          "two for each round of at most {} bytes of a rank's staging; two rounds "
          "are under way at a time",
          uint64_t{state.tuning.stage_piece_bytes} * static_cast<uint64_t>(state.size));
  }
}

// What a protocol that is not taken would cost, as far as it could be.
std::string RejectedTime(const CallFacts& call, Protocol protocol, const NodeState& state) {
  if (!call.has_data) return "";
  const double ns = PredictNs(ProcessModel().model, state.tuning, call, protocol);
  return std::isfinite(ns) ? fmt::format("; predicted {:.2f} us", ns / 1000) : "";
}

// By this process's model of the machine, which need not be the one that the group was tuned by.
std::string PredictedTime(const CallFacts& call, Protocol protocol, BufferKind buffers,
                          const NodeState& state) {
  const LoadedModel& loaded = ProcessModel();
  const double ns = PredictNs(loaded.model, state.tuning, call, protocol);
  if (!std::isfinite(ns)) return "";
  std::string text = fmt::format("predicted time: {:.2f} us, by a {} model of this machine\n",
                                 ns / 1000, ModelOriginName(loaded.origin));
  const bool may_copy =
      buffers == BufferKind::kPrivate && call.has_data && !call.lists && call.ranks > 1;
  if (!may_copy) return text;
  const double copied_ns = PredictWithCopyNs(loaded.model, state.tuning, call);
  return text + fmt::format(
                    "with a copy: {:.2f} us if inputs are copied into symmetric memory first and "
                    "the result is used there (weft_mem_alloc_copy), which is {}\n",
                    copied_ns / 1000, copied_ns < ns ? "cheaper" : "not cheaper");
}

// One result for all ranks, if the call has one that is the same for all.
std::string SharedResultLine(Protocol protocol, bool shared) {
  if (!shared) return "result: not shared, it is not the same for all ranks\n";
  return fmt::format(
      "result: shared, in one place for all ranks, {}\n",
      IsOneShot(protocol) ? "written by each of them in turn" : "every byte written once");
}

std::string WhyTaken(const CallFacts& call, Protocol protocol) {
  if (protocol == Protocol::kSingleRank) return "there is nobody to wait for";
  if (call.asked != Protocol::kAuto) return "the call asks for it";
  if (protocol == Protocol::kInline) return "it fits, and nothing waits for less";
  return "the first of inline, slot, direct, single_copy, staged that can";
}

// A line for each protocol that is not taken.
std::string WhyNotOthers(const CallFacts& call, Protocol taken, const Reach& reach,
                         const NodeState& state) {
  const std::string taken_first =
      call.asked == Protocol::kAuto ? fmt::format("{} comes first", ProtocolName(taken))
                                    : fmt::format("the call asks for {}", ProtocolName(call.asked));
  std::string text;
  for (const Protocol protocol : kPreferredProtocols) {
    if (protocol == taken || protocol == Protocol::kSingleRank) continue;
    const Obstacle obstacle = ObstacleTo(protocol, call, state.tuning, reach);
    text += fmt::format(
        "not {}: {}{}\n", ProtocolName(protocol),
        obstacle == Obstacle::kNone ? taken_first : ObstacleText(obstacle, call, state.tuning),
        RejectedTime(call, protocol, state));
  }
  return text;
}

}  // namespace

std::string ExplainCollective(const Collective& call, BufferKind buffers, const NodeState& state) {
  CallFacts facts = FactsOf(call, state.size);
  facts.shared_out = buffers == BufferKind::kShared && SameForAll(call);
  const Reach reach{.known = true,
                    .direct = buffers != BufferKind::kPrivate || ContributionBytes(facts) == 0,
                    .readable = state.reads_peers,
                    .in_slots = facts.local_counts && CountExchange::SendsData(call, state.size)};
  const Selection selection = SelectProtocol(facts, state.tuning, reach);
  std::string text =
      fmt::format("operation: {} on {} ranks of one node\n", OpKindName(call.kind), state.size);
  if (selection.refused != Obstacle::kNone) {
    return text + fmt::format("algorithm: none, {} is refused: {}\n", ProtocolName(facts.asked),
                              ObstacleText(selection.refused, facts, state.tuning));
  }
  const Protocol taken = selection.protocol;
  text += fmt::format("algorithm: {}\n", ProtocolName(taken));
  text += fmt::format("bytes per rank: {}\n", ContributionBytes(facts));
  text += fmt::format("bytes moved: {:.0f} loaded and stored by all ranks together\n",
                      BytesMoved(facts, selection));
  text += fmt::format("waits: {}\n", WaitsOf(taken, facts.shared_out, state));
  if (selection.meeting == Meeting::kLastArriver)
    text += "reduction: by the last rank to arrive, for all\n";
  if (buffers == BufferKind::kShared) text += SharedResultLine(taken, facts.shared_out);
  text += PredictedTime(facts, taken, buffers, state);
  if (facts.reduces) {
    text += fmt::format("kernel: {}\n",
                        facts.user_function ? "the user's function" : IsaName(state.isa));
  }
  if (taken == Protocol::kStaged) {
    text += fmt::format("chunk: {} bytes, which one rank reduces or hands on at a time\n",
                        state.tuning.stage_piece_bytes);
  }
  text += fmt::format("why: {}\n", WhyTaken(facts, taken));
  return text + WhyNotOthers(facts, taken, reach, state);
}

}  // namespace weft
