#include "growth_steps.h"

#include <utility>

#include "fmt/format.h"

namespace weft::test {
namespace {

using Kind = GrowthWord::Kind;
using At = GrowthProcess::At;

// What a process does that goes on from there.
constexpr std::string_view kSteps[] = {
    "calls",  "votes", "checks", "looks",       "judges",      "checks-again", "admits", "decides",
    "adopts", "comes", "meets",  "comes-again", "meets-again", "is-admitted",  "is-done"};

// A vote on a group that was to be made.
constexpr uint8_t kHasIt = 0;
constexpr uint8_t kHasNot = 1;

GrowthProcess& Of(GrowthState& state, int process) {
  return state.processes[static_cast<size_t>(process)];
}

const GrowthProcess& Of(const GrowthState& state, int process) {
  return state.processes[static_cast<size_t>(process)];
}

uint8_t Bit(int process) {
  return static_cast<uint8_t>(1U << process);
}

bool Gone(const GrowthState& state, int rank) {
  return Of(state, rank).dead || Of(state, rank).left;
}

uint8_t AttemptOf(const GrowthProcess& self) {
  return static_cast<uint8_t>(self.before.attempt + 1);
}

// One rank, as `rank` sees it: whether it is gone first, then its vote.
void Look(const GrowthState& state, int rank, int other, GrowthProcess* view) {
  if (other != rank && Gone(state, other)) view->seen_gone |= Bit(other);
  if (Of(state, other).vote_attempt != AttemptOf(*view)) return;
  view->seen_voted |= Bit(other);
  if (Of(state, other).vote == 1) view->seen_ones |= Bit(other);
}

void Forget(GrowthProcess* view) {
  view->seen_gone = 0;
  view->seen_voted = 0;
  view->seen_ones = 0;
  view->look_at = 0;
}

void Drop(GrowthProcess* self) {
  if (self->come == self->meeting) self->out = self->meeting;
  self->has = 0;
}

std::string Leave(GrowthProcess* self) {
  self->left = true;
  self->at = At::kDone;
  return "";
}

}  // namespace

GrowthState GrowthSteps::Begin() const {
  GrowthState state;
  Of(state, newcomer()).at = world_.newcomer ? At::kQueue : At::kDone;
  return state;
}

std::string GrowthSteps::NameOf(int process) const {
  return process == newcomer() ? "new" : std::to_string(process);
}

std::string_view GrowthSteps::StepOf(const GrowthProcess& self) {
  return kSteps[static_cast<size_t>(self.at)];
}

bool GrowthSteps::Listed(int rank) const {
  return (world_.listed & Bit(rank)) != 0;
}

bool GrowthSteps::IsMember(int process) const {
  return process == newcomer() ? world_.newcomer : Listed(process);
}

// --- The rules, of one rank's view ----------------------------------------------------------------

GrowthSteps::Next GrowthSteps::Decision(Kind kind, int rank) {
  return {.what = Next::What::kDecide, .word = {.kind = kind, .rank = static_cast<uint8_t>(rank)}};
}

GrowthSteps::Next GrowthSteps::NextOfMaking(int rank, const GrowthProcess& view) const {
  bool somebody = false;
  for (int other = 0; other < world_.ranks; ++other) {
    if ((view.seen_gone & Bit(other)) != 0) continue;
    somebody = somebody || Listed(other);
    if ((view.seen_voted & Bit(other)) == 0 && Keeps(GrowthRule::kMakingVotes)) return {};
  }
  const int without = view.seen_voted & view.seen_ones & ~view.seen_gone;
  if (without != 0 && Keeps(GrowthRule::kMakingAllHave)) return Decision(Kind::kNotGrown, rank);
  if (!somebody && Keeps(GrowthRule::kSomebodyHas)) return Decision(Kind::kPeerLost, rank);
  return Decision(Kind::kGrown, rank);
}

GrowthSteps::Next GrowthSteps::NextOfWishes(int rank, const GrowthProcess& view) const {
  int first = -1;
  for (int other = 0; other < world_.ranks; ++other) {
    if ((view.seen_gone & Bit(other)) != 0) continue;
    if ((view.seen_voted & Bit(other)) == 0) return {};
    if (first < 0) first = other;
    const bool one = (view.seen_ones & Bit(other)) != 0;
    if (one != ((view.seen_ones & Bit(first)) != 0)) return Decision(Kind::kMismatch, other);
  }
  if (WishOf(view.call) == GrowthWish::kGrow) {
    if ((view.seen_gone & world_.listed) != 0) return Decision(Kind::kPeerLost, rank);
    first = 0;
    while (!Listed(first))
      ++first;
  }
  Next next;
  if (first == rank) next.what = Next::What::kLead;
  return next;
}

GrowthSteps::Next GrowthSteps::NextOf(const GrowthState& state, int rank,
                                      const GrowthProcess& view) const {
  if (view.making) return NextOfMaking(rank, view);
  const Next next = NextOfWishes(rank, view);
  if (next.what != Next::What::kLead) return next;
  if (WishOf(view.call) == GrowthWish::kAllThatLive) return Decision(Kind::kNewGroup, rank);
  const GrowthProcess& who = Of(state, newcomer());
  const bool waits = who.at == At::kQueue && !who.dead && state.admitted == 0;
  return waits || !world_.newcomer ? Decision(Kind::kAdmit, rank) : Next{};
}

// As the rank would see everything at this moment.
GrowthSteps::Next GrowthSteps::NextNow(const GrowthState& state, int rank) const {
  GrowthProcess view = Of(state, rank);
  Forget(&view);
  for (int other = 0; other < world_.ranks; ++other)
    Look(state, rank, other, &view);
  return NextOf(state, rank, view);
}

// --- Meetings -------------------------------------------------------------------------------------

bool GrowthSteps::AllHaveCome(const GrowthState& state, uint8_t meeting) const {
  for (int process = 0; process <= world_.ranks; ++process) {
    if (IsMember(process) && Of(state, process).come != meeting) return false;
  }
  return true;
}

bool GrowthSteps::AllHaveComeAgain(const GrowthState& state, uint8_t meeting) const {
  for (int process = 0; process <= world_.ranks; ++process) {
    if (IsMember(process) && Of(state, process).come_again != meeting) return false;
  }
  return true;
}

// Members of a group see each other, from when all have come.
bool GrowthSteps::SomebodyIsOut(const GrowthState& state, int self, uint8_t meeting) const {
  if (!AllHaveCome(state, meeting)) return false;
  for (int other = 0; other <= world_.ranks; ++other) {
    if (other == self || !IsMember(other)) continue;
    if (Of(state, other).dead || Of(state, other).out == meeting) return true;
  }
  return false;
}

// What a rank sees on the old group's board, and of its processes.
bool GrowthSteps::RankHasGivenUp(const GrowthState& state, int rank) const {
  const uint8_t attempt = AttemptOf(Of(state, rank));
  if (state.word.attempt >= attempt) return true;
  for (int other = 0; other < world_.ranks; ++other) {
    if (other == rank || !Listed(other)) continue;
    const GrowthProcess& member = Of(state, other);
    const bool gave_up = member.vote_attempt == attempt && member.vote == kHasNot;
    if (Gone(state, other) || gave_up) return true;
  }
  return false;
}

bool GrowthSteps::SeesFailure(const GrowthState& state, int process) const {
  const GrowthProcess& self = Of(state, process);
  if (self.at != At::kMeet && self.at != At::kMeetAgain) return false;
  if (SomebodyIsOut(state, process, self.meeting)) return true;
  if (self.at == At::kMeetAgain) return false;
  if (process != newcomer()) {
    return Keeps(GrowthRule::kLookWhileMeeting) && RankHasGivenUp(state, process);
  }
  const bool host_is_dead = Of(state, self.host).dead && Keeps(GrowthRule::kWatchHost);
  return host_is_dead || state.off[self.meeting];
}

// The first meeting has come to nothing, or the second one of the newcomer. What a rank meets with in the second one is a failure of
// a group that is decided for.
std::string GrowthSteps::GiveUpMeeting(GrowthState& state, int process) {
  GrowthProcess& self = Of(state, process);
  if (process != newcomer() && self.at == At::kMeetAgain) {
    self.out = self.meeting;
    return GoInto(state, process);
  }
  Drop(&self);
  self.failed = process != newcomer();
  self.at = process == newcomer() ? At::kQueue : At::kVote;
  return "";
}

std::string GrowthSteps::GoInto(GrowthState& state, int process) {
  GrowthProcess& self = Of(state, process);
  self.in_group = true;
  if (process == newcomer()) {
    found_.newcomer_in = true;
    self.at = At::kDone;
    return "";
  }
  if ((world_.calls_again & Bit(process)) == 0) return Leave(&self);
  self.making = false;
  self.at = At::kEnter;
  return "";
}

// --- Steps ----------------------------------------------------------------------------------------

bool GrowthSteps::Possible(const GrowthState& state, int process) const {
  const GrowthProcess& self = Of(state, process);
  switch (self.at) {
    case At::kDone:
      return false;
    case At::kQueue:
      return state.admitted != 0;
    case At::kMeet:
      return AllHaveCome(state, self.meeting);
    case At::kMeetAgain:
      return AllHaveComeAgain(state, self.meeting);
    case At::kWaiting:
      return state.word.attempt >= AttemptOf(self) ||
             NextNow(state, process).what != Next::What::kWait;
    default:
      return true;
  }
}

bool GrowthSteps::MayGiveUp(const GrowthState& state, int process) const {
  const At at = Of(state, process).at;
  const bool waits =
      at == At::kWaiting || at == At::kMeet || at == At::kMeetAgain || at == At::kQueue;
  return waits && (world_.may_give_up & Bit(process)) != 0;
}

bool GrowthSteps::MayFail(const GrowthState& state, int process) const {
  const At at = Of(state, process).at;
  const bool makes = at == At::kCome || at == At::kMeet;
  return makes && !state.failed && (world_.may_fail & Bit(process)) != 0;
}

std::string GrowthSteps::Enter(const GrowthState& state, GrowthProcess* self) const {
  self->before = state.word;
  if (state.word.final() && Keeps(GrowthRule::kGrownIsLast)) return Leave(self);
  if (state.word.kind == Kind::kAdmit) return "a rank calls while the others meet a newcomer";
  if (state.word.attempt + 2U >= GrowthState::kAttemptsMax) return "too many attempts";
  self->at = At::kVote;
  return "";
}

// What must be true of a decision when it is made.
std::string GrowthSteps::Wrong(const GrowthState& state, const GrowthWord& word) const {
  if (state.word.final()) return "two groups come after one";
  bool somebody = false;
  for (int rank = 0; rank < world_.ranks; ++rank) {
    const GrowthProcess& other = Of(state, rank);
    const bool has = other.has == state.word.attempt;
    somebody = somebody || (Listed(rank) && has);
    if (Gone(state, rank)) continue;
    const bool voted = other.vote_attempt == word.attempt;
    if ((word.final() || word.kind == Kind::kAdmit) && !voted) {
      return fmt::format("rank {} lives and has not voted", rank);
    }
    if (word.kind == Kind::kGrown && Listed(rank) && !has) {
      return fmt::format("rank {} lives and has not the group", rank);
    }
  }
  if (word.kind == Kind::kGrown && !somebody) return "no rank has the group";
  return "";
}

std::string GrowthSteps::Decide(GrowthState& state, int rank) {
  GrowthProcess& self = Of(state, rank);
  GrowthWord word = self.decision;
  word.attempt = AttemptOf(self);
  const bool first = state.word == self.before;
  self.at = At::kCheck;
  if (!first && Keeps(GrowthRule::kCompareAndSwap)) return "";
  if (std::string wrong = first ? Wrong(state, word) : ""; !wrong.empty()) return wrong;
  if (word.kind == Kind::kGrown) {
    found_.grown = true;
    found_.grown_later = found_.grown_later || word.attempt > 2;
    state.grown = static_cast<uint8_t>(word.attempt - 1);
  }
  found_.not_grown = found_.not_grown || word.kind == Kind::kNotGrown;
  state.word = word;
  if (word.kind == Kind::kAdmit && world_.newcomer) self.at = At::kAdmit;
  return "";
}

// All that end an attempt end it alike.
std::string GrowthSteps::Adopt(GrowthState& state, int rank, const GrowthWord& word) {
  GrowthProcess& self = Of(state, rank);
  const uint8_t attempt = AttemptOf(self);
  if (word.attempt == attempt) {
    GrowthWord& ended = state.ended[attempt];
    if (ended.kind == Kind::kNone) ended = word;
    if (ended != word) return fmt::format("attempt {} ends in two ways", attempt);
    if (word.kind == Kind::kAdmit) {
      self.making = true;
      self.failed = false;
      self.meeting = attempt;
      self.before = word;
      self.at = Listed(rank) ? At::kCome : At::kVote;
      return "";
    }
    if (word.kind == Kind::kGrown && Listed(rank)) {
      self.at = At::kComeAgain;
      return "";
    }
    if (word.final()) return GoInto(state, rank);
  }
  if (word.final()) return "a group was made without a rank that lives";
  if (self.making && Keeps(GrowthRule::kDropIfNotGrown)) Drop(&self);
  if (self.making && Keeps(GrowthRule::kCallOff)) state.off[self.meeting] = true;
  if (self.hosted == attempt && Keeps(GrowthRule::kHostCallsOff)) state.off[attempt] = true;
  return NextCall(&self);
}

std::string GrowthSteps::NextCall(GrowthProcess* self) const {
  if (self->has != 0) return "a rank keeps a group that was not decided for";
  self->making = false;
  self->at = At::kEnter;
  if (++self->call < world_.calls) return "";
  self->call = static_cast<uint8_t>(world_.calls - 1);
  return Leave(self);
}

// All have come to the meeting.
std::string GrowthSteps::Meet(GrowthState& state, int process) {
  GrowthProcess& self = Of(state, process);
  self.has = self.meeting;
  self.at = process == newcomer() ? At::kComeAgain : At::kVote;
  if (process != newcomer() || Keeps(GrowthRule::kMeetTwice)) return "";
  self.come_again = self.meeting;
  return GoInto(state, process);
}

std::string GrowthSteps::Move(GrowthState& state, int process) {
  GrowthProcess& self = Of(state, process);
  const auto go_on = [&](At at) {
    self.at = at;
    return std::string();
  };
  switch (self.at) {
    case At::kEnter:
      return Enter(state, &self);
    case At::kVote:
      self.vote_attempt = AttemptOf(self);
      self.vote = static_cast<uint8_t>(WishOf(self.call));
      if (self.making) self.vote = self.failed ? kHasNot : kHasIt;
      return go_on(At::kCheck);
    case At::kWaiting:
    case At::kCheck:
      Forget(&self);
      return go_on(state.word.attempt >= AttemptOf(self) ? At::kAdopt : At::kLook);
    case At::kLook:
      Look(state, process, self.look_at, &self);
      return go_on(++self.look_at == world_.ranks ? At::kAct : At::kLook);
    case At::kAct: {
      const Next next = NextOf(state, process, self);
      self.decision = next.word;
      return go_on(next.what == Next::What::kWait ? At::kWaiting : At::kDecide);
    }
    case At::kDecide:
      return Decide(state, process);
    case At::kAdmit:
      state.admitted = AttemptOf(self);
      state.admitted_by = static_cast<uint8_t>(process);
      self.hosted = AttemptOf(self);
      return go_on(At::kCheck);
    case At::kAdopt:
      return Adopt(state, process, state.word);
    case At::kQueue:
      self.meeting = std::exchange(state.admitted, uint8_t{0});
      self.host = state.admitted_by;
      return go_on(At::kCome);
    case At::kCome:
      self.come = self.meeting;
      return go_on(At::kMeet);
    case At::kMeet:
      return Meet(state, process);
    case At::kComeAgain:
      self.come_again = self.meeting;
      return go_on(At::kMeetAgain);
    case At::kMeetAgain:
      return GoInto(state, process);
    case At::kDone:
      break;
  }
  return "a process that is done moves";
}

std::string GrowthSteps::GiveUp(GrowthState& state, int process) {
  GrowthProcess& self = Of(state, process);
  if (process == newcomer()) {
    Drop(&self);
    self.at = At::kDone;
    return "";
  }
  if (self.at != At::kWaiting) return GiveUpMeeting(state, process);
  self.decision = {.kind = Kind::kTimeout, .rank = static_cast<uint8_t>(process)};
  self.at = At::kDecide;
  if (Keeps(GrowthRule::kGiveUpAloud)) return "";
  GrowthWord own = self.decision;
  own.attempt = AttemptOf(self);
  return Adopt(state, process, own);
}

std::string GrowthSteps::CheckEnd(const GrowthState& state) const {
  for (int process = 0; process <= world_.ranks; ++process) {
    const GrowthProcess& self = Of(state, process);
    const std::string name = NameOf(process);
    if (self.dead || self.stopped) continue;
    if (self.at != At::kDone && self.at != At::kQueue) return name + " waits for ever";
    if (self.has != 0 && self.has != state.grown) return name + " keeps a group that was dropped";
    const bool out = process != newcomer() && !self.in_group;
    if (world_.ends_in_group && out) return name + " ends without a group";
  }
  return "";
}

}  // namespace weft::test
