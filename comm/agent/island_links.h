// The connections of an island: makes those of the topology, accepts the others', makes again what breaks, and says which are
// there.
//
//   IslandLinks links(seams, settings, map, process);
//   WEFT_RETURN_IF_ERROR(links.Listen());
//   links.Begin(membership);
//   ...
//   links.Step(ended_ranks);
//   while (auto incoming = links.Next()) ...          // {island, frame}
//   links.Broadcast(IslandFrame::kDeaths, body);
//
// Of the two islands of a connection one makes it; the other one does too if it is not there for a while, as after a change of
// speakers. Who is dialled is the first process of the island that may speak for it, then the next: only speakers
// listen. Attempts are a pause apart that doubles up to a bound. Of two connections with one island one is left: that of the
// newer speaker, else that of the island whose part it is to make it.
//
// A connection to an island of another epoch is good for one thing: the side that is ahead says what the membership is.
//
// An island whose processes are all stopped says nothing, but its machine takes connections and acknowledges what is sent. It is stalled, not
// lost: its connection stays, or one that is made waits the longer for its greeting the longer nothing was heard.
//
// Thread-safety: owned by one thread; nothing waits. Owns its sockets.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "comm/agent/island_link.h"
#include "comm/agent/island_map.h"

namespace weft {

struct IslandTimes {
  int64_t attempt_ns;
  int64_t beat_ns;
  int64_t silence_ns;
  int64_t stalled_ns;  // nothing was heard for so long of one whose machine answers
  int64_t longest_pause_ns;
  int64_t lost_ns;        // hearing nothing of a neighbour or its machine for so long, it is lost
  int64_t second_ns;      // after that, the side that accepts dials too
  int64_t unanswered_ns;  // see IslandLinkSettings
};

class IslandLinks {
 public:
  static constexpr int kStrangersMax = 16;
  // Connections that the topology has not.
  static constexpr int kExtrasMax = 16;

  // `map` outlives it.
  IslandLinks(const Seams& seams, std::string secret, const IslandTimes& times,
              const IslandMap& map, const IslandWho& self);

  IslandLinks(const IslandLinks&) = delete;
  IslandLinks& operator=(const IslandLinks&) = delete;
  ~IslandLinks();

  absl::Status Listen(Endpoint endpoint);
  // Before it is destroyed by the process that it was made in: another process of the island will listen.
  void StopListening();

  // Of the speaker, known once it listens.
  void SetTerm(uint64_t term) { self_.term = term; }

  // A new epoch: all connections end, after what was sent, and new ones are made. `members` outlives the epoch.
  void Begin(const IslandMembership& membership, const std::string& members);

  // Another island to be connected with, beside the neighbours; -1: none.
  void Seek(int island);

  int sought() const { return sought_; }

  void AppendPollItems(std::vector<PollItem>* items) const;
  int64_t NextWakeNs() const;
  // `ended`: ranks not to be dialled.
  void Step(const IslandNumberSet& ended);

  struct Incoming {
    int island;
    Frame frame;
  };

  std::optional<Incoming> Next();

  // It has sent what it should not: its connections end.
  void Reject(int island, const absl::Status& why);

  // Islands that may have missed something, since the last call: a connection has become ready, or one of several has ended.
  std::vector<int> TakeNew();
  // Who was at the other end of connections that have ended.
  std::vector<IslandWho> TakeEnded();

  bool Has(int island) const { return ReadyLink(island) != nullptr; }

  // Of a neighbour: there has been a connection in this epoch.
  bool HasMet(int neighbour) const { return wanted_.at(neighbour).met; }

  void Send(int island, IslandFrame type, std::string_view body);
  void Broadcast(IslandFrame type, std::string_view body, int except = -1);
  // Sends what can be sent without waiting.
  void Flush();

  // Neighbours of which, and of whose machines, nothing was heard for lost_ns; those whose machine alone is heard; and connections beside
  // the topology's.
  std::vector<int32_t> Lost() const;
  std::vector<int32_t> Stalled() const;
  std::vector<int32_t> Extra() const;

  // Ready and others.
  size_t count() const { return links_.size(); }

  size_t buffered_bytes() const;

  uint64_t frames_sent() const { return frames_sent_; }

 private:
  struct Wanted {
    size_t candidate = 0;
    int64_t pause_ns = 0;
    int64_t next_ns = 0;
    bool met = false;         // a connection has been there
    int64_t there_ns = 0;     // when it last was
    int64_t heard_ns = 0;     // when something last came on one, or it was first wanted
    int64_t answered_ns = 0;  // when its machine last answered, though no process did
    int64_t taken_ns = 0;  // when it last had taken a connection on which no process says who it is
  };

  struct Held {
    std::unique_ptr<IslandLink> link;
    int island = -1;       // dialled, or once ready
    bool greeted = false;  // the other side has said who it is
    bool leaving = false;  // sends what it has, and ends when the other side has taken it
    int64_t leave_ns = 0;  // or then
  };

  IslandLinkSettings Settings() const;
  IslandLink* ReadyLink(int island) const;
  bool IsStalled(int island, const Wanted& wanted) const;
  int64_t LostNs(const Wanted& wanted) const;
  void NoteAnswers(int island, Wanted* wanted) const;
  bool OfThisEpoch(const Held& held) const;
  bool Current(const Held& held) const;
  void Accept();
  void Welcome(Held* held);
  void Leave(Held* held);
  void KeepOne(int island);
  void DialWanted(const IslandNumberSet& ended);
  void Dial(int island, Wanted* wanted, const IslandNumberSet& ended);
  bool Dialling(int island) const;
  void Sweep();
  int64_t AfterPause(Wanted* wanted);
  bool IsNeighbour(int island) const;

  const Seams seams_;
  const std::string secret_;
  const IslandTimes times_;
  const IslandMap& map_;
  IslandWho self_;
  const IslandMembership* membership_ = nullptr;
  std::string members_;  // the membership, encoded
  std::vector<int> neighbours_;
  int listener_ = -1;
  int sought_ = -1;
  std::map<int, Wanted> wanted_;
  std::vector<Held> links_;
  std::vector<int> new_;
  std::vector<IslandWho> ended_;
  uint64_t frames_sent_ = 0;
  int64_t accept_again_ns_ = 0;
};

}  // namespace weft
