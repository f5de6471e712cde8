#include "protocol_model.h"

#include <algorithm>

#include "base/check.h"
#include "fmt/format.h"

namespace weft::test {
namespace {

constexpr std::string_view kFormNames[kFormCount] = {
    "inline", "slot",           "rows",       "direct",    "all_reduce",
    "reduce", "reduce_scatter", "all_gather", "broadcast", "gather"};

constexpr std::string_view kRuleNames[kRuleCount] = {"None",
                                                     "WindowCredit",
                                                     "SlotCredit",
                                                     "OwnProgress",
                                                     "DoneAfterReading",
                                                     "OlderPartCredit",
                                                     "CopyPartCredit",
                                                     "ReducePartCredit",
                                                     "PingPongPartCredit",
                                                     "EarlyOnlyIfFirst",
                                                     "EarlyOnlyIfFree",
                                                     "OneRoundAhead",
                                                     "AwaitStaged",
                                                     "AwaitReduced",
                                                     "RootedCountsStaged",
                                                     "RootedSaysStaged",
                                                     "DirectWait",
                                                     "TurnOrder",
                                                     "AwaitWriters",
                                                     "WakeBeforeSleep",
                                                     "LastReduces",
                                                     "AwaitCounter",
                                                     "WakeAll"};

bool Slotted(Form form) {
  return form == Form::kSlot || form == Form::kRows;
}

bool StagedForm(Form form) {
  return form == Form::kRows || form >= Form::kAllReduce;
}

bool Reduces(Form form) {
  return form == Form::kAllReduce || form == Form::kReduce || form == Form::kReduceScatter;
}

// Results are read from the ranks that made them.
bool HasResults(Form form) {
  return form == Form::kAllReduce || form == Form::kReduce;
}

bool HasInput(const ModelOperation& operation, int rank) {
  return operation.form != Form::kBroadcast || operation.root == rank;
}

bool HasOutput(const ModelOperation& operation, int rank) {
  const bool rooted = operation.form == Form::kReduce || operation.form == Form::kGather;
  return !rooted || operation.root == rank;
}

// Two ranks or more have their result in one place. Direct operations need no further rule for it.
bool SharesResult(const ModelOperation& operation, int ranks) {
  const bool same_for_all = operation.form == Form::kInline || operation.form == Form::kSlot ||
                            operation.form == Form::kAllReduce ||
                            operation.form == Form::kAllGather ||
                            operation.form == Form::kBroadcast;
  const uint32_t shared = operation.shared_ranks & ((1U << ranks) - 1);
  return same_for_all && (shared & (shared - 1)) != 0;
}

Tag TagOf(int sequence, int round) {
  return static_cast<Tag>(sequence * (kModelRoundsMax + 1) + round);
}

std::string TagName(Tag tag) {
  if (tag == 0) return "nothing";
  return fmt::format("operation {} round {}", tag / (kModelRoundsMax + 1),
                     tag % (kModelRoundsMax + 1));
}

}  // namespace

std::string_view FormName(Form form) {
  return kFormNames[static_cast<size_t>(form)];
}

std::string_view RuleName(Rule rule) {
  return kRuleNames[static_cast<size_t>(rule)];
}

std::string Describe(const ModelWorld& world) {
  std::string text = fmt::format("{} ranks, window {}, {} slots, {} parts:", world.ranks,
                                 world.window, world.slots, world.parts);
  for (const ModelOperation& operation : world.operations) {
    text += fmt::format(" {}", FormName(operation.form));
    if (!HasInput(operation, operation.root + 1) || !HasOutput(operation, operation.root + 1))
      text += fmt::format("({})", operation.root);
    if (StagedForm(operation.form))
      text += fmt::format(" x{}{}", operation.rounds, operation.wide ? " wide" : "");
    const uint32_t all = (1U << world.ranks) - 1;
    if ((operation.eager_ranks & all) != all)
      text += fmt::format(" eager {:b}", operation.eager_ranks & all);
    if ((operation.async_ranks & all) != all)
      text += fmt::format(" async {:b}", operation.async_ranks & all);
    if (SharesResult(operation, world.ranks))
      text += fmt::format(" shared {:b}", operation.shared_ranks & all);
    text += ";";
  }
  if (world.counts_arrivals) text += " with a counter";
  if (world.turns) text += " turning";
  return text;
}

// One step of one rank.
class ProtocolModel::Step {
 public:
  Step(const ProtocolModel& model, ProtocolState& state, int rank)
      : model_(model), world_(model.world_), state_(state), rank_(rank), self_(At(rank)) {}

  // Both return false if the rank must wait, for peer().
  bool Issue();
  bool Work();

  int peer() const { return peer_; }

  // After false: it waits for no peer but for `arrived`.
  bool for_counter() const { return for_counter_; }

  const std::string& problem() const { return problem_; }

  void Notify() {
    self_.wake_due = false;
    for (ModelRank& other : state_.ranks)
      if (other.sleeps_for == rank_ + 1) other.sleeps_for = 0;
  }

 private:
  ModelRank& At(int rank) { return state_[static_cast<size_t>(rank)]; }

  bool Drops(Rule rule) const { return world_.left_out == rule; }

  void Expect(bool well, std::string_view what, int peer, const std::string& found) {
    if (well || !problem_.empty()) return;
    problem_ = fmt::format("rank {}, operation {} round {}: {} of rank {} holds {}", rank_,
                           sequence_, self_.current, what, peer, found);
  }

  // True if `reached` of every other rank; otherwise peer() is the first one that has not.
  template <typename Reached>
  bool All(Reached reached) {
    for (int peer = 0; peer < world_.ranks; ++peer) {
      if (peer == rank_ || reached(At(peer), peer)) continue;
      peer_ = peer;
      return false;
    }
    return true;
  }

  ModelLine& LineOf(int rank) {
    return At(rank).lines[static_cast<size_t>(sequence_ % world_.window)];
  }

  void ReadLines();
  void ReadSlots();
  void Finish();
  bool Arrive();
  bool AllArrived();
  void CountArrival();
  void PublishArrived();
  void ReadContributions();
  bool Turn();

  bool LastArriverReduces() const {
    return world_.counts_arrivals && operation_->form == Form::kSlot && !Shares();
  }

  bool Shares() const { return SharesResult(*operation_, world_.ranks); }

  bool SharesOwn() const { return Shares() && IsSharer(rank_); }

  bool IsSharer(int rank) const { return (operation_->shared_ranks >> rank & 1) != 0; }

  void EndShared();
  bool Writers();
  bool Direct();
  bool DirectWait();
  bool StageEarly();
  bool PartIsFree(int round);
  void FillPart(int round);
  bool Staged();
  bool StageRound();
  bool ReduceRound();
  bool Gather();
  bool AwaitStaged(bool of_inputs_only);
  void ReadPieces();
  void EndStaged();

  size_t PartOf(int round) const { return PartIndex(round) % static_cast<size_t>(world_.parts); }

  size_t PartIndex(int round) const {
    return model_.parts_before_[static_cast<size_t>(sequence_) - 1] + static_cast<size_t>(round);
  }

  // Does something with every piece, or result, that `rank` writes in a round.
  template <typename Do>
  void ForPieces(int rank, int round, bool results, Do&& with) {
    if (!model_.Turns(*operation_)) {
      const size_t part = PartOf(round);
      return with(results ? At(rank).results[part] : At(rank).pieces[part]);
    }
    const TurnedPart& part =
        model_.turned_parts_[static_cast<size_t>(sequence_) - 1][static_cast<size_t>(round)];
    ModelRank& area = At(part.turned ? 1 - rank : rank);
    for (auto page = static_cast<size_t>(part.begin); page < static_cast<size_t>(part.end); ++page)
      with(results ? area.turned_results[page] : area.turned_pieces[page]);
  }

  const ProtocolModel& model_;
  const ModelWorld& world_;
  ProtocolState& state_;
  const int rank_;
  ModelRank& self_;
  int sequence_ = 0;
  const ModelOperation* operation_ = nullptr;
  int peer_ = -1;
  bool for_counter_ = false;
  std::string problem_;
};

// Lines are read at the arrival and until the operation is done: factors, places, rounds staged.
void ProtocolModel::Step::ReadLines() {
  for (int rank = 0; rank < world_.ranks; ++rank) {
    const ModelLine& line = LineOf(rank);
    Expect(line.contents == sequence_, "the line", rank,
           fmt::format("operation {}", line.contents));
  }
}

void ProtocolModel::Step::ReadSlots() {
  if (!Slotted(operation_->form)) return;
  const size_t index = model_.slots_[static_cast<size_t>(sequence_) - 1].index;
  for (int rank = 0; rank < world_.ranks; ++rank) {
    const uint8_t found = At(rank).slots[index];
    Expect(found == sequence_, "the slot", rank, fmt::format("operation {}", found));
  }
}

bool ProtocolModel::Step::Issue() {
  sequence_ = self_.issued + 1;
  operation_ = &model_.operation(sequence_);
  if (!self_.announcing) {
    const int credit = model_.Credit(sequence_);
    if (!All([&](const ModelRank& peer, int) { return peer.done >= credit; })) return false;
    LineOf(rank_) = {static_cast<uint8_t>(sequence_), LineOf(rank_).sequence, 0};
    if (Slotted(operation_->form))
      self_.slots[model_.slots_[static_cast<size_t>(sequence_) - 1].index] =
          static_cast<uint8_t>(sequence_);
    if (StageEarly()) return true;
  }
  LineOf(rank_).sequence = static_cast<uint8_t>(sequence_);
  self_.announcing = false;
  self_.issued = static_cast<uint8_t>(sequence_);
  self_.wake_due = true;
  if (world_.counts_arrivals) CountArrival();
  return true;
}

void ProtocolModel::Step::CountArrival() {
  uint8_t& counter = state_.counter.announced[static_cast<size_t>(sequence_ % world_.window)];
  counter = static_cast<uint8_t>((counter + 1) % world_.ranks);
  if (counter == 0 || Drops(Rule::kLastReduces))
    self_.arrived_due = static_cast<uint8_t>(sequence_);
}

// A step of its own, after which the others may go on.
void ProtocolModel::Step::PublishArrived() {
  sequence_ = self_.arrived_due;
  operation_ = &model_.operation(sequence_);
  self_.arrived_due = 0;
  if (LastArriverReduces()) {
    ReadLines();
    ReadSlots();
    state_.counter.results[model_.slots_[static_cast<size_t>(sequence_) - 1].index] =
        static_cast<uint8_t>(sequence_);
  }
  state_.counter.arrived = static_cast<uint8_t>(sequence_);
  if (Drops(Rule::kWakeAll)) return;
  for (ModelRank& other : state_.ranks)
    if (other.sleeps_for == kSleepsForCounter) other.sleeps_for = 0;
}

// Slots, or what was made of them.
void ProtocolModel::Step::ReadContributions() {
  if (!LastArriverReduces()) return ReadSlots();
  const size_t index = model_.slots_[static_cast<size_t>(sequence_) - 1].index;
  const uint8_t found = state_.counter.results[index];
  Expect(found == sequence_, "the last arriver's result", rank_,
         fmt::format("operation {}", found));
}

// True if that was a publication of its own; the arrival comes next.
bool ProtocolModel::Step::StageEarly() {
  const bool first = sequence_ == self_.completed + 1 || Drops(Rule::kEarlyOnlyIfFirst);
  const bool eager = (operation_->eager_ranks >> rank_ & 1) != 0;
  if (!first || !eager || operation_->form < Form::kAllReduce || !HasInput(*operation_, rank_))
    return false;
  if (!Drops(Rule::kEarlyOnlyIfFree) && !PartIsFree(0)) return false;
  FillPart(0);
  self_.staged_word = static_cast<uint8_t>(self_.staged + 1);
  LineOf(rank_).rounds_staged = 1;
  self_.announcing = true;
  return true;
}

bool ProtocolModel::Step::PartIsFree(int round) {
  PartUser user;
  const bool turns = model_.Turns(*operation_);
  if (turns) {
    user = model_.turned_parts_[static_cast<size_t>(sequence_) - 1][static_cast<size_t>(round)]
               .read_there;
  } else if (PartIndex(round) >= static_cast<size_t>(world_.parts)) {
    user = model_.part_users_[PartIndex(round) - static_cast<size_t>(world_.parts)];
  }
  const auto [sequence, last] = user;
  if (sequence == 0) return true;
  if (sequence < sequence_) {
    return Drops(turns ? Rule::kPingPongPartCredit : Rule::kOlderPartCredit) ||
           All([&, user = sequence](const ModelRank& peer, int) { return peer.done >= user; });
  }
  if (Reduces(operation_->form)) {
    const int want = self_.staged + last + 3;
    return Drops(Rule::kReducePartCredit) ||
           All([&](const ModelRank& peer, int) { return peer.staged_word >= want; });
  }
  const int want = self_.reduced + last + 1;
  return Drops(Rule::kCopyPartCredit) ||
         All([&](const ModelRank& peer, int) { return peer.reduced_word >= want; });
}

// Parts of different rounds need not begin at the same place: what is written may lie where results were.
void ProtocolModel::Step::FillPart(int round) {
  ForPieces(rank_, round, false, [&](Tag& tag) { tag = TagOf(sequence_, round); });
  ForPieces(rank_, round, true, [](Tag& tag) { tag = 0; });
}

bool ProtocolModel::Step::Work() {
  if (self_.arrived_due != 0) {
    PublishArrived();
    return true;
  }
  sequence_ = self_.completed + 1;
  operation_ = &model_.operation(sequence_);
  switch (self_.phase) {
    case ModelPhase::kArrive:
      return Arrive();
    case ModelPhase::kLateRead:
      ReadLines();
      ReadContributions();
      Finish();
      return true;
    case ModelPhase::kTurn:
      return Turn();
    case ModelPhase::kWriters:
      return Writers();
    case ModelPhase::kDirectWait:
      return DirectWait();
    case ModelPhase::kStaged:
      return Staged();
  }
  return false;
}

bool ProtocolModel::Step::AllArrived() {
  if (!world_.counts_arrivals || Drops(Rule::kAwaitCounter)) {
    return All([&](const ModelRank& peer, int) {
      return peer.lines[static_cast<size_t>(sequence_ % world_.window)].sequence >= sequence_;
    });
  }
  for_counter_ = state_.counter.arrived < sequence_;
  return !for_counter_;
}

bool ProtocolModel::Step::Arrive() {
  if (!AllArrived()) return false;
  const bool one_shot = operation_->form == Form::kInline || operation_->form == Form::kSlot;
  if (one_shot && SharesOwn()) {
    self_.phase = ModelPhase::kTurn;
    return Turn();
  }
  if (one_shot && Drops(Rule::kDoneAfterReading)) {
    self_.done = static_cast<uint8_t>(sequence_);
    self_.phase = ModelPhase::kLateRead;
    return true;
  }
  ReadLines();
  ReadContributions();
  if (one_shot) {
    Finish();
    return true;
  }
  if (operation_->form == Form::kDirect) return Direct();
  self_.phase = ModelPhase::kStaged;
  self_.staged_rounds = LineOf(rank_).rounds_staged;
  return true;
}

// What the rank has written of a result that others have in the same place.
void ProtocolModel::Step::EndShared() {
  for (int peer = 0; peer < world_.ranks; ++peer) {
    Expect(!IsSharer(peer) || At(peer).completed < sequence_, "the result", peer,
           "what it has returned already");
  }
  self_.wrote = static_cast<uint8_t>(sequence_);
  self_.wake_due = true;
  self_.phase = ModelPhase::kWriters;
}

bool ProtocolModel::Step::Turn() {
  const auto before = [&](int peer) {
    return IsSharer(peer) && peer < rank_;
  };
  if (!Drops(Rule::kTurnOrder) && !All([&](const ModelRank& peer, int rank) {
        return !before(rank) || peer.wrote >= sequence_;
      })) {
    return false;
  }
  for (int peer = 0; peer < rank_; ++peer)
    if (before(peer)) Expect(At(peer).wrote >= sequence_, "the result", peer, "nothing yet");
  ReadLines();
  ReadSlots();
  EndShared();
  return true;
}

bool ProtocolModel::Step::Writers() {
  if (!Drops(Rule::kAwaitWriters) && !All([&](const ModelRank& peer, int rank) {
        return !IsSharer(rank) || peer.wrote >= sequence_;
      })) {
    return false;
  }
  Finish();
  return true;
}

void ProtocolModel::Step::Finish() {
  for (int peer = 0; SharesOwn() && peer < world_.ranks; ++peer)
    if (IsSharer(peer)) Expect(At(peer).wrote >= sequence_, "the result", peer, "nothing yet");
  self_.completed = static_cast<uint8_t>(sequence_);
  self_.done = self_.completed;
  self_.phase = ModelPhase::kArrive;
  self_.current = 0;
  self_.staged_rounds = 0;
  Notify();
}

bool ProtocolModel::Step::Direct() {
  for (int peer = 0; peer < world_.ranks; ++peer)
    Expect(At(peer).completed < sequence_, "the buffer", peer, "what its caller put there since");
  self_.reduced_word = static_cast<uint8_t>(self_.reduced + 1);
  self_.wake_due = true;
  self_.phase = ModelPhase::kDirectWait;
  return true;
}

bool ProtocolModel::Step::DirectWait() {
  const int want = self_.reduced + 1;
  if (!Drops(Rule::kDirectWait) &&
      !All([&](const ModelRank& peer, int) { return peer.reduced_word >= want; })) {
    return false;
  }
  ++self_.reduced;
  Finish();
  return true;
}

bool ProtocolModel::Step::Staged() {
  const int ahead = Drops(Rule::kOneRoundAhead) ? 2 : 1;
  if (self_.current == operation_->rounds) {
    EndStaged();
    return true;
  }
  while (!self_.round_reduced && self_.staged_rounds < operation_->rounds &&
         self_.staged_rounds <= self_.current + ahead) {
    if (HasInput(*operation_, rank_)) return StageRound();
    ++self_.staged_rounds;
  }
  if (Reduces(operation_->form) && !self_.round_reduced) return ReduceRound();
  return Gather();
}

bool ProtocolModel::Step::StageRound() {
  if (!PartIsFree(self_.staged_rounds)) return false;
  FillPart(self_.staged_rounds);
  ++self_.staged_rounds;
  self_.staged_word = static_cast<uint8_t>(self_.staged + self_.staged_rounds);
  self_.wake_due = true;
  return true;
}

bool ProtocolModel::Step::AwaitStaged(bool of_inputs_only) {
  if (Drops(Rule::kAwaitStaged)) return true;
  const int want = self_.staged + self_.current + 1;
  return All([&](const ModelRank& peer, int rank) {
    if (of_inputs_only && !HasInput(*operation_, rank)) return true;
    const bool early =
        operation_->form != Form::kRows && LineOf(rank).rounds_staged > self_.current;
    return early || peer.staged_word >= want;
  });
}

void ProtocolModel::Step::ReadPieces() {
  for (int peer = 0; peer < world_.ranks; ++peer) {
    if (peer == rank_ || !HasInput(*operation_, peer)) continue;
    ForPieces(peer, self_.current, false, [&](Tag found) {
      Expect(found == TagOf(sequence_, self_.current), "the part", peer, TagName(found));
    });
  }
}

bool ProtocolModel::Step::ReduceRound() {
  if (!AwaitStaged(false)) return false;
  ReadLines();
  ReadPieces();
  if (HasResults(operation_->form)) {
    ForPieces(rank_, self_.current, true, [&](Tag& tag) { tag = TagOf(sequence_, self_.current); });
  }
  self_.round_reduced = true;
  self_.reduced_word = static_cast<uint8_t>(self_.reduced + self_.current + 1);
  self_.wake_due = true;
  return true;
}

bool ProtocolModel::Step::Gather() {
  const bool has_output = HasOutput(*operation_, rank_);
  if (!Reduces(operation_->form)) {
    if (has_output) {
      if (!AwaitStaged(true)) return false;
      ReadLines();
      ReadSlots();
      ReadPieces();
    }
    self_.reduced_word = static_cast<uint8_t>(self_.reduced + self_.current + 1);
    self_.wake_due = true;
  } else if (HasResults(operation_->form) && has_output) {
    const int want = self_.reduced + self_.current + 1;
    if (!Drops(Rule::kAwaitReduced) &&
        !All([&](const ModelRank& peer, int) { return peer.reduced_word >= want; })) {
      return false;
    }
    for (int peer = 0; peer < world_.ranks; ++peer) {
      if (peer == rank_) continue;  // was written to the output in the same pass
      ForPieces(peer, self_.current, true, [&](Tag found) {
        Expect(found == TagOf(sequence_, self_.current), "the result", peer, TagName(found));
      });
    }
  }
  ++self_.current;
  self_.round_reduced = false;
  return true;
}

void ProtocolModel::Step::EndStaged() {
  const bool counts = HasInput(*operation_, rank_) || !Drops(Rule::kRootedCountsStaged);
  const auto rounds = static_cast<uint8_t>(operation_->rounds);
  if (counts) self_.staged = static_cast<uint8_t>(self_.staged + rounds);
  self_.reduced = static_cast<uint8_t>(self_.reduced + rounds);
  if (!HasInput(*operation_, rank_) && !Drops(Rule::kRootedSaysStaged))
    self_.staged_word = self_.staged;
  SharesOwn() ? EndShared() : Finish();
}

ProtocolModel::ProtocolModel(ModelWorld world) : world_(std::move(world)) {
  WEFT_CHECK(world_.ranks >= 1 && world_.ranks <= kModelRanksMax);
  WEFT_CHECK(world_.window >= 1 && world_.window <= kModelWindowMax);
  WEFT_CHECK(world_.slots >= 1 && world_.slots <= kModelSlotsMax);
  WEFT_CHECK(world_.parts >= 3 && world_.parts <= kModelPartsMax);
  WEFT_CHECK(world_.operations.size() <= kModelOperationsMax);
  WEFT_CHECK(!world_.turns || world_.ranks == 2);
  PlanTurns();
  std::array<uint8_t, kModelSlotsMax> user{};
  size_t next = 0;
  uint8_t sequence = 0;
  for (const ModelOperation& operation : world_.operations) {
    WEFT_CHECK(operation.rounds >= 1 && operation.rounds <= kModelRoundsMax);
    slots_.push_back({static_cast<uint8_t>(next), user[next]});
    ++sequence;
    parts_before_.push_back(part_users_.size());
    for (int round = 0; StagedForm(operation.form) && !Turns(operation) && round < operation.rounds;
         ++round)
      part_users_.push_back({sequence, round});
    if (!Slotted(operation.form)) continue;
    user[next] = sequence;
    next = (next + 1) % static_cast<size_t>(world_.slots);
  }
}

bool ProtocolModel::Turns(const ModelOperation& operation) const {
  const Form form = operation.form;
  return world_.turns && (form == Form::kRows || form == Form::kAllReduce ||
                          form == Form::kReduceScatter || form == Form::kAllGather);
}

// Even rounds begin a lap, in which the ranks write into the areas that they read in the lap before.
void ProtocolModel::PlanTurns() {
  struct Use {
    PartUser user;
    int lap = 0;
  };

  std::array<Use, kModelTurnedPages> uses{};
  int lap = 0;
  uint8_t sequence = 0;
  for (const ModelOperation& operation : world_.operations) {
    ++sequence;
    turned_parts_.emplace_back();
    const int pages = operation.wide ? 2 : 1;
    for (int round = 0; Turns(operation) && round < operation.rounds; ++round) {
      if (round % 2 == 0) ++lap;
      TurnedPart part{.begin = round % 2 * pages,
                      .end = (round % 2 + 1) * pages,
                      .turned = lap % 2 == 0,
                      .read_there = {}};
      for (int page = part.begin; page < part.end; ++page) {
        Use& use = uses[static_cast<size_t>(page)];
        const bool later = use.user.sequence > part.read_there.sequence ||
                           (use.user.sequence == part.read_there.sequence &&
                            use.user.round > part.read_there.round);
        if ((lap - use.lap) % 2 == 0 && later) part.read_there = use.user;
        use = {{sequence, round}, lap};
      }
      turned_parts_.back().push_back(part);
    }
  }
}

// The operation that all must have done before `sequence` is announced.
int ProtocolModel::Credit(int sequence) const {
  int credit = 0;
  if (world_.left_out != Rule::kWindowCredit) credit = std::max(0, sequence - world_.window);
  if (Slotted(operation(sequence).form) && world_.left_out != Rule::kSlotCredit)
    credit = std::max<int>(credit, slots_[static_cast<size_t>(sequence) - 1].used_before);
  return credit;
}

bool ProtocolModel::Possible(const ProtocolState& state, int rank, Action action) const {
  const ModelRank& self = state[static_cast<size_t>(rank)];
  if (self.sleeps_for != 0) return false;
  if (self.arrived_due != 0) return action == Action::kWork;
  if (action == Action::kWork) return !self.announcing && self.issued > self.completed;
  if (self.announcing) return true;
  const int sequence = self.issued + 1;
  if (sequence > static_cast<int>(world_.operations.size())) return false;
  if (self.issued == self.completed) return true;
  if ((operation(self.issued).async_ranks >> rank & 1) == 0) return false;
  // Ahead of its own work a rank only announces what it can at once.
  const int credit = Credit(sequence);
  if (credit > self.completed && world_.left_out != Rule::kOwnProgress) return false;
  for (int peer = 0; peer < world_.ranks; ++peer)
    if (peer != rank && state[static_cast<size_t>(peer)].done < credit) return false;
  return true;
}

std::string ProtocolModel::Move(ProtocolState& state, int rank, Action action) const {
  Step step(*this, state, rank);
  if (action == Action::kIssue ? step.Issue() : step.Work()) return step.problem();
  ModelRank& self = state[static_cast<size_t>(rank)];
  if (self.wake_due && world_.left_out != Rule::kWakeBeforeSleep) {
    step.Notify();
  } else {
    self.sleeps_for =
        step.for_counter() ? kSleepsForCounter : static_cast<uint8_t>(step.peer() + 1);
  }
  return step.problem();
}

std::string ProtocolModel::CheckEnd(const ProtocolState& state) const {
  const size_t operations = world_.operations.size();
  for (int rank = 0; rank < world_.ranks; ++rank) {
    const ModelRank& self = state[static_cast<size_t>(rank)];
    if (self.completed != operations) {
      return fmt::format("deadlock: rank {} has done {} of {} operations and sleeps for rank {}",
                         rank, self.completed, operations, self.sleeps_for - 1);
    }
    const ModelRank& first = state[0];
    if (self.done != operations || self.staged_word != first.staged ||
        self.staged != first.staged || self.reduced_word != first.reduced ||
        self.reduced != first.reduced) {
      return fmt::format(
          "at the end rank {} has published done {} staged {} reduced {}, rank 0 counts {} {} {}",
          rank, self.done, self.staged_word, self.reduced_word, operations, first.staged,
          first.reduced);
    }
  }
  return "";
}

}  // namespace weft::test
