#include "comm/node/explain.h"

#include <cmath>
#include <vector>

#include "comm/kernels/dtype.h"
#include "comm/node/operation.h"
#include "comm/select/load_model.h"
#include "fmt/format.h"

namespace weft {
namespace {

// One of the algorithms and, if it is not taken, why.
struct Choice {
  Algorithm algorithm;
  std::string refusal;
};

std::string WhyNotSingleCopy(const Collective& call, const NodeState& state) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (call.kind == OpKind::kBarrier) return "there is no data";
  if (traits.reduces) return "a reduction reads its sources itself";
  if (traits.iov) return "lists of buffers go through staging";
  if (!state.reads_peers) {
    return "this rank may not read its peers' memory (process_vm_readv, WEFT_SINGLE_COPY)";
  }
  const CallFacts facts = FactsOf(call, state.size);
  const uint64_t least = SingleCopyMinBytes(state.tuning, facts);
  if (traits.local_counts || facts.bytes >= least) return "";
  if (least == kNever)
    return "staging is quicker at every size by what this machine's memory costs";
  return fmt::format("blocks of {} bytes are smaller than {}, from where on it pays", facts.bytes,
                     least);
}

std::vector<Choice> Choices(const Collective& call, BufferKind buffers, const NodeState& state) {
  const OpTraits& traits = TraitsOf(call.kind);
  const size_t bytes = ContributionBytes(call, state.size);
  const std::string rows = "ranks know only their own counts before they meet";
  std::vector<Choice> choices = {{Algorithm::kInline, ""},
                                 {Algorithm::kSlot, ""},
                                 {Algorithm::kDirect, ""},
                                 {Algorithm::kSingleCopy, ""},
                                 {Algorithm::kStaged, ""}};
  if (traits.local_counts) {
    choices[0].refusal = rows;
  } else if (bytes > InlineBytes(call)) {
    choices[0].refusal = fmt::format("{} bytes per rank are more than the {} of an arrival line",
                                     bytes, InlineBytes(call));
  }
  if (bytes > state.tuning.slot_limit_bytes) {
    choices[1].refusal =
        fmt::format("{} bytes per rank are more than the {} up to which one pass pays", bytes,
                    state.tuning.slot_limit_bytes);
  }
  if (call.kind == OpKind::kBarrier) {
    choices[2].refusal = choices[3].refusal = choices[4].refusal = "there is no data";
  } else if (traits.iov) {
    choices[2].refusal = "lists of buffers go through staging";
  } else if (buffers == BufferKind::kPrivate) {
    choices[2].refusal =
        "peers cannot reach private buffers; weft_mem_alloc and "
        "weft_mem_register make memory that they can";
  }
  choices[3].refusal = WhyNotSingleCopy(call, state);
  return choices;
}

// The last rank to arrive reduces for all.
bool Combined(const Collective& call, Algorithm algorithm, bool shared, const NodeState& state) {
  const OpTraits& traits = TraitsOf(call.kind);
  return state.tuning.combine != 0 && algorithm == Algorithm::kSlot && traits.reduces &&
         !traits.in_blocks && !traits.root_out && call.op != kOpUser && !shared;
}

// Bytes loaded and stored by all ranks together, every block as large as the largest. S is what a rank
// contributes and R what all ranks get, in sum.
double BytesMoved(const Collective& call, Algorithm algorithm, bool shared,
                  const NodeState& state) {
  const OpTraits& traits = TraitsOf(call.kind);
  if (call.kind == OpKind::kBarrier) return 0;
  const int size = state.size;
  const double ranks = size;
  const double block =
      static_cast<double>(ContributionBytes(call, size)) / (traits.in_blocks ? ranks : 1);
  const double senders = traits.root_in ? 1 : ranks;
  const double receivers = traits.root_out ? 1 : ranks;
  const double contributed = senders * block * (traits.in_blocks ? ranks : 1);
  const bool sliced = traits.reduces && !traits.in_blocks;
  const double received = receivers * block * (traits.out_blocks ? ranks : 1);
  const double others = (ranks - 1) / ranks;
  if (shared && algorithm == Algorithm::kDirect) {
    return traits.reduces ? (ranks + 1) * block : 2 * contributed;
  }
  if (Combined(call, algorithm, shared, state)) {
    return 2 * contributed + (ranks + 1) * block + 2 * received;
  }
  switch (algorithm) {
    case Algorithm::kInline:
    case Algorithm::kSlot:
      return 2 * contributed + (traits.reduces ? receivers * (ranks + 1) * block : 2 * received);
    case Algorithm::kSingleCopy:
    case Algorithm::kDirect:
      if (!traits.reduces) return 2 * received;
      return sliced ? (ranks + receivers) * block : ranks * (ranks + 1) * block;
    default:
      break;
  }
  if (!traits.reduces) return 2 * (contributed + received) * others + 2 * block;
  if (!sliced) return ranks * block * (2 * (ranks - 1) + ranks + 1);
  return 2 * (ranks - 1) * block + ranks * block + 2 * block + 2 * receivers * others * block;
}

std::string WaitsOf(Algorithm algorithm, bool shared, const NodeState& state) {
  switch (algorithm) {
    case Algorithm::kInline:
    case Algorithm::kSlot:
      if (shared) {
        return "two, for all ranks to arrive with their data and for all to have written the "
               "shared "
               "result, one after the other";
      }
      return "one, for all ranks to arrive with their data";
    case Algorithm::kDirect:
    case Algorithm::kSingleCopy:
      return "two, for all ranks to arrive and for all to be done with each other's buffers";
    default:
      return fmt::format(
          "two for each round of at most {} bytes of a rank's staging; two rounds "
          "are under way at a time",
          uint64_t{state.tuning.stage_piece_bytes} * static_cast<uint64_t>(state.size));
  }
}

Protocol ProtocolOf(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kInline:
      return Protocol::kInline;
    case Algorithm::kSlot:
      return Protocol::kSlot;
    case Algorithm::kDirect:
      return Protocol::kDirect;
    case Algorithm::kSingleCopy:
      return Protocol::kSingleCopy;
    default:
      return Protocol::kStaged;
  }
}

// What a choice that is not taken would cost, as far as it could be.
std::string RejectedTime(const Collective& call, Algorithm algorithm, const NodeState& state) {
  if (call.kind == OpKind::kBarrier) return "";
  const double ns = PredictNs(ProcessModel().model, state.tuning, FactsOf(call, state.size),
                              ProtocolOf(algorithm));
  return std::isfinite(ns) ? fmt::format("; predicted {:.2f} us", ns / 1000) : "";
}

// By this process's model of the machine, which need not be the one that the group was tuned by.
std::string PredictedTime(const Collective& call, Algorithm algorithm, BufferKind buffers,
                          bool shared, const NodeState& state) {
  const LoadedModel& loaded = ProcessModel();
  CallFacts facts = FactsOf(call, state.size);
  facts.shared_out = shared;
  const double ns = PredictNs(loaded.model, state.tuning, facts, ProtocolOf(algorithm));
  if (!std::isfinite(ns)) return "";
  std::string text = fmt::format("predicted time: {:.2f} us, by a {} model of this machine\n",
                                 ns / 1000, ModelOriginName(loaded.origin));
  const bool may_copy = buffers == BufferKind::kPrivate && call.kind != OpKind::kBarrier &&
                        !TraitsOf(call.kind).iov && state.size > 1;
  if (!may_copy) return text;
  const double copied_ns = PredictWithCopyNs(loaded.model, state.tuning, facts);
  return text + fmt::format(
                    "with a copy: {:.2f} us if inputs are copied into symmetric memory first and "
                    "the result is used there (weft_mem_alloc_copy), which is {}\n",
                    copied_ns / 1000, copied_ns < ns ? "cheaper" : "not cheaper");
}

// One result for all ranks, if the call has one that is the same for all.
std::string SharedResultLine(Algorithm algorithm, bool shared) {
  if (!shared) return "result: not shared, it is not the same for all ranks\n";
  const bool small = algorithm == Algorithm::kInline || algorithm == Algorithm::kSlot;
  return fmt::format("result: shared, in one place for all ranks, {}\n",
                     small ? "written by each of them in turn" : "every byte written once");
}

}  // namespace

std::string ExplainCollective(const Collective& call, BufferKind buffers, const NodeState& state) {
  const OpTraits& traits = TraitsOf(call.kind);
  const std::vector<Choice> choices = Choices(call, buffers, state);
  const bool shared = buffers == BufferKind::kShared && SameForAll(call);
  const Choice* taken = &choices.back();
  for (const Choice& choice : choices) {
    if (!choice.refusal.empty()) continue;
    taken = &choice;
    break;
  }
  const char* const name = AlgorithmName(taken->algorithm);
  std::string text =
      fmt::format("operation: {} on {} ranks of one node\n", traits.name, state.size);
  text += fmt::format("algorithm: {}\n", name);
  text += fmt::format("bytes per rank: {}\n", ContributionBytes(call, state.size));
  text += fmt::format("bytes moved: {:.0f} loaded and stored by all ranks together\n",
                      BytesMoved(call, taken->algorithm, shared, state));
  text += fmt::format("waits: {}\n", WaitsOf(taken->algorithm, shared, state));
  if (Combined(call, taken->algorithm, shared, state))
    text += "combining: the last rank to arrive reduces for all\n";
  if (buffers == BufferKind::kShared) text += SharedResultLine(taken->algorithm, shared);
  text += PredictedTime(call, taken->algorithm, buffers, shared, state);
  if (traits.reduces) {
    text += fmt::format("kernel: {}\n",
                        call.op == kOpUser ? "the user's function" : IsaName(state.isa));
  }
  if (taken->algorithm == Algorithm::kStaged) {
    text += fmt::format("chunk: {} bytes, which one rank reduces or hands on at a time\n",
                        state.tuning.stage_piece_bytes);
  }
  text += fmt::format("why: {}\n",
                      taken == choices.data()
                          ? "it fits, and nothing waits for less"
                          : "the first of inline, slot, direct, single_copy, staged that can");
  for (const Choice& choice : choices) {
    if (&choice == taken) continue;
    text +=
        fmt::format("not {}: {}{}\n", AlgorithmName(choice.algorithm),
                    choice.refusal.empty() ? fmt::format("{} comes first", name) : choice.refusal,
                    RejectedTime(call, choice.algorithm, state));
  }
  return text;
}

}  // namespace weft
