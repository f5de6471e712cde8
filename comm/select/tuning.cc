// Choose() runs on one rank and binds all, so it knows nothing but the model and the number of ranks. Where a protocol begins
// to pay is found by asking predict.h for one size after another: the predictions have steps and cannot be solved. They are
// coarse, too, hence kClearly. The order in Choose() counts: predictions go by what was chosen before.
// Validate() stands between a peer's bytes and all arithmetic on them, so every member of Tuning needs a row there.
#include "comm/select/tuning.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/status.h"
#include "base/text.h"
#include "comm/select/predict.h"

namespace weft {
namespace {

// A choice that needs a copy more, or stores that bypass the caches, must win by this to be taken.
constexpr double kClearly = 1.1;
// At most this part of a staged round is waiting.
constexpr double kWaitingPart = 1.0 / 8;
constexpr uint32_t kYieldsMost = 200;
constexpr uint64_t kStreamStageBytesMin = 4 << 10;
constexpr uint64_t kStreamBytesMin = 1 << 10;
// The size at which the copies beyond the caches were measured (measure.h).
constexpr uint64_t kFarBytes = 24 << 20;
// A staged broadcast has root and readers copying at the same time, which the sum of their costs does not
// show: where single copy was predicted twice as fast, it was measured as fast or slower. A message
// is streamed in the same way.
constexpr double kClearlyOverlapped = 3;
constexpr uint64_t kSingleCopyBytesMin = 4 << 10;
constexpr uint64_t kSingleCopyBytesMax = 64 << 20;

template <typename T>
T ClampTo(double value, T low, T high) {
  if (!(value > static_cast<double>(low))) return low;
  return value < static_cast<double>(high) ? static_cast<T>(value) : high;
}

double WaitNs(const MachineModel& model, int ranks) {
  return ranks <= model.cores ? model.sync_ns : model.yield_ns * ranks / model.cores;
}

// Twice all pieces, for each of the ranks that share a core's cache, in half of L2; larger where
// waiting would take too much of a round.
uint32_t StagePieceBytes(const MachineModel& model, int ranks) {
  const double per_core = std::max(1.0, ranks / model.cores);
  const double cached = static_cast<double>(model.l2_bytes) / (4 * ranks * per_core);
  const double line_ns =
      (ranks - 1) * (model.store_shared_plain_line_ns + 2 * model.read_shared_plain_line_ns) +
      model.reduce2_line_ns * (ranks + 1) / 3;
  const double waits_hidden =
      2 * WaitNs(model, ranks) / (kWaitingPart * line_ns) * static_cast<double>(kModelLineBytes);
  const auto count = static_cast<uint64_t>(ranks);
  uint64_t most = kStagePiecesBytesMax / count;
  // Laps of ranks that share cores shall stay in the last level: a quarter of it for all.
  if (ranks > model.cores) {
    most = std::min(most, model.l3_bytes / 4 / (kStageRounds * (count + 1) * count));
  }
  most = std::clamp<uint64_t>(most, kStagePieceBytesMin, kStagePieceBytesMax);
  const uint32_t bytes =
      ClampTo(std::max(cached, waits_hidden), kStagePieceBytesMin, static_cast<uint32_t>(most));
  return std::max<uint32_t>(bytes / kModelPageBytes * kModelPageBytes, kStagePieceBytesMin);
}

// The least that holds all rounds; whole pages, as pieces are.
uint64_t LeastRingBytes(uint64_t piece_bytes, int ranks) {
  return kStageRounds * piece_bytes * (static_cast<uint64_t>(ranks) + 1);
}

// A line is cheap to write again when no second-level cache has it any more. While the ring comes round once, a
// core writes its own ranks' and reads about as much of the others'; four times the cache is enough (measured,
// docs/perf/collectives.md).
uint64_t EvictedBytes(const MachineModel& model, int ranks) {
  const double cores = std::min(model.cores, static_cast<double>(ranks));
  const auto bytes = static_cast<uint64_t>(2 * static_cast<double>(model.l2_bytes) * cores / ranks);
  return bytes / kModelPageBytes * kModelPageBytes;
}

void ChooseRings(const MachineModel& model, int ranks, Tuning* tuning) {
  const uint64_t evicted = EvictedBytes(model, ranks);
  const uint64_t least = LeastRingBytes(tuning->stage_piece_bytes, ranks);
  tuning->stage_ring_bytes = std::clamp(evicted, least, std::max(least, kStageRingBytesMax));
  // Ranks that share a core share its cache: what they hand over there is best kept in it.
  tuning->stage_lap_bytes = ranks > model.cores ? 0 : std::min(evicted, tuning->stage_ring_bytes);
  tuning->slot_ring_bytes = std::clamp(evicted, kSlotRingBytesMin, kSlotRingBytesMax);
}

// Streaming has to pay for its fence. With two ranks an all_reduce stages only half of its bytes.
void ChooseStageStores(const MachineModel& model, Tuning* tuning) {
  const double plain_ns = model.store_shared_plain_line_ns + model.read_shared_plain_line_ns;
  const double stream_ns = model.store_shared_stream_line_ns + model.read_shared_stream_line_ns;
  if (plain_ns <= stream_ns + kStreamPenaltyLineNs) return;
  tuning->stream_stage = 1;
  const double lines = 2 * StreamFenceNs(model) / (plain_ns - stream_ns);
  tuning->stream_stage_min_bytes =
      ClampTo(lines * static_cast<double>(kModelLineBytes), kStreamStageBytesMin, kFarBytes);
}

// A destination that stays in a cache must not be streamed: whoever uses it next reads it from memory.
// It stays there while the buffers of all ranks fit the last level. In a virtual machine the last level
// may look larger than what one gets, but beyond the size of the measurement streaming did win.
void ChooseOutStores(const MachineModel& model, int ranks, Tuning* tuning) {
  if (model.dram_copy_line_ns <= kClearly * model.dram_copy_stream_line_ns) return;
  const uint64_t fits = model.l3_bytes / (2 * static_cast<uint64_t>(ranks));
  tuning->stream_out_min_bytes = std::max(std::min(fits, kFarBytes), 2 * model.l2_bytes);
}

// The least size from which single copy wins at every larger size too; the times are functions of
// the size.
template <typename StagedNs, typename SingleNs>
uint64_t LeastSingleCopyBytes(double clearly, StagedNs&& staged_ns, SingleNs&& single_ns) {
  uint64_t least = kNever;
  for (uint64_t bytes = kSingleCopyBytesMax; bytes >= kSingleCopyBytesMin; bytes /= 2) {
    if (!(staged_ns(bytes) > clearly * single_ns(bytes))) break;
    least = bytes;
  }
  return least;
}

uint64_t SingleCopyFrom(const MachineModel& model, const Tuning& tuning, const CallFacts& call) {
  const auto by = [&](Protocol protocol) {
    return [&, protocol](uint64_t bytes) {
      CallFacts sized = call;
      sized.bytes = bytes;
      return PredictNs(model, tuning, sized, protocol);
    };
  };
  const double clearly = call.root_in && !call.in_blocks ? kClearlyOverlapped : kClearly;
  return LeastSingleCopyBytes(clearly, by(Protocol::kStaged), by(Protocol::kSingleCopy));
}

// Sender and receiver overlap only if each has a core.
uint64_t SingleCopyMessageFrom(const MachineModel& model, int ranks) {
  const auto by = [&](Protocol protocol) {
    return [&, protocol](uint64_t bytes) {
      return PredictMessageNs(model, ranks, bytes, protocol);
    };
  };
  const double clearly = ranks <= model.cores ? kClearlyOverlapped : kClearly;
  return LeastSingleCopyBytes(clearly, by(Protocol::kStaged), by(Protocol::kSingleCopy));
}

uint64_t SingleCopyFromForBoth(const MachineModel& model, const Tuning& tuning, const CallFacts& a,
                               const CallFacts& b) {
  return std::max(SingleCopyFrom(model, tuning, a), SingleCopyFrom(model, tuning, b));
}

// One-shot has one wait and moves more bytes. all_reduce decides, because it is the operation that
// moves more bytes by slots; those that copy move the same.
uint32_t SlotLimitBytes(const MachineModel& model, const Tuning& tuning, int ranks) {
  uint32_t limit = kSlotLimitBytesMin;
  for (uint32_t octave = kSlotLimitBytesMin; octave < kSlotLimitBytesMax; octave *= 2) {
    for (const uint32_t bytes : {octave + octave / 2, octave * 2}) {
      const CallFacts call{.reduces = true, .bytes = bytes, .ranks = ranks};
      if (PredictNs(model, tuning, call, Protocol::kSlot) >
          PredictNs(model, tuning, call, Protocol::kStaged)) {
        return limit;
      }
      limit = bytes;
    }
  }
  return limit;
}

// Spinning and sleeping cost the same when one spins for as long as a wake-up takes; twice that,
// because a core that is free costs nothing but power. Yields: as long as a wake-up takes. Ranks that share cores wait for
// each other's work, and whoever yields gives them the core for it: who slept would be woken in the midst of it.
void ChooseWaiting(const MachineModel& model, int ranks, Tuning* tuning) {
  tuning->spins = ranks > model.cores
                      ? 0
                      : ClampTo<uint32_t>(2 * model.futex_ns / model.probe_ns, 200, kSpinsMax);
  tuning->yields = ranks > model.cores
                       ? kYieldsMost
                       : ClampTo<uint32_t>(model.futex_ns / model.yield_ns, 20, kYieldsMost);
}

// What a member of a Tuning may be.
struct Limits {
  const char* name;
  uint64_t value;
  uint64_t least;
  uint64_t most = kNever;
  uint64_t unit = 1;
};

}  // namespace

Tuning Choose(const MachineModel& model, int ranks) {
  ranks = std::max(ranks, 1);
  Tuning tuning;
  tuning.stage_piece_bytes = StagePieceBytes(model, ranks);
  ChooseRings(model, ranks, &tuning);
  ChooseWaiting(model, ranks, &tuning);
  if (ranks == 1) return tuning;
  tuning.combine = ranks > model.cores ? 1 : 0;
  ChooseStageStores(model, &tuning);
  ChooseOutStores(model, ranks, &tuning);
  tuning.slot_limit_bytes = SlotLimitBytes(model, tuning, ranks);
  tuning.single_copy_min_bytes =
      SingleCopyFromForBoth(model, tuning, {.out_blocks = true, .ranks = ranks},
                            {.in_blocks = true, .out_blocks = true, .ranks = ranks});
  tuning.single_copy_broadcast_min_bytes =
      SingleCopyFrom(model, tuning, {.root_in = true, .ranks = ranks});
  tuning.single_copy_rooted_min_bytes =
      SingleCopyFromForBoth(model, tuning, {.root_out = true, .out_blocks = true, .ranks = ranks},
                            {.root_in = true, .in_blocks = true, .ranks = ranks});
  tuning.single_copy_message_min_bytes = SingleCopyMessageFrom(model, ranks);
  return tuning;
}

absl::Status Validate(const Tuning& tuning, int ranks) {
  const uint64_t least_ring = LeastRingBytes(tuning.stage_piece_bytes, ranks);
  static_assert(std::size(Tuning{}.reserved) == 2);
  const Limits limits[] = {
      {"version", tuning.version, kTuningVersion, kTuningVersion},
      {"slot_limit_bytes", tuning.slot_limit_bytes, kSlotLimitBytesMin, kSlotLimitBytesMax},
      {"stage_piece_bytes", tuning.stage_piece_bytes, kStagePieceBytesMin, kStagePieceBytesMax,
       kModelPageBytes},
      {"stage_ring_bytes", tuning.stage_ring_bytes, least_ring,
       std::max(least_ring, kStageRingBytesMax), kModelPageBytes},
      {"stage_lap_bytes", tuning.stage_lap_bytes, 0, tuning.stage_ring_bytes},
      {"slot_ring_bytes", tuning.slot_ring_bytes, kSlotRingBytesMin, kSlotRingBytesMax,
       kModelPageBytes},
      {"stream_stage", tuning.stream_stage, 0, 1},
      {"combine", tuning.combine, 0, 1},
      {"reserved", tuning.reserved[0], 0, 0},
      {"reserved", tuning.reserved[1], 0, 0},
      {"stream_stage_min_bytes", tuning.stream_stage_min_bytes, kStreamBytesMin},
      {"stream_out_min_bytes", tuning.stream_out_min_bytes, kStreamBytesMin},
      {"single_copy_min_bytes", tuning.single_copy_min_bytes, kSingleCopyBytesMin},
      {"single_copy_min_bytes", tuning.single_copy_broadcast_min_bytes, kSingleCopyBytesMin},
      {"single_copy_min_bytes", tuning.single_copy_rooted_min_bytes, kSingleCopyBytesMin},
      {"single_copy_min_bytes", tuning.single_copy_message_min_bytes, kSingleCopyBytesMin},
      {"spins", tuning.spins, 0, kSpinsMax},
      {"yields", tuning.yields, 0, kYieldsMax},
  };
  for (const Limits& member : limits) {
    if (member.value < member.least || member.value > member.most ||
        member.value % member.unit != 0) {
      return MakeError(WEFT_CORRUPT,
                       StrCat("the group's shared memory says ", member.name, " = ", member.value,
                              ", which no rank chooses; run the same "
                              "weft on all ranks"));
    }
  }
  return absl::OkStatus();
}

}  // namespace weft
