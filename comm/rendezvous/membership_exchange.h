// The agreement on who is in a group, as a state machine: it asks for store requests and takes their
// replies, and never waits. ExchangeMembership() drives it over a blocking store, the simulator over
// a StoreClient.
//
//   while (std::optional<StoreRequest> request = exchange.Next()) exchange.Take(store.Ask(*request));
//   exchange.result()
//
// Every rank claims its number (a counter: the second to claim it learns who was first) and writes
// its line. Rank 0 reads all lines, checks them, and publishes the verdict: either the list, in
// parts of kMembersPerPart, or the sentence that says what is wrong, so that all ranks end with the
// same one. The others read rank 0's line, so that they know whom they wait for, then the verdict. A
// rank that gets no verdict looks for itself who is missing.
//
// No wait is longer than kSliceNs, for the driver to look whether those in known() live; Lose() tells
// that one does not. Between slices rank 0 reads what else has come, so that it knows all who have, and whether one of them
// has given up: that one writes its reason, which becomes the verdict.
//
// A long wait is spoken of: TakeNotice() says now and then who has not come. In a large group only some ranks do, as they all
// have the same to say and each looks for all lines itself.
//
// Thread-safety: owned by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/notice_times.h"
#include "base/seams.h"
#include "base/wire.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/roll_call.h"

namespace weft {

constexpr uint16_t kMembershipVersion = 8;
constexpr int kWorldSizeMax = 65536;

class MembershipExchange {
 public:
  static constexpr int kMembersPerPart = 384;
  // How much longer than the deadline a rank waits for rank 0's verdict.
  static constexpr int64_t kVerdictGraceNs = 500'000'000;
  // How long the second to claim a rank waits to learn who was first.
  static constexpr int64_t kRivalNs = 1'000'000'000;
  // In a group of more ranks only those speak of a long wait whose number is a multiple of it.
  static constexpr int kSpeakersEvery = 64;
  static constexpr int64_t kSliceNs = 200'000'000;
  // Lines that rank 0 looks for between two slices.
  static constexpr size_t kScanMax = 64;

  // `seams` for time and for the group's random id.
  MembershipExchange(const Seams& seams, std::string_view group_name, int rank, int size,
                     const GroupMember& self, int64_t deadline_ns);

  // What a rank of a good exchange has written. The keys by which a later exchange of that name would be misled stand before
  // the one by which it would be refused.
  static std::vector<std::string> KeysWrittenBy(std::string_view group_name, int rank, int size);

  // What to ask the store now; nullopt: finished.
  std::optional<StoreRequest> Next();
  // The reply to the last request.
  void Take(const StoreReply& reply);

  // The others whose lines were read so far; only grows.
  const std::vector<GroupMember>& known() const { return known_; }

  // One of known() has ended, which `lost` says. Rank 0 tells the others; they look for its verdict a last
  // time: it may have ended because of somebody else.
  void Lose(absl::Status lost);
  // This rank does not go on, for the reason that is given, unless there is a verdict already. Rank 0 tells the others;
  // they tell rank 0.
  void GiveUp(absl::Status reason);

  // What is to be said of a long wait, if anything; once. `where`: Store::Where().
  //   group world: rank 0 has waited 10 s for ranks 2, 3 of 4, which have not come to the store at ...; check that they were started, ...
  std::optional<std::string> TakeNotice(std::string_view where);

  bool finished() const { return phase_ == Phase::kFinished; }

  // Once finished.
  const absl::StatusOr<Membership>& result() const { return result_; }

 private:
  enum class Phase {
    kClaim,    // counting claims to our rank
    kRival,    // we are not the first: reading who is
    kLine,     // writing our line
    kCollect,  // rank 0: waiting for the first line that has not come
    kScan,     // rank 0: looking for the others in between
    kPublish,  // rank 0: writing the verdict
    kLeader,   // others: reading rank 0's line
    kVerdict,  // others: reading the verdict
    kLast,     // others: rank 0 has ended, or this rank gives up; looking for its verdict
    kLeave,    // others: no verdict; writing why this rank gives up
    kLeft,     // rank 0: looking for one that has given up
    kLook,     // others: no verdict; reading who is there
    kRollCall,  // others: in the middle of kLeader or kVerdict, to say for whom this waits: reading who is there
    kFinished,
  };

  std::string Key(std::string_view what, int number) const;
  StoreRequest Wait(std::string_view what, int number, int64_t deadline_ns) const;
  std::string EncodeLine() const;
  absl::Status CheckVersion(WireReader& reader, int rank) const;
  absl::StatusOr<GroupMember> DecodeLine(std::string_view line, int rank) const;
  StoreRequest WaitASlice(std::string_view what, int number, int64_t deadline_ns) const;
  void TakeLine(const StoreReply& reply, int rank);
  void TakeCollected(const StoreReply& reply);
  void BeginScan();
  void TakeScanned(const StoreReply& reply);
  void TakeLeader(const StoreReply& reply);
  void TakeVerdict(const StoreReply& reply);
  void TakeLook(const StoreReply& reply);
  void Conclude();
  void PrepareParts();
  void PrepareFailure(absl::Status failure);
  absl::StatusOr<int> DecodePart(std::string_view part);
  std::string EncodeFailure(const absl::Status& failure) const;
  absl::Status DecodeFailure(WireReader& reader, int writer) const;
  void TakeLeft(const StoreReply& reply);
  absl::Status Rival(const StoreReply& reply) const;
  absl::Status Missing(const std::vector<int>& missing, bool more) const;
  void NoteLongWait();
  void TakeRollCall(const StoreReply& reply);
  void Finish(absl::StatusOr<Membership> result);

  const Seams seams_;
  const std::string group_;
  const int rank_;
  const int size_;
  const GroupMember self_;
  const int64_t start_ns_;
  const int64_t deadline_ns_;
  const int64_t verdict_deadline_ns_;
  Phase phase_ = Phase::kClaim;
  int next_ = 0;             // part
  std::vector<int> unread_;  // rank 0: whose lines have not come, in order
  std::vector<int> scan_;    // of these, whom to look for now, the last one first
  int scanned_ = 0;          // the last one that was looked for
  std::vector<GroupMember> known_;
  absl::Status lost_;                 // others: what is to say if there is no verdict
  bool leaves_ = false;               // others: this rank gives up
  RollCall looked_;                   // others: of kLook
  RollCall roll_call_;                // others: of the last kRollCall
  Phase called_in_ = Phase::kLeader;  // and where it goes on
  NoticeTimes notices_;
  int64_t waited_s_ = 0;  // as the notice will say that is not ready yet

  struct Notice {
    int64_t waited_s = 0;
    std::vector<int> missing;
    bool more = false;
  };

  std::optional<Notice> notice_;
  absl::Status failure_;  // rank 0's verdict if it is bad
  Membership members_;
  std::vector<std::string> parts_;  // of the verdict, as written
  absl::StatusOr<Membership> result_;
};

}  // namespace weft
