#include "comm/hierarchy/link_note.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"
#include "fmt/format.h"

namespace weft {
namespace {

double MegabytesOf(uint64_t bytes) {
  return static_cast<double>(bytes) * 1e-6;
}

// What ping sends beside its data: headers of ICMP and of IP.
uint32_t PingBytes(const std::string& address, uint32_t packet_bytes) {
  const uint32_t headers = address.find(':') == std::string::npos ? 28 : 48;
  return packet_bytes > headers ? packet_bytes - headers : 0;
}

}  // namespace

std::string LinkNote::Sentence(std::string_view here, std::string_view there) const {
  const std::string way = fmt::format("{} at {} to {} at {}", here, from, there, to);
  if (stalled) {
    return fmt::format(
        "LINK_STALLED: nothing passes from {}: {} bytes are not acknowledged after {:.1f} s, "
        "though "
        "sent again {} times; if small packets pass, the MTU on the way is smaller than {} bytes: "
        "ping -M do -s {} {}, and set it alike on both machines and in between",
        way, unacknowledged_bytes, static_cast<double>(quiet_ns) * 1e-9, sent_again, packet_bytes,
        PingBytes(to, packet_bytes), to);
  }
  return fmt::format(
      "LINK_SLOW: the link from {} carries {:.3g} MB/s, and {:.3g} MB/s the other way; give it "
      "more "
      "time (timeout_ns, WEFT_TIMEOUT_S), or a faster network (WEFT_IFNAME)",
      way, MegabytesOf(sent_rate), MegabytesOf(received_rate));
}

std::string EncodeLinkNotes(const std::vector<LinkNote>& notes) {
  WEFT_CHECK(notes.size() <= LinkNote::kNotesMax);
  WireWriter writer;
  writer.U8(static_cast<uint8_t>(notes.size()));
  for (const LinkNote& note : notes) {
    writer.I32(note.rank);
    writer.I32(note.peer);
    writer.U8(note.stalled ? 1 : 0);
    writer.Text(std::string_view(note.from).substr(0, LinkNote::kAddressMax));
    writer.Text(std::string_view(note.to).substr(0, LinkNote::kAddressMax));
    writer.U64(note.unacknowledged_bytes);
    writer.I64(note.quiet_ns);
    writer.U32(note.sent_again);
    writer.U32(note.packet_bytes);
    writer.U64(note.sent_rate);
    writer.U64(note.received_rate);
  }
  return writer.Take();
}

absl::StatusOr<std::vector<LinkNote>> DecodeLinkNotes(std::string_view bytes) {
  WireReader reader(bytes);
  const size_t count = reader.U8();
  if (count > LinkNote::kNotesMax) return MakeError(WEFT_CORRUPT, "too many notes of links");
  std::vector<LinkNote> notes(count);
  for (LinkNote& note : notes) {
    note.rank = reader.I32();
    note.peer = reader.I32();
    note.stalled = reader.U8() != 0;
    note.from = std::string(reader.Text(LinkNote::kAddressMax));
    note.to = std::string(reader.Text(LinkNote::kAddressMax));
    note.unacknowledged_bytes = reader.U64();
    note.quiet_ns = reader.I64();
    note.sent_again = reader.U32();
    note.packet_bytes = reader.U32();
    note.sent_rate = reader.U64();
    note.received_rate = reader.U64();
  }
  if (!reader.Finished()) return MakeError(WEFT_CORRUPT, "notes of links that end too soon");
  return notes;
}

}  // namespace weft
