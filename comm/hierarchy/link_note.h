// What a rank shows of a link to a rank of another node that carries nothing of what it is given, or that carries data now; and what is said of
// it, of which no rank is to blame.
//
//   const std::string bytes = EncodeLinkNotes(notes);              // for the processes of the node
//   absl::StatusOr<std::vector<LinkNote>> notes = DecodeLinkNotes(bytes);
//   note.Sentence("rank 0 (host a)", "rank 1 (host b)");
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

struct LinkNote {
  // Of more links than these the first that are stalled, then the first others.
  static constexpr size_t kNotesMax = 8;
  static constexpr size_t kAddressMax = 48;
  static constexpr size_t kNotesBytesMax = 8 + kNotesMax * (2 * kAddressMax + 64);

  int32_t rank = -1;  // of the world, here
  int32_t peer = -1;  // and at the other end
  bool stalled = false;
  std::string from;  // addresses
  std::string to;
  // Stalled: so many bytes for so long, sent again so often.
  uint64_t unacknowledged_bytes = 0;
  int64_t quiet_ns = 0;
  uint32_t sent_again = 0;
  uint32_t packet_bytes = 0;  // as in StreamTraffic
  // Else: what has gone and come, a second.
  uint64_t sent_rate = 0;
  uint64_t received_rate = 0;

  // "LINK_STALLED: ..." or "LINK_SLOW: ...", what was found and what to do. `here` and `there` are the ranks, in words.
  std::string Sentence(std::string_view here, std::string_view there) const;

  bool operator==(const LinkNote&) const = default;
};

// At most kNotesMax; at most kNotesBytesMax.
std::string EncodeLinkNotes(const std::vector<LinkNote>& notes);
absl::StatusOr<std::vector<LinkNote>> DecodeLinkNotes(std::string_view bytes);

}  // namespace weft
