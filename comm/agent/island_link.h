// One connection between the speakers of two islands, as a state machine: the store's handshake and sealed frames
// (comm/rendezvous/store_protocol.h), under a key of their own.
//
//   std::unique_ptr<IslandLink> link = IslandLink::Dial(seams, settings, endpoint);
//   ...
//   link->Advance(item.readable, item.writable);
//   while (std::optional<Frame> frame = link->Next()) ...
//   link->Send(IslandFrame::kDeaths, body);
//
// Until the other side has proven that it knows the secret it is read into a buffer of fixed size. Both sides then say who
// they are; the link is ready when that was read. Frames carry the epoch of the side that dialled: a link of another epoch
// than one's own is good for saying so, and for nothing else.
//
// It fails when the other side closes it, breaks it, says nothing for `silence_ns`, does not take what is sent, or
// sends what it should not. None of that says that anybody has died.
//
// A process that is stopped says nothing, but its machine's system goes on to acknowledge what comes for it. So the link of one that
// falls silent lives as long as that answers: nobody who is only stopped is given up. A machine that is frozen, or cut off,
// does not answer. Forked children of this process have no part in the socket, so that its end says that this process has ended.
//
// Thread-safety: owned by one thread; nothing waits. Owns its socket.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "base/seams.h"
#include "comm/agent/island_protocol.h"
#include "comm/rendezvous/link_handshake.h"
#include "comm/rendezvous/store_protocol.h"

namespace weft {

struct IslandLinkSettings {
  std::string secret;
  IslandWho self;
  int64_t attempt_ns = 0;  // for everything until the link is ready
  int64_t greet_ns = 0;    // of a dialled one for the rest, if longer, once a machine has taken it
  int64_t beat_ns = 0;     // something is sent at least that often to one that is heard
  int64_t silence_ns =
      0;  // hearing nothing for so long ends the link, if its machine is silent too
  int64_t unanswered_ns =
      0;  // and the other machine's kernel not answering for so long ends its socket
};

class IslandLink {
 public:
  // What may stand unsent before the other side counts as one that does not read.
  static constexpr size_t kUnsentBytesMax = 262'144;

  // Connects; if that fails at once the link has failed().
  static std::unique_ptr<IslandLink> Dial(const Seams& seams, IslandLinkSettings settings,
                                          const Endpoint& endpoint);
  // Takes a connection that was accepted.
  static std::unique_ptr<IslandLink> Accept(const Seams& seams, IslandLinkSettings settings,
                                            int handle);

  IslandLink(const IslandLink&) = delete;
  IslandLink& operator=(const IslandLink&) = delete;
  ~IslandLink();

  PollItem Item() const;
  int64_t NextWakeNs() const;
  // Reads, writes and looks at deadlines. Items were polled in this step.
  void Advance(bool readable, bool writable);

  // Appends a frame; the next Advance() sends it, or Flush().
  void Send(IslandFrame type, std::string_view body);
  void Flush();
  // Nothing more is sent. What the other side had sent before it came to know is still to be taken; then it ends the link.
  void FinishSending();
  // The next frame that has come, once ready. Call it until there is none, after each Advance().
  std::optional<Frame> Next();

  bool ready() const { return state_ == State::kReady; }

  bool failed() const { return state_ == State::kFailed; }

  const absl::Status& failure() const { return failure_; }

  bool dialed() const { return dialed_; }

  bool flushed() const { return out_.empty(); }

  // The other side, once ready.
  const IslandWho& peer() const { return peer_; }

  // When something last came.
  int64_t heard_ns() const { return heard_ns_; }

  // When the other machine has answered last, though its process may not; 0: not known, as before it has taken the connection.
  int64_t answered_ns() const;

  // Whether that was lately, at most `least_ns` ago or, as its system is asked more seldom the longer its process says nothing, half of the time
  // since that was heard, up to some seconds.
  bool MachineAnswers(int64_t heard_ns, int64_t least_ns) const;

  // Of its frames: the dialling side's.
  uint32_t epoch() const { return epoch_; }

  size_t buffered_bytes() const { return in_.capacity() + out_.capacity(); }

  // The other side is not who it should be, or has sent nonsense.
  void Fail(absl::Status why);

 private:
  enum class State { kConnecting, kHandshake, kWho, kReady, kFailed };

  IslandLink(const Seams& seams, IslandLinkSettings settings, bool dialed);

  void Hold(int handle);
  void FinishConnect();
  void ShakeHands();
  void ReadWho();
  void SayWho();
  void Receive();
  std::optional<Frame> Open();
  int64_t NextBeatNs() const;
  int64_t LookForMachineNs() const;

  const Seams seams_;
  const IslandLinkSettings settings_;
  const bool dialed_;
  State state_;
  int handle_ = -1;
  uint32_t epoch_;
  int64_t deadline_ns_;  // of the state, while not ready
  int64_t heard_ns_;
  int64_t said_ns_;
  int64_t look_again_ns_ = 0;  // for a machine that has answered though its process is silent
  std::optional<LinkHandshake> handshake_;  // until it is done
  std::string in_;
  std::string out_;
  std::optional<FrameSealer> sealer_;
  std::optional<FrameOpener> opener_;
  IslandWho peer_;
  bool finished_ = false;  // sending
  absl::Status ending_;    // the connection has ended, and not all that came before was taken
  absl::Status failure_;
};

}  // namespace weft
