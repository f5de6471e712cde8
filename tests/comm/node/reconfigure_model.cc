#include "reconfigure_model.h"

#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "fmt/format.h"

namespace weft::test {
namespace {

constexpr std::string_view kNames[kReconfigureRuleCount] = {
    "None",       "AwaitVotes",     "SameWish",    "LookForDead",    "NextLeads", "WishFirst",
    "OfferFirst", "CompareAndSwap", "GiveUpAloud", "NewGroupIsLast", "DropIfLost"};

enum class Kind : uint8_t { kNone, kNewGroup, kPeerLost, kMismatch, kTimeout };

struct Word {
  uint8_t attempt = 0;
  Kind kind = Kind::kNone;
  uint8_t rank = 0;
  uint8_t other = 0;

  bool operator==(const Word&) const = default;
};

// kOffer and kOfferEnd: the two halves of an offer. kAct: does what follows from what was seen.
enum class At : uint8_t {
  kEnter,
  kVoteFirst,
  kVoteSecond,
  kCheck,
  kSeeGone,
  kSeeVote,
  kAct,
  kWaiting,
  kOffer,
  kOfferEnd,
  kDecide,
  kAdopt,
  kJoin,
  kDone
};

constexpr size_t kMax = kReconfigureRanksMax;

struct Voter {
  // Shared.
  uint8_t wish = 0;
  uint8_t attempt = 0;
  uint8_t offer_attempt = 0;  // for which the offer is complete
  uint8_t offer_members = 0;  // bit per rank
  bool dead = false;
  bool left = false;
  // Its own.
  At at = At::kEnter;
  uint8_t call = 0;
  Word before;
  Word decision;        // that it is about to make
  uint8_t look_at = 0;  // rank
  uint8_t seen_gone = 0;
  uint8_t seen_voted = 0;
  uint8_t gone_at_entry = 0;
  std::array<uint8_t, kMax> seen_wishes{};
  bool leads = false;
  bool segment = false;  // made, and not of a group
};

struct State {
  std::array<Voter, kMax> ranks{};
  Word word;
  uint8_t deaths = 0;
  // By attempt: how it has ended for the first rank that returned, and the members of its group.
  std::array<Word, 8> ended{};
  std::array<uint8_t, 8> members{};
};

static_assert(std::has_unique_object_representations_v<State>);

uint64_t HashOfState(const State& state) {
  return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof(State)});
}

class Explorer {
 public:
  explicit Explorer(const ReconfigureWorld& world) : world_(world) {}

  ReconfigureExploration Run() {
    Visit(State{});
    return {.states = seen_.size(), .problem = problem_};
  }

 private:
  bool Keeps(ReconfigureRule rule) const { return world_.left_out != rule; }

  static Voter& Of(State& state, int rank) { return state.ranks[static_cast<size_t>(rank)]; }

  static const Voter& Of(const State& state, int rank) {
    return state.ranks[static_cast<size_t>(rank)];
  }

  static bool Gone(const State& state, int rank) {
    return Of(state, rank).dead || Of(state, rank).left;
  }

  uint8_t WishOf(int rank, int call) const {
    return world_.wishes[static_cast<size_t>(rank)][static_cast<size_t>(call)];
  }

  uint8_t AllRanks() const { return static_cast<uint8_t>((1U << world_.ranks) - 1); }

  static uint8_t Bit(int rank) { return static_cast<uint8_t>(1U << rank); }

  struct Next {
    enum class What : uint8_t { kWait, kLead, kDecide } what = What::kWait;
    Word word;
    uint8_t members = 0;
  };

  // The rules, of one rank's view.
  Next NextOf(int rank, int call, uint8_t gone, uint8_t voted,
              const std::array<uint8_t, kMax>& wishes) const {
    const uint8_t wish = WishOf(rank, call);
    uint8_t living = AllRanks() & static_cast<uint8_t>(~gone);
    if (!Keeps(ReconfigureRule::kAwaitVotes)) living &= voted;
    if ((living & ~voted) != 0) return {};
    int first = -1;
    for (int other = 0; other < world_.ranks; ++other) {
      if ((living & Bit(other)) == 0) continue;
      if (first < 0) first = other;
      const bool differs = wishes[static_cast<size_t>(other)] != wishes[static_cast<size_t>(first)];
      if (!differs || !Keeps(ReconfigureRule::kSameWish)) continue;
      return Decision(Kind::kMismatch, other, first);
    }
    for (int member = 0; wish != 0 && member < world_.ranks; ++member) {
      if ((gone & Bit(member)) != 0) return Decision(Kind::kPeerLost, member, 0);
    }
    int leader = wish == 2 ? world_.ranks - 1 : first;
    if (!Keeps(ReconfigureRule::kNextLeads)) leader = wish == 2 ? world_.ranks - 1 : 0;
    Next next;
    if (leader == rank) next = {.what = Next::What::kLead, .members = living};
    return next;
  }

  static Next Decision(Kind kind, int rank, int other) {
    return {.what = Next::What::kDecide,
            .word = {.kind = kind,
                     .rank = static_cast<uint8_t>(rank),
                     .other = static_cast<uint8_t>(other)}};
  }

  // As the rank would see everything at this moment.
  Next NextNow(const State& state, int rank) const {
    const Voter& self = Of(state, rank);
    uint8_t gone = 0;
    uint8_t voted = 0;
    std::array<uint8_t, kMax> wishes{};
    for (int other = 0; other < world_.ranks; ++other) {
      if (other != rank && Gone(state, other)) gone |= Bit(other);
      if (Of(state, other).attempt == self.before.attempt + 1) voted |= Bit(other);
      wishes[static_cast<size_t>(other)] = Of(state, other).wish;
    }
    if (!Keeps(ReconfigureRule::kLookForDead)) gone = self.gone_at_entry;
    return NextOf(rank, self.call, gone, voted, wishes);
  }

  bool MayGiveUp(int rank) const { return (world_.may_give_up & Bit(rank)) != 0; }

  bool Possible(const State& state, int rank) const {
    const Voter& self = Of(state, rank);
    if (self.dead || self.at == At::kDone) return false;
    if (self.at != At::kWaiting) return true;
    return state.word.attempt > self.before.attempt ||
           NextNow(state, rank).what != Next::What::kWait;
  }

  // What must be true of a decision when it is made.
  std::string Wrong(const State& state, int finder, const Word& word) const {
    const Voter& self = Of(state, finder);
    if (word.kind == Kind::kPeerLost && !Gone(state, word.rank)) {
      return fmt::format("rank {} lives and is called gone", word.rank);
    }
    const auto voted = [&](int rank) {
      return Of(state, rank).attempt == word.attempt;
    };
    if (word.kind == Kind::kMismatch) {
      const auto meant = [&](int rank) {
        return WishOf(rank, Of(state, rank).call);
      };
      const bool both = !Gone(state, word.rank) && !Gone(state, word.other);
      if (both && meant(word.rank) == meant(word.other)) return "equal wishes are called different";
    }
    if (word.kind != Kind::kNewGroup) return "";
    if (self.before.kind == Kind::kNewGroup) return "two groups come after one";
    const uint8_t wish = WishOf(finder, self.call);
    for (int rank = 0; rank < world_.ranks; ++rank) {
      const bool member = (MembersOf(state, finder) & Bit(rank)) != 0;
      if (Gone(state, rank)) continue;
      if (!member) return fmt::format("rank {} lives and is left behind", rank);
      if (!voted(rank)) return fmt::format("rank {} is a member and has not called", rank);
      if (WishOf(rank, Of(state, rank).call) != wish) {
        return fmt::format("rank {} is a member and wished for something else", rank);
      }
    }
    return "";
  }

  // What it has found, whether or not it is written yet.
  static uint8_t MembersOf(const State& state, int leader) {
    return Of(state, leader).decision.other;
  }

  std::string Decide(State& state, int rank) const {
    Voter& self = Of(state, rank);
    Word word = self.decision;
    word.attempt = static_cast<uint8_t>(self.before.attempt + 1);
    const bool first = state.word == self.before;
    if (first || !Keeps(ReconfigureRule::kCompareAndSwap)) {
      std::string wrong = first ? Wrong(state, rank, word) : "";
      if (!wrong.empty()) return wrong;
      if (word.kind == Kind::kNewGroup) {
        word.other = 0;
        self.segment = false;  // the group's
      }
      state.word = word;
    } else if (Keeps(ReconfigureRule::kDropIfLost)) {
      self.segment = false;
    }
    const bool late = self.leads && !Keeps(ReconfigureRule::kOfferFirst) && first;
    self.at = late ? At::kOffer : At::kCheck;
    return "";
  }

  // A call ends. All that end the attempt end it alike.
  std::string End(State& state, int rank, const Word& word, uint8_t members) const {
    Voter& self = Of(state, rank);
    const size_t attempt = self.before.attempt + 1U;
    Word& ended = state.ended[attempt];
    if (ended.kind == Kind::kNone) {
      ended = word;
      state.members[attempt] = members;
    } else if (ended != word || state.members[attempt] != members) {
      return fmt::format("attempt {} ends in two ways", attempt);
    }
    return NextCall(state, rank,
                    word.kind == Kind::kNewGroup && (world_.cannot_join & Bit(rank)) == 0);
  }

  std::string NextCall(State& state, int rank, bool over) const {
    Voter& self = Of(state, rank);
    if (self.segment) return fmt::format("rank {} leaves a segment behind", rank);
    ++self.call;
    if (over || self.call == world_.calls) {
      self.left = true;
      self.at = At::kDone;
      self.call = static_cast<uint8_t>(world_.calls - 1);
    } else {
      self.at = At::kEnter;
    }
    return "";
  }

  std::string GiveUp(State& state, int rank) const {
    Voter& self = Of(state, rank);
    const Word word{.kind = Kind::kTimeout, .rank = 0, .other = static_cast<uint8_t>(rank)};
    if (!Keeps(ReconfigureRule::kGiveUpAloud)) {
      Word own = word;
      own.attempt = static_cast<uint8_t>(self.before.attempt + 1);
      return End(state, rank, own, 0);
    }
    self.decision = word;
    self.leads = false;
    self.at = At::kDecide;
    return "";
  }

  std::string Act(State& state, int rank) const {
    Voter& self = Of(state, rank);
    const Next next = NextOf(rank, self.call, self.seen_gone, self.seen_voted, self.seen_wishes);
    self.leads = next.what == Next::What::kLead;
    if (next.what == Next::What::kWait) {
      self.at = At::kWaiting;
      return "";
    }
    self.decision = next.word;
    self.at = At::kDecide;
    if (!self.leads) return "";
    self.segment = true;
    self.decision = {
        .kind = Kind::kNewGroup, .rank = static_cast<uint8_t>(rank), .other = next.members};
    if (Keeps(ReconfigureRule::kOfferFirst)) self.at = At::kOffer;
    return "";
  }

  std::string Move(State& state, int rank) const {
    Voter& self = Of(state, rank);
    const auto attempt = static_cast<uint8_t>(self.before.attempt + 1);
    switch (self.at) {
      case At::kEnter:
        self.before = state.word;
        if (self.before.kind == Kind::kNewGroup && Keeps(ReconfigureRule::kNewGroupIsLast)) {
          return NextCall(state, rank, true);
        }
        self.gone_at_entry = 0;
        for (int other = 0; other < world_.ranks; ++other) {
          if (Gone(state, other)) self.gone_at_entry |= Bit(other);
        }
        self.at = At::kVoteFirst;
        return "";
      case At::kVoteFirst:
      case At::kVoteSecond: {
        const bool wish_first = Keeps(ReconfigureRule::kWishFirst);
        if ((self.at == At::kVoteFirst) == wish_first) {
          self.wish = WishOf(rank, self.call);
        } else {
          self.attempt = attempt;
        }
        self.at = self.at == At::kVoteFirst ? At::kVoteSecond : At::kCheck;
        return "";
      }
      case At::kWaiting:
      case At::kCheck:
        self.seen_gone = 0;
        self.seen_voted = 0;
        self.seen_wishes = {};
        self.look_at = 0;
        self.at = state.word.attempt >= attempt ? At::kAdopt : At::kSeeGone;
        return "";
      case At::kSeeGone: {
        const int other = self.look_at;
        const bool gone = Keeps(ReconfigureRule::kLookForDead)
                              ? Gone(state, other)
                              : (self.gone_at_entry & Bit(other)) != 0;
        if (other != rank && gone) self.seen_gone |= Bit(other);
        self.at = At::kSeeVote;
        return "";
      }
      case At::kSeeVote:
        if (Of(state, self.look_at).attempt == attempt) self.seen_voted |= Bit(self.look_at);
        self.seen_wishes[self.look_at] = Of(state, self.look_at).wish;
        self.at = ++self.look_at == world_.ranks ? At::kAct : At::kSeeGone;
        return "";
      case At::kAct:
        return Act(state, rank);
      case At::kOffer:
        self.offer_attempt = 0;  // half written
        self.at = At::kOfferEnd;
        return "";
      case At::kOfferEnd:
        self.offer_attempt = attempt;
        self.offer_members = MembersOf(state, rank);
        self.at = Keeps(ReconfigureRule::kOfferFirst) ? At::kDecide : At::kCheck;
        return "";
      case At::kDecide:
        return Decide(state, rank);
      case At::kAdopt:
        if (state.word.attempt != attempt) return Missed(state, rank);
        if (state.word.kind != Kind::kNewGroup) return End(state, rank, state.word, 0);
        self.at = At::kJoin;
        return "";
      case At::kJoin: {
        const Voter& leader = Of(state, state.word.rank);
        if (leader.offer_attempt != attempt) {
          return fmt::format("rank {} reads an offer that is not there", rank);
        }
        return End(state, rank, state.word, leader.offer_members);
      }
      case At::kDone:
        break;
    }
    return "a rank that is done moves";
  }

  // Others have gone on to another attempt: this one cannot have made a group.
  std::string Missed(State& state, int rank) const {
    if (state.word.kind == Kind::kNewGroup) return "a group was made without a rank that lives";
    return NextCall(state, rank, false);
  }

  std::string CheckEnd(const State& state) const {
    for (int rank = 0; rank < world_.ranks; ++rank) {
      if (Of(state, rank).dead || Of(state, rank).at == At::kDone) continue;
      return fmt::format("rank {} waits for ever", rank);
    }
    return "";
  }

  void Fail(const std::string& problem) {
    problem_ = problem + "; after";
    for (const std::string& step : path_)
      problem_ += " " + step;
  }

  // Depth first.
  void Visit(const State& state) {
    if (!problem_.empty() || !seen_.insert(HashOfState(state)).second) return;
    bool moved = false;
    for (int rank = 0; rank < world_.ranks && problem_.empty(); ++rank) {
      if (Possible(state, rank)) {
        moved = true;
        Try(state, fmt::format("{}", rank), [&](State& after) { return Move(after, rank); });
      }
      const Voter& self = Of(state, rank);
      if (self.dead || self.at == At::kDone) continue;
      if (self.at == At::kWaiting && MayGiveUp(rank)) {
        moved = true;
        Try(state, fmt::format("{}-gives-up", rank),
            [&](State& after) { return GiveUp(after, rank); });
      }
      if (state.deaths < world_.deaths) {
        Try(state, fmt::format("{}-dies", rank), [&](State& after) {
          Of(after, rank).dead = true;
          ++after.deaths;
          return std::string();
        });
      }
    }
    if (!moved && problem_.empty()) {
      const std::string problem = CheckEnd(state);
      if (!problem.empty()) Fail(problem);
    }
  }

  template <typename Step>
  void Try(const State& state, const std::string& name, Step&& step) {
    if (!problem_.empty()) return;
    State after = state;
    path_.push_back(name);
    const std::string problem = step(after);
    if (!problem.empty()) {
      Fail(problem);
    } else {
      Visit(after);
    }
    path_.pop_back();
  }

  const ReconfigureWorld& world_;
  std::unordered_set<uint64_t> seen_;
  std::vector<std::string> path_;
  std::string problem_;
};

}  // namespace

std::string_view ReconfigureRuleName(ReconfigureRule rule) {
  return kNames[static_cast<size_t>(rule)];
}

ReconfigureExploration ExploreReconfigure(const ReconfigureWorld& world) {
  return Explorer(world).Run();
}

}  // namespace weft::test
