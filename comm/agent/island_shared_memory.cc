// The words of a place are atomic, written with release and read with acquire: a reader that sees a word of a later write then also sees
// the head of the write in between, and takes its copy again. It never waits: each time again means that a write has succeeded.
#include "comm/agent/island_shared_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/cache_line.h"
#include "base/check.h"
#include "base/log.h"
#include "base/wire.h"
#include "comm/agent/island_relay.h"

namespace weft {
namespace {

// The head: term, count of writes, process and half of its place.
struct Head {
  uint32_t term = 0;
  uint32_t writes = 0;  // 24 bits
  int process = -1;     // -1: nothing was written
  int half = 0;
};

constexpr uint32_t kHeadWritesMask = 0xffffff;
// Behind the head, in its line: two bits for each process, set once that is leaving and once it has gone.
constexpr size_t kFirstPresenceWord = 1;
constexpr size_t kPresencesPerWord = 32;
static_assert(kFirstPresenceWord +
                  (kIslandProcessesMax + kPresencesPerWord - 1) / kPresencesPerWord <=
              kCacheLineBytes / 8);

Head UnpackHead(uint64_t word) {
  return {.term = static_cast<uint32_t>(word >> 32),
          .writes = static_cast<uint32_t>(word >> 8) & kHeadWritesMask,
          .process = static_cast<int>(word >> 1 & 0x7f) - 1,
          .half = static_cast<int>(word & 1)};
}

uint64_t PackHead(const Head& head) {
  return uint64_t{head.term} << 32 | uint64_t{head.writes & kHeadWritesMask} << 8 |
         static_cast<uint64_t>(head.process + 1) << 1 | static_cast<uint64_t>(head.half);
}

// Of a set as it is written: bound, words, and room for what goes before.
size_t SetBytes(int bound) {
  return 32 + (static_cast<size_t>(bound) + 63) / 64 * 8;
}

size_t PlaceWords(const IslandMap& map, int island) {
  constexpr size_t kDeathBytes = 64;
  constexpr size_t kEndedBytes = 24;
  constexpr size_t kRecordBytes =
      148 + 4 * kFailureWayMax + kFailureOperationMax + kFailureSentenceMax;
  const size_t state = 64 + 2 * SetBytes(map.rank_count()) +
                       kDeathBytes * (1 + map.island(island).processes.size()) +
                       kEndedBytes * (1 + static_cast<size_t>(map.island_count()));
  const size_t verdicts =
      IslandRelay::kGroupsMax * (kRecordBytes + 2 * SetBytes(map.island_count()));
  return (state + verdicts + kCacheLineBytes) / kCacheLineBytes * (kCacheLineBytes / 8);
}

}  // namespace

size_t IslandSharedMemory::BytesFor(const IslandMap& map, int island) {
  return kCacheLineBytes + 2 * map.island(island).processes.size() * PlaceWords(map, island) * 8;
}

IslandSharedMemory::IslandSharedMemory(const IslandMap& map, int island, int process,
                                       std::byte* block)
    : map_(map),
      process_count_(static_cast<int>(map.island(island).processes.size())),
      process_(process),
      place_words_(PlaceWords(map, island)),
      block_(block) {}

std::atomic<uint64_t>& IslandSharedMemory::Word(size_t index) const {
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  return reinterpret_cast<std::atomic<uint64_t>*>(block_)[index];
}

size_t IslandSharedMemory::FirstWordOf(int process, int half) const {
  return kCacheLineBytes / 8 + static_cast<size_t>(2 * process + half) * place_words_;
}

uint64_t IslandSharedMemory::Take() {
  // The term stands in the upper half.
  const uint64_t before = Word(0).fetch_add(uint64_t{1} << 32, std::memory_order_acq_rel);
  return UnpackHead(before).term + uint64_t{1};
}

bool IslandSharedMemory::Holds(uint64_t term) {
  return !spoilt_ && UnpackHead(Word(0).load(std::memory_order_acquire)).term == term;
}

// --- Contents ------------------------------------------------------------------------------------

std::optional<std::string> IslandSharedMemory::Copy(uint64_t head) const {
  const Head named = UnpackHead(head);
  if (named.process >= process_count_) return "";
  const size_t first = FirstWordOf(named.process, named.half);
  const size_t bytes = Word(first).load(std::memory_order_acquire);
  std::string copy;
  if (bytes <= (place_words_ - 1) * 8) {
    copy.resize((bytes + 7) / 8 * 8);
    for (size_t i = 0; i < copy.size(); i += 8) {
      const uint64_t word = Word(first + 1 + i / 8).load(std::memory_order_acquire);
      std::memcpy(copy.data() + i, &word, sizeof(word));
    }
    copy.resize(bytes);
  }
  // A new term alone does not touch what was written.
  const Head now = UnpackHead(Word(0).load(std::memory_order_acquire));
  if (now.writes != named.writes) return std::nullopt;
  return copy;
}

IslandSharedMemory::Content IslandSharedMemory::ReadContent(uint64_t* head) {
  while (true) {
    *head = Word(0).load(std::memory_order_acquire);
    if (UnpackHead(*head).process >= 0) {
      const std::optional<std::string> bytes = Copy(*head);
      if (!bytes) continue;
      if (std::optional<Content> content = Decode(*bytes)) return *std::move(content);
      if (!spoilt_)
        LogError("agent: the memory of this island cannot be read: it says nothing more");
      spoilt_ = true;
    }
    Content content;
    content.state.members = IslandNumberSet::All(map_.rank_count());
    content.state.accepted_ranks = IslandNumberSet(map_.rank_count());
    return content;
  }
}

std::optional<IslandSharedMemory::Content> IslandSharedMemory::Decode(
    const std::string& bytes) const {
  WireReader reader(bytes);
  Content content;
  IslandState& state = content.state;
  const auto members = DecodeMembers(reader.Text(bytes.size()), map_.rank_count());
  state.promised = reader.U64();
  state.accepted = reader.U64();
  const auto accepted = DecodeRanks(reader.Text(bytes.size()), map_.rank_count());
  const auto deaths = DecodeDeaths(reader.Text(bytes.size()));
  if (!members.ok() || !accepted.ok() || !deaths.ok()) return std::nullopt;
  const size_t ended = reader.U32();
  if (ended > static_cast<size_t>(map_.island_count())) return std::nullopt;
  state.elsewhere.resize(ended);
  for (EndedIsland& island : state.elsewhere) {
    island.island = reader.I32();
    island.left = reader.U64();
    island.promised = reader.U64();
    island.accepted = reader.U8() != 0;
    if (island.island < 0 || island.island >= map_.island_count()) return std::nullopt;
  }
  state.epoch = members->epoch;
  state.members = members->ranks;
  state.accepted_ranks = *accepted;
  state.deaths = *deaths;
  while (reader.ok() && reader.left() > 0) {
    auto verdict = DecodeVerdictOf(reader.Text(bytes.size()), map_.island_count());
    if (!verdict.ok()) return std::nullopt;
    content.verdicts.push_back(*std::move(verdict));
  }
  if (!reader.Finished()) return std::nullopt;
  return content;
}

bool IslandSharedMemory::WriteContent(uint64_t head, const Content& content) {
  const IslandState& state = content.state;
  WireWriter writer;
  writer.Text(EncodeMembers({state.epoch, state.members}));
  writer.U64(state.promised);
  writer.U64(state.accepted);
  writer.Text(
      EncodeRanks(state.accepted == 0 ? IslandNumberSet(map_.rank_count()) : state.accepted_ranks));
  writer.Text(EncodeDeaths(state.deaths));
  writer.U32(static_cast<uint32_t>(state.elsewhere.size()));
  for (const EndedIsland& ended : state.elsewhere) {
    writer.I32(ended.island);
    writer.U64(ended.left);
    writer.U64(ended.promised);
    writer.U8(ended.accepted ? 1 : 0);
  }
  for (const GroupVerdict& verdict : content.verdicts)
    writer.Text(EncodeVerdictOf(verdict));
  std::string bytes = writer.Take();
  const size_t length = bytes.size();
  WEFT_CHECK(length <= (place_words_ - 1) * 8);
  bytes.resize((length + 7) / 8 * 8);

  Head next = UnpackHead(head);
  // (H1)
  next.half = next.process == process_ ? 1 - next.half : 0;
  next.process = process_;
  ++next.writes;
  const size_t first = FirstWordOf(next.process, next.half);
  Word(first).store(length, std::memory_order_release);
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof(word));
    Word(first + 1 + i / 8).store(word, std::memory_order_release);
  }
  return Word(0).compare_exchange_strong(head, PackHead(next), std::memory_order_acq_rel,
                                         std::memory_order_acquire);
}

void IslandSharedMemory::SetPresence(int process, IslandPresence presence) {
  const auto place = static_cast<size_t>(process);
  const auto value = static_cast<uint64_t>(presence);
  Word(kFirstPresenceWord + place / kPresencesPerWord)
      .fetch_or(value << 2 * (place % kPresencesPerWord), std::memory_order_acq_rel);
}

IslandPresence IslandSharedMemory::PresenceOf(int process) {
  const auto place = static_cast<size_t>(process);
  const uint64_t bits =
      Word(kFirstPresenceWord + place / kPresencesPerWord).load(std::memory_order_acquire);
  const uint64_t value = bits >> 2 * (place % kPresencesPerWord) & 3;
  return value >= 2 ? IslandPresence::kGone : static_cast<IslandPresence>(value);
}

// --- Reads and writes ----------------------------------------------------------------------------

IslandState IslandSharedMemory::Read() {
  uint64_t head = 0;
  return ReadContent(&head).state;
}

bool IslandSharedMemory::Write(uint64_t term, const IslandState& state) {
  uint64_t head = 0;
  Content content = ReadContent(&head);
  if (spoilt_ || UnpackHead(head).term != term) return false;
  if (state.epoch != content.state.epoch) content.verdicts.clear();
  content.state = state;
  return WriteContent(head, content);
}

std::vector<GroupVerdict> IslandSharedMemory::ReadVerdicts() {
  uint64_t head = 0;
  return ReadContent(&head).verdicts;
}

bool IslandSharedMemory::WriteVerdict(uint64_t term, const GroupVerdict& verdict) {
  uint64_t head = 0;
  Content content = ReadContent(&head);
  if (spoilt_ || UnpackHead(head).term != term) return false;
  std::vector<GroupVerdict>& verdicts = content.verdicts;
  std::erase_if(verdicts, [&](const GroupVerdict& other) {
    return other.record.group_id == verdict.record.group_id;
  });
  if (verdicts.size() == IslandRelay::kGroupsMax) verdicts.erase(verdicts.begin());
  verdicts.push_back(verdict);
  return WriteContent(head, content);
}

}  // namespace weft
