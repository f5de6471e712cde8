// What the processes of growth_model.h do: the words that they share, and the steps of each one.
//
//   GrowthSteps steps(world);
//   GrowthState state = steps.Begin();
//   if (steps.Possible(state, 0)) problem = steps.Move(state, 0);     // "" if all is as it must be
//
// Processes are the ranks and, behind them, the newcomer. A meeting is called by the attempt that has ended with kAdmit; 0: none.
//
// Thread-safety: one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "growth_model.h"

namespace weft::test {

struct GrowthWord {
  enum class Kind : uint8_t {
    kNone,
    kNewGroup,
    kPeerLost,
    kMismatch,
    kTimeout,
    kAdmit,
    kGrown,
    kNotGrown
  };

  uint8_t attempt = 0;
  Kind kind = Kind::kNone;
  uint8_t rank = 0;

  bool operator==(const GrowthWord&) const = default;

  bool final() const { return kind == Kind::kNewGroup || kind == Kind::kGrown; }
};

struct GrowthProcess {
  // kAct: does what follows from what was seen. kMeet and kMeetAgain: has come, and waits for the others. kQueue: the newcomer waits
  // to be admitted.
  enum class At : uint8_t {
    kEnter,
    kVote,
    kCheck,
    kLook,
    kAct,
    kWaiting,
    kAdmit,
    kDecide,
    kAdopt,
    kCome,
    kMeet,
    kComeAgain,
    kMeetAgain,
    kQueue,
    kDone
  };

  // Shared.
  uint8_t vote_attempt = 0;
  uint8_t vote = 0;        // a wish, or whether it has the group that was to be made
  uint8_t come = 0;        // to this meeting
  uint8_t come_again = 0;  // to its second one
  uint8_t out = 0;         // for it the group of this meeting, to which it had come, has failed
  bool dead = false;
  bool left = false;  // the old group
  // Its own.
  At at = At::kEnter;
  bool stopped = false;
  bool in_group = false;  // which came after the old one
  bool making = false;    // in the attempt after kAdmit
  bool failed = false;    // to make the group
  uint8_t has = 0;        // the group of this meeting
  uint8_t meeting = 0;    // to which it goes
  uint8_t host = 0;       // by whom the newcomer was admitted
  uint8_t hosted = 0;     // the meeting to which it has admitted the newcomer
  uint8_t call = 0;
  uint8_t look_at = 0;  // rank
  uint8_t seen_gone = 0;
  uint8_t seen_voted = 0;
  uint8_t seen_ones = 0;  // whose vote is 1
  GrowthWord before;
  GrowthWord decision;  // that it is about to make
};

struct GrowthState {
  static constexpr size_t kAttemptsMax = 16;

  std::array<GrowthProcess, kGrowthRanksMax + 1> processes{};
  GrowthWord word;
  // The store: to which meeting the newcomer is admitted, and by whom; those that are called off.
  uint8_t admitted = 0;
  uint8_t admitted_by = 0;
  std::array<bool, kAttemptsMax> off{};
  uint8_t deaths = 0;
  uint8_t stops = 0;
  bool failed = false;                           // somebody, to make a group
  uint8_t grown = 0;                             // the meeting whose group was decided for
  std::array<GrowthWord, kAttemptsMax> ended{};  // by attempt, for the first rank that ended it
};

class GrowthSteps {
 public:
  // `world` outlives the object.
  explicit GrowthSteps(const GrowthWorld& world) : world_(world) {}

  GrowthState Begin() const;

  int newcomer() const { return world_.ranks; }

  std::string NameOf(int process) const;

  // What it would do next, for messages.
  static std::string_view StepOf(const GrowthProcess& self);

  // Neither waits nor is done.
  bool Possible(const GrowthState& state, int process) const;
  // Waits in a meeting which it sees come to nothing.
  bool SeesFailure(const GrowthState& state, int process) const;
  // Waits, and has a deadline.
  bool MayGiveUp(const GrowthState& state, int process) const;
  // May meet with a failure of its own.
  bool MayFail(const GrowthState& state, int process) const;

  // These return what is wrong.
  std::string Move(GrowthState& state, int process);
  std::string GiveUpMeeting(GrowthState& state, int process);
  std::string GiveUp(GrowthState& state, int process);
  // Nobody will make a step.
  std::string CheckEnd(const GrowthState& state) const;

  // What has happened so far.
  const GrowthExploration& found() const { return found_; }

 private:
  struct Next {
    enum class What : uint8_t { kWait, kLead, kDecide } what = What::kWait;
    GrowthWord word;
  };

  bool Keeps(GrowthRule rule) const { return world_.left_out != rule; }

  bool Listed(int rank) const;
  bool IsMember(int process) const;

  GrowthWish WishOf(int call) const { return world_.wishes[static_cast<size_t>(call)]; }

  static Next Decision(GrowthWord::Kind kind, int rank);
  Next NextOfMaking(int rank, const GrowthProcess& view) const;
  Next NextOfWishes(int rank, const GrowthProcess& view) const;
  Next NextOf(const GrowthState& state, int rank, const GrowthProcess& view) const;
  Next NextNow(const GrowthState& state, int rank) const;

  bool AllHaveCome(const GrowthState& state, uint8_t meeting) const;
  bool AllHaveComeAgain(const GrowthState& state, uint8_t meeting) const;
  bool SomebodyIsOut(const GrowthState& state, int self, uint8_t meeting) const;
  bool RankHasGivenUp(const GrowthState& state, int rank) const;
  std::string GoInto(GrowthState& state, int process);

  std::string Enter(const GrowthState& state, GrowthProcess* self) const;
  std::string Wrong(const GrowthState& state, const GrowthWord& word) const;
  std::string Decide(GrowthState& state, int rank);
  std::string Adopt(GrowthState& state, int rank, const GrowthWord& word);
  std::string Meet(GrowthState& state, int process);
  std::string NextCall(GrowthProcess* self) const;

  const GrowthWorld& world_;
  GrowthExploration found_;
};

}  // namespace weft::test
