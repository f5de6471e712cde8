// The sends of one rank: per destination a channel, and what has not been received yet.
//
// A send goes through these states, in its destination's lists:
//   unsent     the ring has no room for its record (or for an earlier one's)
//   announced  larger than WEFT_EAGER_BYTES: the receiver knows of it and has not matched it
//   streaming  with a CTS: through the staging halves, in the order in which they came
// An eager send ends when its record is written, any other when the receiver has all of it: what it
// can copy or read by itself goes from announced to its end.
//
// Thread-safety: none; under the rank's message lock. Never waits. Channels and staging are blocks of
// this process's heap, made on first use and handed over by TakeBlocks().
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "comm/node/channel.h"
#include "comm/node/message_operation.h"
#include "comm/node/node_state.h"

namespace weft {

class Outbox {
 public:
  // `state` outlives the outbox; only its constants are used.
  explicit Outbox(const NodeState& state) : state_(state), routes_(state.peers.size()) {
    blocks_.reserve(2 * state.peers.size());  // a channel and staging for each
  }

  // Makes what the first send to a destination needs. OUT_OF_MEMORY: nothing has happened.
  absl::Status Prepare(int destination);

  // Takes a send up that was prepared; ends it or puts it in a list. Operations that have ended go to `ended`.
  void Add(MessageOperation& send, MessageList* ended);

  // Goes on with all destinations as far as one pass can; *moved if something went on.
  absl::Status Step(MessageList* ended, bool* moved);

  bool idle() const { return pending_ == 0; }

  // Every send that has not ended.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const Route& route : routes_) {
      for (const MessageList* list : {&route.unsent, &route.announced, &route.streaming}) {
        for (MessageOperation* at = list->front(); at != nullptr; at = at->next())
          visit(*at);
      }
    }
  }

  // All sends into `ended`, whatever their state.
  void TakeAll(MessageList* ended);

  // The heap blocks that peers may be reading.
  std::vector<void*> TakeBlocks() { return std::move(blocks_); }

 private:
  struct Route {
    ChannelWriter writer;
    MessageList unsent;
    MessageList announced;
    MessageList streaming;
    uint32_t next_rts = 0;

    bool idle() const { return unsent.empty() && announced.empty() && streaming.empty(); }
  };

  absl::Status MakeStage(int destination);
  bool Write(int destination, MessageOperation& send, MessageList* ended);
  absl::Status ReadReplies(int destination, MessageList* ended, bool* moved);
  bool Stream(int destination, MessageList* ended);
  absl::Status Corrupt(int destination, std::string_view what) const;
  void End(MessageOperation& send, MessageList* ended);

  const NodeState& state_;
  std::vector<Route> routes_;  // by destination
  std::vector<void*> blocks_;
  size_t pending_ = 0;  // sends in the lists of routes_
};

}  // namespace weft
