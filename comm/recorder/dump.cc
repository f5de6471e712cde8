// The order of the checks is the order of the messages: magic, version, lengths, header, checksum. A file of another kind or
// version is called that and not damaged. Every count is bounded before memory is taken for it, because the checksum, which
// would notice a wrong one, can be computed only when the lengths are known.
#include "comm/recorder/dump.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/sha256.h"
#include "base/status.h"
#include "base/wire.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "WEFTREC1";
constexpr size_t kHashBytes = Sha256::kDigestBytes;
// Magic, version, header bytes.
constexpr size_t kPrefixBytes = 16;
constexpr size_t kEntryBytes = sizeof(RecorderWords);
static_assert(kEntryBytes == 64);

std::string CheckSum(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  const Sha256::Digest digest = hash.Finish();
  return std::string(digest.begin(), digest.end());
}

absl::Status Corrupt(const std::string& what) {
  return MakeError(WEFT_CORRUPT, what);
}

// The rings of a rank, in the order in which they stand in a file.
struct RingOfDump {
  std::vector<RecorderWords> DumpedRank::*entries;
  uint64_t entries_max;
  uint32_t since_version;
};

constexpr RingOfDump kRings[] = {{&DumpedRank::entries, RecorderRing::kEntryCount, 1},
                                 {&DumpedRank::messages, MessageRing::kEntryCount, 2},
                                 {&DumpedRank::events, LifecycleLog::kEntryCount, 2}};
constexpr uint32_t kGroupIdSince = 2;
// How many entries each ring of a rank has.
using RingCounts = std::array<size_t, std::size(kRings)>;

// Everything between the prefix and the entries.
std::string EncodeHeader(const RecorderDump& dump) {
  WireWriter writer;
  writer.Text(std::string_view(dump.group).substr(0, kDumpTextBytesMax));
  writer.Text(std::string_view(dump.host).substr(0, kDumpTextBytesMax));
  writer.Text(std::string_view(dump.reason).substr(0, kDumpTextBytesMax));
  writer.I32(dump.result);
  writer.U32(dump.writer_rank);
  writer.I32(dump.writer_pid);
  writer.U32(dump.epoch);
  writer.U64(dump.ticks_per_second);
  writer.U64(dump.ticks_now);
  writer.I64(dump.wall_time_ns);
  writer.U64(dump.group_id);
  writer.U32(static_cast<uint32_t>(dump.ranks.size()));
  for (const DumpedRank& rank : dump.ranks) {
    writer.I32(rank.pid);
    writer.U64(rank.start_time);
    writer.U32(rank.state);
    for (const RingOfDump& ring : kRings)
      writer.U32(static_cast<uint32_t>((rank.*ring.entries).size()));
  }
  return writer.Take();
}

// As above; `counts` by rank. False if the header is not one.
bool DecodeHeader(std::string_view bytes, uint32_t version, RecorderDump* dump,
                  std::vector<RingCounts>* counts) {
  WireReader reader(bytes);
  dump->group = reader.Text(kDumpTextBytesMax);
  dump->host = reader.Text(kDumpTextBytesMax);
  dump->reason = reader.Text(kDumpTextBytesMax);
  dump->result = reader.I32();
  dump->writer_rank = reader.U32();
  dump->writer_pid = reader.I32();
  dump->epoch = reader.U32();
  dump->ticks_per_second = reader.U64();
  dump->ticks_now = reader.U64();
  dump->wall_time_ns = reader.I64();
  if (version >= kGroupIdSince) dump->group_id = reader.U64();
  const uint32_t size = reader.U32();
  if (!reader.ok() || size > kDumpRanksMax || dump->writer_rank >= size) return false;
  for (uint32_t rank = 0; rank < size && reader.ok(); ++rank) {
    DumpedRank& found = dump->ranks.emplace_back();
    found.pid = reader.I32();
    found.start_time = reader.U64();
    found.state = reader.U32();
    RingCounts& of_rank = counts->emplace_back();
    for (size_t ring = 0; ring < of_rank.size(); ++ring) {
      if (version < kRings[ring].since_version) continue;
      of_rank[ring] = reader.U32();
      if (of_rank[ring] > kRings[ring].entries_max) return false;
    }
  }
  return reader.Finished();
}

// How a file begins, after the magic.
struct DumpPrefix {
  uint32_t version;
  size_t header_bytes;
};

// Magic and version are looked at before the checksum, so that a file of another kind or version is
// called what it is.
absl::StatusOr<DumpPrefix> ReadPrefix(std::string_view bytes) {
  if (bytes.substr(0, kMagic.size()) != kMagic.substr(0, bytes.size()) || bytes.empty()) {
    return Corrupt("it is not a recorder dump: it does not begin with WEFTREC1");
  }
  if (bytes.size() < kPrefixBytes + kHashBytes) {
    return Corrupt(
        fmt::format("it is cut short: {} bytes are less than any dump has", bytes.size()));
  }
  WireReader reader(bytes.substr(kMagic.size()));
  const uint32_t version = reader.U32();
  if (version < kDumpVersionMin || version > kDumpVersion) {
    return Corrupt(fmt::format("it has format version {}, this program reads versions {} to {}",
                               version, kDumpVersionMin, kDumpVersion));
  }
  const size_t header_bytes = reader.U32();
  if (header_bytes > bytes.size() - kPrefixBytes - kHashBytes) {
    return Corrupt(
        fmt::format("it is cut short or damaged: a header of {} bytes does not fit in "
                    "{} bytes",
                    header_bytes, bytes.size()));
  }
  return DumpPrefix{version, header_bytes};
}

// What `decode` makes of the entries, in the order of their numbers.
template <typename Record, typename Decode>
std::vector<Record> DecodeRing(const std::vector<RecorderWords>& entries, Decode&& decode,
                               uint64_t Record::*number) {
  std::vector<Record> records;
  for (const RecorderWords& words : entries) {
    if (const auto record = decode(words)) records.push_back(*record);
  }
  std::sort(records.begin(), records.end(),
            [&](const Record& a, const Record& b) { return a.*number < b.*number; });
  return records;
}

}  // namespace

std::vector<RecordedCall> DumpedRank::Calls() const {
  return DecodeRing(entries, RecorderRing::Decode, &RecordedCall::sequence);
}

std::vector<RecordedMessage> DumpedRank::Messages() const {
  return DecodeRing(messages, MessageRing::Decode, &RecordedMessage::number);
}

std::vector<LifecycleEvent> DumpedRank::Events() const {
  return DecodeRing(events, LifecycleLog::Decode, &LifecycleEvent::number);
}

const char* DumpedRankStateName(uint32_t state) {
  constexpr const char* kNames[] = {"absent", "joined", "leaving", "left", "on another node"};
  return state < std::size(kNames) ? kNames[state] : "unknown";
}

absl::StatusOr<std::string> EncodeDump(const RecorderDump& dump) {
  const std::string header = EncodeHeader(dump);
  WireWriter writer;
  writer.Bytes(kMagic);
  writer.U32(kDumpVersion);
  writer.U32(static_cast<uint32_t>(header.size()));
  writer.Bytes(header);
  for (const DumpedRank& rank : dump.ranks) {
    for (const RingOfDump& ring : kRings) {
      for (const RecorderWords& words : rank.*ring.entries) {
        for (const uint64_t word : words)
          writer.U64(word);
      }
    }
  }
  writer.Bytes(CheckSum(writer.data()));
  return writer.Take();
}

absl::StatusOr<RecorderDump> DecodeDump(std::string_view bytes) {
  WEFT_ASSIGN_OR_RETURN(const DumpPrefix prefix, ReadPrefix(bytes));
  const size_t header_bytes = prefix.header_bytes;
  RecorderDump dump;
  std::vector<RingCounts> counts;
  if (!DecodeHeader(bytes.substr(kPrefixBytes, header_bytes), prefix.version, &dump, &counts)) {
    return Corrupt("it is damaged: its header makes no sense");
  }
  size_t expected_bytes = kPrefixBytes + header_bytes + kHashBytes;
  for (const RingCounts& of_rank : counts) {
    for (const size_t count : of_rank)
      expected_bytes += count * kEntryBytes;
  }
  if (bytes.size() != expected_bytes) {
    return Corrupt(fmt::format("it is cut short or damaged: it has {} bytes, expected {}",
                               bytes.size(), expected_bytes));
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kHashBytes);
  if (bytes.substr(body.size()) != CheckSum(body))
    return Corrupt("it is damaged: its checksum is wrong");
  WireReader reader(body.substr(kPrefixBytes + header_bytes));
  for (size_t rank = 0; rank < dump.ranks.size(); ++rank) {
    for (size_t ring = 0; ring < std::size(kRings); ++ring) {
      std::vector<RecorderWords>& entries = dump.ranks[rank].*kRings[ring].entries;
      entries.resize(counts[rank][ring]);
      for (RecorderWords& words : entries) {
        for (uint64_t& word : words)
          word = reader.U64();
      }
    }
  }
  return dump;
}

}  // namespace weft
