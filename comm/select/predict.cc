// Absolute times are wrong on a busy machine; what counts is the order of the protocols. So every cost is a number of lines
// times a measured time, and what all protocols share may be coarse.
#include "comm/select/predict.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace weft {
namespace {

// Where peers can reach the buffers, and where they cannot.
constexpr Reach kReachable = {.known = true, .direct = true};
constexpr Reach kPrivate = {.known = true, .readable = true};
constexpr double kImpossible = std::numeric_limits<double>::infinity();
// For protocols in which the root and the others work at the same time from the beginning.
constexpr double kNoFirstRound = std::numeric_limits<double>::max();

double CeilOf(uint64_t bytes, uint64_t unit) {
  return static_cast<double>(bytes / unit + (bytes % unit != 0 ? 1 : 0));
}

// What a rank has to do, where the root of a call has something else to do.
struct Work {
  double root_ns = 0;
  double other_ns = 0;
};

// The costs of one call: those of the model, at this size and number of ranks.
class Costs {
 public:
  Costs(const MachineModel& model, const Tuning& tuning, const CallFacts& call)
      : model_(model),
        tuning_(tuning),
        call_(call),
        ranks_(call.ranks),
        lines_(CeilOf(call.bytes, kModelLineBytes)) {
    const double buffer_bytes =
        static_cast<double>(call.bytes) * (call.in_blocks || call.out_blocks ? ranks_ : 1);
    const double far = Farness(buffer_bytes);
    far_source_ns_ = far * std::max(0.0, model.dram_copy_line_ns - model.copy_line_ns) / 2;
    const double out_bytes = static_cast<double>(call.bytes) * (call.out_blocks ? ranks_ : 1);
    const double out_ns =
        out_bytes >= static_cast<double>(tuning.stream_out_min_bytes)
            ? model.dram_copy_stream_line_ns - model.dram_copy_line_ns / 2 - model.copy_line_ns / 2
            : (model.dram_copy_line_ns - model.copy_line_ns) / 2;
    far_destination_ns_ = far * std::max(0.0, out_ns);
  }

  double Inline() const {
    return ContributionBytes(call_) > InlineLimitBytes(call_) ? kImpossible : Arrival() + Turns();
  }

  double Slot() const;
  double Staged() const;
  double Direct() const;
  double SingleCopy() const;
  double CopyIn() const;
  double SingleRank() const;

 private:
  // A copy in which nobody has anything to read before the root, or a rank other than the root, has written.
  // In a reduction all ranks have the same to do first.
  bool Rooted() const { return !call_.reduces && (call_.root_in || call_.root_out); }

  bool Contributes(bool root) const { return !call_.root_in || root; }

  bool Receives(bool root) const { return !call_.root_out || root; }

  // Peers whose blocks a receiving rank reads.
  double Sources(bool root) const { return call_.root_in ? (root ? 0 : 1) : ranks_ - 1; }

  // 0: the buffers stay in a core's cache, 1: they come from memory and go there. By the logarithm in
  // between, because in between lies the last level, and nobody knows one's share of it.
  double Farness(double bytes) const {
    const double near = static_cast<double>(model_.l2_bytes) / 2;
    const double far = std::max(static_cast<double>(model_.l3_bytes) / ranks_, near * 8);
    return std::clamp(std::log(bytes / near) / std::log(far / near), 0.0, 1.0);
  }

  // A spinning rank sees a flag at once. With more ranks than cores the one that is waited for has to
  // get its turn.
  double Wait() const {
    if (ranks_ <= model_.cores) return model_.sync_ns;
    return std::max(model_.sync_ns, model_.yield_ns * ranks_ / model_.cores);
  }

  // Writing the own arrival line, waiting for and reading those of all others.
  double Arrival() const {
    return model_.store_shared_plain_line_ns + Wait() +
           (ranks_ - 1) * model_.read_shared_plain_line_ns;
  }

  // Small results in one place are written by one rank after the other, and waited for.
  double Turns() const { return call_.shared_out ? (ranks_ + 1) * Wait() : 0; }

  // Sums one line of all ranks; all but one of them lie with peers. Loads and stores: n + 1 for
  // n sources, 3 for the two that were measured.
  double Reduce(double read_line_ns) const {
    return model_.reduce2_line_ns * (ranks_ + 1) / 3 +
           (ranks_ - 1) * std::max(0.0, read_line_ns - model_.copy_line_ns);
  }

  double OwnBlock(bool root) const {
    if (!Contributes(root) || !Receives(root) || call_.in_place) return 0;
    return lines_ * (model_.copy_line_ns + far_source_ns_ + far_destination_ns_);
  }

  // The slowest rank's time. Root and others work at the same time but for the first of `rounds` rounds;
  // ranks that have no core of their own take turns.
  double Elapsed(const Work& work, double rounds) const {
    const double least = std::min(work.root_ns, work.other_ns);
    const double alone = std::max(work.root_ns, work.other_ns) + (Rooted() ? least / rounds : 0);
    const double together = work.root_ns + (ranks_ - 1) * work.other_ns;
    return std::max(alone, together / model_.cores);
  }

  template <typename WorkOf>
  Work ForBoth(WorkOf&& work_of) const {
    return {work_of(true), work_of(false)};
  }

  double SlotWork(bool root) const;
  double StagedReduceWork(bool root) const;
  double StagedCopyWork(bool root) const;

  const MachineModel& model_;
  const Tuning& tuning_;
  const CallFacts& call_;
  const double ranks_;
  const double lines_;  // of `bytes`
  // What a line costs more because a buffer is not in a cache, at either end.
  double far_source_ns_ = 0;
  double far_destination_ns_ = 0;
};

// All of the input is written to the slot, and every rank reads what it needs of all slots; or one of them, the
// root here, reduces for all.
double Costs::SlotWork(bool root) const {
  double ns = 0;
  if (Contributes(root)) {
    ns += lines_ * (call_.in_blocks ? ranks_ : 1) * model_.store_shared_plain_line_ns;
  }
  if (!Receives(root)) return ns;
  if (!call_.reduces) {
    return ns + OwnBlock(root) + Sources(root) * lines_ * model_.read_shared_plain_line_ns;
  }
  if (!LastArriverReduces(call_, tuning_))
    return ns + lines_ * Reduce(model_.read_shared_plain_line_ns);
  ns += lines_ * model_.read_shared_plain_line_ns;
  return root ? ns + lines_ * Reduce(model_.read_shared_plain_line_ns) : ns;
}

// A reduction of one source is written once more, to round it.
double Costs::SingleRank() const {
  if (call_.ranks > 1) return kImpossible;
  if (!call_.reduces) return OwnBlock(true);
  return lines_ * (model_.reduce2_line_ns * 2 / 3 + far_source_ns_ + far_destination_ns_);
}

double Costs::Slot() const {
  if (ContributionBytes(call_) > kSlotLimitBytesMax) return kImpossible;
  return Arrival() + Turns() + Elapsed(ForBoth([this](bool root) { return SlotWork(root); }), 1);
}

double Costs::StagedReduceWork(bool root) const {
  const bool stream = StreamsStage(tuning_, ContributionBytes(call_));
  const double store_ns = far_source_ns_ + (stream ? model_.store_shared_stream_line_ns
                                                   : model_.store_shared_plain_line_ns);
  const double read_ns =
      stream ? model_.read_shared_stream_line_ns : model_.read_shared_plain_line_ns;
  const double own_lines = call_.in_blocks || call_.prefix ? lines_ : lines_ / ranks_;
  double ns = (call_.prefix ? 1 : ranks_ - 1) * own_lines * store_ns;
  ns += own_lines * (Reduce(read_ns) + far_source_ns_ + far_destination_ns_);
  if (call_.in_blocks || call_.prefix) return ns;
  // The result goes to the peers too, with the kernel's plain stores, and comes from them.
  ns += own_lines * model_.store_shared_plain_line_ns;
  if (!Receives(root)) return ns;
  return ns + (ranks_ - 1) * own_lines * (model_.read_shared_plain_line_ns + far_destination_ns_);
}

double Costs::StagedCopyWork(bool root) const {
  const bool stream = StreamsStage(tuning_, ContributionBytes(call_));
  double ns = OwnBlock(root);
  // A root that alone receives stages nothing.
  if (Contributes(root) && !(call_.root_out && root)) {
    ns += lines_ * (call_.in_blocks ? ranks_ - 1 : 1) *
          (far_source_ns_ +
           (stream ? model_.store_shared_stream_line_ns : model_.store_shared_plain_line_ns));
  }
  if (!Receives(root)) return ns;
  // The first reader of a streamed line fetches it from memory, the others find it in that one's cache.
  const double readers = call_.in_blocks || call_.root_out ? 1 : std::max(1.0, ranks_ - 1);
  const double plain_ns = model_.read_shared_plain_line_ns;
  const double read_ns =
      stream ? plain_ns + (model_.read_shared_stream_line_ns - plain_ns) / readers : plain_ns;
  return ns + Sources(root) * lines_ * (far_destination_ns_ + read_ns);
}

// Rounds overlap: of the two waits of a round one is hidden behind the work of the next.
double Costs::Staged() const {
  const uint64_t per_round = uint64_t{tuning_.stage_piece_bytes} *
                             (call_.in_blocks ? 1 : static_cast<uint64_t>(call_.ranks));
  const double rounds = std::max(1.0, CeilOf(call_.bytes, std::max<uint64_t>(per_round, 1)));
  const Work work = ForBoth(
      [this](bool root) { return call_.reduces ? StagedReduceWork(root) : StagedCopyWork(root); });
  const double fence_ns =
      StreamsStage(tuning_, ContributionBytes(call_)) ? StreamFenceNs(model_) : 0;
  return Arrival() + (rounds + (call_.reduces ? 1 : 0)) * Wait() + rounds * fence_ns +
         Elapsed(work, rounds);
}

double Costs::Direct() const {
  const double read_ns = model_.read_shared_plain_line_ns;
  const Work work = ForBoth([this, read_ns](bool root) {
    if (!call_.reduces) {
      if (!Receives(root)) return 0.0;
      if (call_.shared_out) return OwnBlock(root);
      return OwnBlock(root) +
             Sources(root) * lines_ * (read_ns + far_source_ns_ + far_destination_ns_);
    }
    const double own_lines = call_.in_blocks ? lines_ : lines_ / ranks_;
    // A scan adds its sources again for each rank, all but the first time from a cache.
    const double again_ns =
        call_.prefix ? model_.reduce2_line_ns * (ranks_ - 1) * (ranks_ + 2) / 6 : 0;
    const bool one_output = call_.in_blocks || call_.root_out || call_.shared_out;
    const double outputs = one_output ? 1 : ranks_;
    // Every rank has read the lines of a shared one.
    const bool foreign = (call_.root_out && !root) || call_.shared_out;
    const double foreign_outputs = foreign ? 1 : outputs - 1;
    return own_lines * (Reduce(read_ns) + again_ns + ranks_ * far_source_ns_ +
                        foreign_outputs * model_.store_shared_plain_line_ns +
                        outputs * (call_.in_place ? 0 : far_destination_ns_));
  });
  return Arrival() + Wait() + Elapsed(work, kNoFirstRound);
}

// Every rank its own contribution, to memory that it reads no more itself.
double Costs::CopyIn() const {
  const double input_lines = lines_ * (call_.in_blocks ? ranks_ : 1);
  const double ns = input_lines * (model_.copy_line_ns + far_source_ns_ + far_destination_ns_);
  return Elapsed(ForBoth([this, ns](bool root) { return Contributes(root) ? ns : 0.0; }), 1);
}

double Costs::SingleCopy() const {
  if (call_.reduces) return kImpossible;
  const double block_ns =
      model_.single_copy_call_ns +
      CeilOf(call_.bytes, kModelPageBytes) * model_.single_copy_page_ns +
      lines_ * (model_.single_copy_line_ns + far_source_ns_ + far_destination_ns_);
  const Work work = ForBoth([this, block_ns](bool root) {
    return Receives(root) ? OwnBlock(root) + Sources(root) * block_ns : 0.0;
  });
  return Arrival() + Wait() + Elapsed(work, kNoFirstRound);
}

// The collectives as rows: name, and the traits of comm/group/collective.h that matter here.
struct NamedFacts {
  const char* name;
  CallFacts facts;
};

constexpr NamedFacts kCollectives[] = {
    {"all_reduce", {.reduces = true}},
    {"reduce", {.reduces = true, .root_out = true}},
    {"reduce_scatter", {.reduces = true, .in_blocks = true}},
    {"all_gather", {.out_blocks = true}},
    {"gather", {.root_out = true, .out_blocks = true}},
    {"broadcast", {.root_in = true}},
    {"scatter", {.root_in = true, .in_blocks = true}},
    {"all_to_all", {.in_blocks = true, .out_blocks = true}},
};

}  // namespace

double StreamFenceNs(const MachineModel& model) {
  return 2 * model.sync_ns;
}

double PredictNs(const MachineModel& model, const Tuning& tuning, const CallFacts& call,
                 Protocol protocol) {
  const Costs costs(model, tuning, call);
  switch (protocol) {
    case Protocol::kInline:
      return costs.Inline();
    case Protocol::kSlot:
      return costs.Slot();
    case Protocol::kStaged:
      return costs.Staged();
    case Protocol::kDirect:
      return costs.Direct();
    case Protocol::kSingleCopy:
      return costs.SingleCopy();
    case Protocol::kSingleRank:
      return costs.SingleRank();
    case Protocol::kAuto:
      break;
  }
  return kImpossible;
}

double PredictWithCopyNs(const MachineModel& model, const Tuning& tuning, const CallFacts& call) {
  CallFacts there = call;
  there.in_place =
      !(call.in_blocks && call.out_blocks);  // an exchange would overwrite what it sends
  const double copy_ns = Costs(model, tuning, call).CopyIn();
  return copy_ns +
         PredictNs(model, tuning, there, SelectProtocol(there, tuning, kReachable).protocol);
}

// As a broadcast of two ranks, in rounds of a chunk and with plain stores, for that is how chunks
// are staged. A pair has its part of the cores and of the last level.
double PredictMessageNs(const MachineModel& model, int ranks, uint64_t bytes, Protocol protocol) {
  if (protocol != Protocol::kStaged && protocol != Protocol::kSingleCopy) return kImpossible;
  const int of_pairs = std::max(ranks, 2);
  MachineModel pair = model;
  pair.cores = model.cores * 2 / of_pairs;
  pair.l3_bytes = model.l3_bytes * 2 / static_cast<uint64_t>(of_pairs);
  const Tuning chunks{.stage_piece_bytes = kMessageChunkBytes / 2};
  return PredictNs(pair, chunks, {.root_in = true, .bytes = bytes, .ranks = 2, .in_place = true},
                   protocol);
}

std::vector<ModelRow> ModelTable(const MachineModel& model, int ranks) {
  const Tuning tuning = Choose(model, ranks);
  std::vector<ModelRow> rows;
  for (const NamedFacts& collective : kCollectives) {
    for (uint64_t bytes = 8; bytes <= uint64_t{64} << 20; bytes *= 8) {
      CallFacts call = collective.facts;
      call.bytes = bytes;
      call.ranks = std::max(ranks, 1);
      ModelRow row{collective.name,
                   bytes,
                   SelectProtocol(call, tuning, kPrivate).protocol,
                   SelectProtocol(call, tuning, kReachable).protocol,
                   {}};
      for (size_t i = 0; i < kRankProtocols.size(); ++i)
        row.ns[i] = PredictNs(model, tuning, call, kRankProtocols[i]);
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace weft
