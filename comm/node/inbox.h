// The receives of one rank: what is posted, what came unasked, and the messages being copied.
//
// A receive stands in `posted_` until it is matched with a message; one that was eager ends then, a
// larger one moves to its source's lists:
//   matched    its answer waits for room, or, if the sender's buffer is mapped here or can be read,
//              for its copy
//   streaming  answered by a CTS: comes through the sender's staging halves, in the order of the CTS
// A source's ring is read only while a receive is posted that it could satisfy; records that no posted
// receive wants are put aside then, up to kUnexpectedBytesMax, so that those behind them can be seen.
//
// A probe is posted like a receive. It ends when there is a message that it asks for and that no receive posted before it
// takes, and leaves the message where it is: in the ring or aside.
//
// Thread-safety: none; under the rank's message lock. Never waits.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/allocator.h"
#include "comm/node/channel.h"
#include "comm/node/message_operation.h"
#include "comm/node/node_state.h"

namespace weft {

// Beyond that a sender waits.
constexpr size_t kUnexpectedBytesMax = 64 << 20;

class Inbox {
 public:
  // Both outlive the inbox; only the constants of `state` are used.
  Inbox(const NodeState& state, const std::string& group_name)
      : state_(state), group_(group_name), sources_(state.peers.size()) {}

  // Takes the receive up; ends it or puts it in a list. Operations that have ended go to `ended`.
  // Fails with MISMATCH if a message has another count or type than its receive.
  absl::Status Add(MessageOperation& recv, MessageList* ended);

  // A probe that has not ended is its caller's again.
  void Withdraw(MessageOperation& probe);

  // Goes on with all sources as far as one pass can; *moved if something went on.
  absl::Status Step(MessageList* ended, bool* moved);

  bool idle() const { return pending_ == 0; }

  // Every receive that has not ended.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    const auto each = [&](const MessageList& list) {
      for (MessageOperation* at = list.front(); at != nullptr; at = at->next())
        visit(*at);
    };
    each(posted_);
    for (const Source& source : sources_) {
      each(source.matched);
      each(source.streaming);
    }
  }

  // All receives into `ended`, whatever their state.
  void TakeAll(MessageList* ended);

 private:
  // A message that nobody had asked for.
  struct Unexpected {
    MessageHeader header;
    PrivateMemory payload;  // of an eager one
  };

  struct Source {
    ChannelReader reader;
    std::list<Unexpected> unexpected;
    MessageList matched;
    MessageList streaming;
    uint32_t wanted = 0;      // posted receives that name this source
    bool unreadable = false;  // once a buffer of its could not be read, and that was logged
  };

  Source& At(int source) { return sources_[static_cast<size_t>(source)]; }

  bool Wanted(int source) { return At(source).wanted + wanted_from_any_ > 0; }

  void Post(MessageOperation& recv);
  void Unpost(MessageOperation& recv);
  absl::Status Open(int source);
  MessageOperation* FindPosted(int source, const MessageHeader& header, MessageList* ended);
  void EndProbe(MessageOperation& probe, int source, const MessageHeader& header,
                MessageList* ended);
  absl::Status MatchUnexpected(MessageOperation& recv, MessageList* ended);
  absl::Status Scan(int source, MessageList* ended, bool* moved);
  // False if there is no room for it now.
  absl::StatusOr<bool> PutAside(int source, const MessageHeader& header, const char* payload);
  absl::Status Match(MessageOperation& recv, int source, const MessageHeader& header,
                     const char* payload, MessageList* ended);
  absl::Status Answer(int source, MessageList* ended, bool* moved);
  bool CopySlice(MessageOperation& recv);
  bool ReadSlice(int source, MessageOperation& recv);
  absl::Status Drain(int source, MessageList* ended, bool* moved);
  absl::Status Corrupt(int source, std::string_view what) const;
  void End(MessageOperation& recv, MessageList* ended);

  const NodeState& state_;
  const std::string& group_;
  std::vector<Source> sources_;
  MessageList posted_;            // in the order of issue
  uint32_t wanted_from_any_ = 0;  // posted receives that name no source
  int next_any_ = 0;              // source to look at first, so that none is left out for long
  size_t unexpected_bytes_ = 0;
  size_t pending_ = 0;  // receives in all lists
};

}  // namespace weft
