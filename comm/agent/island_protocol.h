// What islands say to each other: the bodies of the frames that IslandLink carries.
//
//   link.Send(IslandFrame::kDeaths, EncodeDeaths(deaths));
//   WEFT_ASSIGN_OR_RETURN(std::vector<RankDeath> deaths, DecodeDeaths(frame.body));
//
// Every length is bounded before it is believed, and a body with anything left over is refused: CORRUPT, which ends the
// connection. Nothing here says what the words mean; island_relay.h, island_reach.h and island_agreement.h do.
// Thread-safety: pure functions and values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/types.h"

#include "absl/status/statusor.h"
#include "base/proc.h"
#include "comm/agent/island_number_set.h"

namespace weft {

// Numbers that the store's frames (store_protocol.h) do not have.
enum class IslandFrame : uint16_t {
  kWho = 64,         // first, both ways: who speaks
  kBeat = 65,        // nothing else to say
  kMembership = 66,  // this is the membership now
  kAsk = 67,         // does this process live?
  kAnswer = 68,
  kDeaths = 69,   // ranks that have ended: facts
  kReach = 70,    // connections that islands have lost, or have beside the topology's
  kRecord = 71,   // why a group has ended, and who has no more to say about it
  kReady = 72,    // ranks that wait for a new membership
  kPrepare = 73,  // island_agreement.h
  kPromise = 74,
  kPropose = 75,
  kAccepted = 76,
  kRefuse = 77,
};

// The bounds of lists in one frame; longer ones take several.
constexpr size_t kIslandDeathsMax = 256;
constexpr size_t kIslandReportsMax = 128;
constexpr size_t kIslandPeersMax = 64;
constexpr size_t kFailureSentenceMax = 640;
constexpr size_t kFailureOperationMax = 32;
constexpr size_t kFailureWayMax = 32;

struct IslandWho {
  int32_t island = -1;
  int32_t pid = 0;
  uint64_t start_time = 0;
  uint32_t epoch = 0;
  uint64_t term = 0;  // counts the speakers of its island
};

struct IslandMembers {
  uint32_t epoch = 0;
  IslandNumberSet ranks;
};

// Is the process, of `target`, alive? Goes to `target`, or to `via` which hands it on.
struct IslandAsk {
  int32_t asker = -1;
  int32_t via = -1;
  int32_t target = -1;
  int32_t pid = 0;
  uint64_t start_time = 0;
  uint64_t number = 0;
};

struct IslandAnswer {
  int32_t asker = -1;
  int32_t via = -1;
  int32_t target = -1;
  uint64_t number = 0;
  bool ended = false;
  ExitInfo exit;
};

// A rank's process has ended, or has left the job; its island has seen it. `promised` and `accepted` say where the island stood in the agreement
// on the next membership when it saw that: see island_agreement.h.
struct RankDeath {
  int32_t world_rank = -1;
  ExitInfo exit;
  uint64_t promised = 0;
  bool accepted = false;
  bool left = false;  // it may live on
};

// In what an island's connections differ from the topology's.
struct ReachReport {
  int32_t island = -1;
  uint64_t number = 0;           // the higher one counts
  std::vector<int32_t> lost;     // neighbours without a connection
  std::vector<int32_t> extra;    // connections to others
  std::vector<int32_t> stalled;  // neighbours whose machine answers, but none of its processes
};

// Why a group has ended, as one rank has found it.
struct FailureRecord {
  static constexpr uint8_t kTracedInCircle = 253;
  static constexpr uint8_t kTracedToEnd = 254;
  static constexpr uint8_t kTracedToLink = 255;

  uint64_t group_id = 0;
  int32_t finder = -1;   // world ranks
  int32_t culprit = -1;  // -1: nobody
  weft_result_t result = WEFT_SUCCESS;
  ExitInfo exit;
  int32_t origin = -1;    // the finder's island
  uint64_t sequence = 0;  // of the origin's records
  int64_t call =
      -1;  // the sequence number, in its group, of the collective that it was found in; -1: none
  std::string operation;  // and its name
  // Of a deadline: how far it was followed who waits for whom. Over so many islands, each of which found that the culprit named before
  // waits itself; kTracedToEnd: the culprit's own island has found that it waits for nobody;
  // kTracedInCircle: the way comes back to one of its ranks, and the culprit is the first of them;
  // kTracedToLink: it is a link between two of the islands, and no rank is the culprit.
  uint8_t traced = 0;
  // What was followed: world ranks, each waiting for the next one, from the one that the finder has
  // named; at most kFailureWayMax.
  std::vector<int32_t> way;
  // Of the sentence, what the finder has said; the rest says the way. 0: there is none.
  uint16_t found_bytes = 0;
  std::string sentence;

  bool operator==(const FailureRecord& other) const;
};

// What an island knows of a group that has ended.
struct GroupVerdict {
  FailureRecord record;      // the best one that it has seen
  IslandNumberSet excluded;  // islands that are not waited for
  IslandNumberSet closed;    // islands that add nothing to `record`, given `excluded`
  bool settled = false;
};

struct AgreementPromise {
  uint64_t ballot = 0;
  int32_t island = -1;
  std::vector<int32_t> dead;  // ranks of this island
  uint64_t accepted = 0;      // the ballot of what it has accepted; 0: nothing
  IslandNumberSet accepted_ranks;
};

struct AgreementProposal {
  uint64_t ballot = 0;
  IslandNumberSet ranks;  // the next membership
  IslandNumberSet dead;   // those that were counted as proven dead
};

// Accepted: `promised` is 0. Refused: what the island has promised, or the ballot itself if it knows of other deaths.
struct AgreementReply {
  uint64_t ballot = 0;
  int32_t island = -1;
  uint64_t promised = 0;
};

std::string EncodeWho(const IslandWho& who);
absl::StatusOr<IslandWho> DecodeWho(std::string_view body);
std::string EncodeMembers(const IslandMembers& members);
absl::StatusOr<IslandMembers> DecodeMembers(std::string_view body, int rank_count);
std::string EncodeAsk(const IslandAsk& ask);
absl::StatusOr<IslandAsk> DecodeAsk(std::string_view body);
std::string EncodeAnswer(const IslandAnswer& answer);
absl::StatusOr<IslandAnswer> DecodeAnswer(std::string_view body);
// At most kIslandDeathsMax.
std::string EncodeDeaths(const std::vector<RankDeath>& deaths);
absl::StatusOr<std::vector<RankDeath>> DecodeDeaths(std::string_view body);
// At most kIslandReportsMax, each with at most kIslandPeersMax peers.
std::string EncodeReach(const std::vector<ReachReport>& reports);
absl::StatusOr<std::vector<ReachReport>> DecodeReach(std::string_view body);
std::string EncodeVerdictOf(const GroupVerdict& verdict);
absl::StatusOr<GroupVerdict> DecodeVerdictOf(std::string_view body, int island_count);
std::string EncodeRanks(const IslandNumberSet& ranks);
absl::StatusOr<IslandNumberSet> DecodeRanks(std::string_view body, int rank_count);
std::string EncodeBallot(uint64_t ballot);
absl::StatusOr<uint64_t> DecodeBallot(std::string_view body);
std::string EncodePromise(const AgreementPromise& promise);
absl::StatusOr<AgreementPromise> DecodePromise(std::string_view body, int rank_count);
std::string EncodeProposal(const AgreementProposal& proposal);
absl::StatusOr<AgreementProposal> DecodeProposal(std::string_view body, int rank_count);
std::string EncodeReply(const AgreementReply& reply);
absl::StatusOr<AgreementReply> DecodeReply(std::string_view body);

}  // namespace weft
