// The agreement of islands on who is in the next epoch: one set of ranks, or none.
//
//   agreement.Start(ready_ranks, deadline_ns);          // these local ranks wait for it
//   agreement.See(connected, in_doubt);                 // who can be reached now
//   agreement.OnPrepare(from, ballot); ...              // frames
//   agreement.Step(now_ns);
//   for (AgreementMessage& message : agreement.TakeMessages()) ...
//   if (agreement.decided()) ...                        // epoch + 1 has these ranks
//
// Paxos with islands as acceptors. The lowest connected island whose ranks all wait proposes, once all connected ones do:
// it asks for promises, proposes the living ranks of those that promised (or what the highest ballot of them had accepted), and
// it is decided when a quorum has accepted. A proposer that is lost is followed by the next one, with a higher ballot.
//
// A quorum: of the members that are not proven dead, more than half live on these islands; or half, and the store's island
// is among them. What proves a death, and why two quorums always meet though their proofs differ, is in
// docs/design/011-islands.md; it needs these rules:
//   (A1) an island promises and accepts in order of ballots, and writes that before it says so;
//   (A2) an island refuses a proposal that counts one of its own dead as living;
//   (A3) a death counts in a ballot only if its island had promised no higher one when it saw it, and had accepted nothing.
//
// Whoever has started it gets an end: decided, NO_QUORUM as soon as nobody is in doubt and too few are connected, or
// the deadline.
//
// Thread-safety: owned by one thread; nothing waits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/agent/island_deaths.h"
#include "comm/agent/island_map.h"
#include "comm/agent/island_memory.h"
#include "comm/agent/island_protocol.h"

namespace weft {

struct AgreementMessage {
  static constexpr int kAll = -1;
  int to = kAll;
  int except = -1;  // of kAll
  IslandFrame type = IslandFrame::kPrepare;
  std::string body;
};

enum class AgreementEnd { kNone, kNoQuorum, kTimeout };

class IslandAgreement {
 public:
  // All outlive it. `attempt_ns`: how long a proposer waits before it tries again.
  IslandAgreement(const IslandMap& map, const IslandMembership& membership,
                  const IslandDeaths& deaths, IslandMemory* memory, uint64_t term, int self,
                  int64_t attempt_ns);

  // Local ranks that wait. More may come, with a later deadline.
  void Start(const IslandNumberSet& ready_ranks, int64_t deadline_ns);

  // Who waits anywhere. True if that is news, to be told to all neighbours.
  bool MergeReady(const IslandNumberSet& ready_ranks);

  const IslandNumberSet& ready() const { return ready_; }

  // `in_doubt`: somebody is neither connected nor known to be unreachable or dead.
  void See(const IslandNumberSet& connected, bool in_doubt);

  // From a neighbour.
  void OnPrepare(int from, uint64_t ballot);
  void OnPropose(int from, const AgreementProposal& proposal);
  void OnPromise(const AgreementPromise& promise);
  void OnAccepted(const AgreementReply& reply);
  void OnRefuse(const AgreementReply& reply);

  void Step(int64_t now_ns);
  int64_t NextWakeNs() const;

  std::vector<AgreementMessage> TakeMessages();

  // The ranks of the next epoch, once they are known here.
  const std::optional<IslandNumberSet>& decided() const { return decided_; }

  // How the last Start() ended without an agreement; once.
  AgreementEnd TakeEnd();

  // Ranks that live, can be reached, and do not wait.
  IslandNumberSet Late() const;

  // Another process speaks for the island now: nothing more may be said.
  bool deposed() const { return deposed_; }

 private:
  enum class Phase { kIdle, kPromises, kAccepts };

  bool Write(const IslandState& state);
  void Say(int to, IslandFrame type, std::string body, int except = -1);
  // Towards the proposer of that ballot.
  bool SendTowards(uint64_t ballot, IslandFrame type, const std::string& body);
  bool HasQuorum(const IslandNumberSet& islands, const IslandNumberSet& dead) const;
  IslandNumberSet LivingIslands() const;
  bool Leads() const;
  void Begin(int64_t now_ns);
  void MayPropose();
  IslandNumberSet CountedDead() const;
  void PauseBefore(uint64_t promised);

  const IslandMap& map_;
  const IslandMembership& membership_;
  const IslandDeaths& deaths_;
  IslandMemory* const memory_;
  const uint64_t term_;
  const int self_;
  const int64_t attempt_ns_;

  int64_t now_ns_ = 0;
  bool started_ = false;
  int64_t deadline_ns_ = 0;
  IslandNumberSet ready_;
  IslandNumberSet connected_;
  bool in_doubt_ = true;
  AgreementEnd end_ = AgreementEnd::kNone;
  bool deposed_ = false;
  std::optional<IslandNumberSet> decided_;
  std::vector<AgreementMessage> messages_;

  // Where the frames of the promised ballot came from.
  uint64_t route_ballot_ = 0;
  int route_ = -1;

  // As proposer.
  Phase phase_ = Phase::kIdle;
  uint64_t ballot_ = 0;
  uint64_t highest_seen_ = 0;
  int64_t retry_ns_ = 0;  // when idle: not before; else: the end of this attempt
  IslandNumberSet promised_by_;
  IslandNumberSet told_dead_;  // what these say of their own ranks
  uint64_t highest_accepted_ = 0;
  IslandNumberSet highest_ranks_;
  AgreementProposal proposal_;
  IslandNumberSet accepted_by_;
};

}  // namespace weft
