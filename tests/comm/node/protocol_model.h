// The protocol of comm/node as a model: the words, lines, slots and parts of staging that ranks share,
// and the steps in which a rank reads and writes them. Written from docs/design/003-node.md, sharing no code
// with comm/node, so that it may be explored in all interleavings (protocol_explorer.h).
//
//   const ProtocolModel model({.ranks = 2, .window = 2, .slots = 2, .parts = 3,
//                              .operations = {{Form::kAllReduce, 0, 2}, {Form::kBroadcast, 1, 1}}});
//   ProtocolState state = model.Initial();
//   std::string problem = model.Move(state, 0, Action::kIssue);   // "" if nothing is wrong
//
// What every place holds is an operation's number and a round; every read compares them with what the reader
// takes them for, so a place that was overwritten too early, or read too early, is found at the read.
//
// A step is what a rank does from one publication to the next: it looks at what it waits for, reads,
// writes, and publishes one word. That is fine enough. Words only grow, so waits may be looked at as
// late as the writes that they guard; and a read of something overwritten or not yet written by another rank
// is found as well if it is done as late as possible, just before the next publication.
// Orders are sequentially consistent here; that acquire and release suffice is shown by ThreadSanitizer.
// A rank that waits sleeps until the rank that it waits for rings: a forgotten wake-up is a deadlock.
//
// Thread-safety: constant after construction; a state belongs to its user.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace weft::test {

constexpr int kModelRanksMax = 5;
constexpr int kModelWindowMax = 4;
constexpr int kModelSlotsMax = 3;
constexpr int kModelPartsMax = 4;
constexpr int kModelTurnedPages = 4;  // two rounds of two pages at most
constexpr int kModelRoundsMax = 5;
constexpr int kModelOperationsMax = 42;  // states keep their numbers in bytes

enum class Form : uint8_t {
  kInline,         // data in the arrival line
  kSlot,           // data in a slot
  kRows,           // counts in a slot, then staged copies: all_to_all_v
  kDirect,         // peers' own buffers; single copy is the same
  kAllReduce,      // staged, as all that follow
  kReduce,         // rooted: only the root gets the result
  kReduceScatter,  // no results for others
  kAllGather,
  kBroadcast,  // rooted: only the root has an input
  kGather,     // rooted: only the root has an output
};
constexpr int kFormCount = 10;

std::string_view FormName(Form form);

// What ranks are obliged to do. One at a time can be left out, to see that this is noticed.
enum class Rule : uint8_t {
  kNone,
  kWindowCredit,        // I1: a line is free when all have done the operation that it held
  kSlotCredit,          // I2: a slot is free when all have done the operation that it held
  kOwnProgress,         // credit counts the own operations too
  kDoneAfterReading,    // I4
  kOlderPartCredit,     // a part of staging is free when all have done the operation that used it,
  kCopyPartCredit,      // or, in one that copies, have published that they read that round,
  kReducePartCredit,    // or, in one that reduces, have staged two rounds after that one
  kPingPongPartCredit,  // two ranks, ping-pong: a part is free when the peer has read it
  kEarlyOnlyIfFirst,    // a part is filled before the arrival only if nothing older is under way,
  kEarlyOnlyIfFree,     // and if all have read it
  kOneRoundAhead,       // staged(t + 2) comes after gather(t)
  kAwaitStaged,         // before a part is read
  kAwaitReduced,        // before a result is read
  kRootedCountsStaged,  // I3: a rank without input counts the rounds as well,
  kRootedSaysStaged,    // and publishes them
  kDirectWait,          // buffers are not given back before all have used them
  kTurnOrder,           // ranks with one place for a small result write it one after the other,
  kAwaitWriters,        // and nobody returns before all have written
  kWakeBeforeSleep,     // who sleeps for what was published is woken before the publisher sleeps
  // Of ranks that count their arrivals at one word:
  kLastReduces,   // slots are reduced, and `arrived` is published, by the last rank to announce
  kAwaitCounter,  // also by a rank that sees all lines announced
  kWakeAll,       // who sleeps for `arrived` is woken when it changes
};
constexpr int kRuleCount = 23;

std::string_view RuleName(Rule rule);

struct ModelOperation {
  Form form = Form::kInline;
  int root = 0;
  int rounds = 1;
  bool wide =
      false;  // its rounds are larger: parts of two ranks that turn overlap those of other rounds of others
  uint32_t eager_ranks = ~0U;  // bit per rank: stages early where it may (its buffers are private)
  uint32_t async_ranks =
      ~0U;  // bit per rank: may announce the next operation before this has ended
  uint32_t shared_ranks =
      0;  // bit per rank: its result lies where that of the others of these lies
};

struct ModelWorld {
  int ranks = 2;
  int window = 2;
  int slots = 2;
  int parts = 3;                           // of staging; rounds take them in turn. At least 3
  std::vector<ModelOperation> operations;  // of every rank, in this order
  bool counts_arrivals = false;  // ranks outnumber their CPUs and count their arrivals at one word
  bool turns = false;            // two ranks that both give and get write where they read last
  Rule left_out = Rule::kNone;
};

// "2 ranks, window 2, 2 slots: all_reduce x2, broadcast(1)", for messages.
std::string Describe(const ModelWorld& world);

// An operation and a round, one after the other; 0: never written.
using Tag = uint8_t;

struct ModelLine {
  uint8_t contents = 0;  // operation that it was written for
  uint8_t sequence = 0;  // operation that it was published for
  uint8_t rounds_staged = 0;
};

enum class ModelPhase : uint8_t { kArrive, kLateRead, kTurn, kWriters, kDirectWait, kStaged };

// Instead of a rank's number + 1: it sleeps for `arrived`.
constexpr uint8_t kSleepsForCounter = 255;

// What all ranks write. A counter starts again at 0 when all have counted in.
struct ModelArrivalCounter {
  uint8_t arrived = 0;
  std::array<uint8_t, kModelWindowMax> announced{};
  std::array<uint8_t, kModelSlotsMax> results{};  // operation
};

// One rank: what the others see, then what it keeps for itself. Bytes only: states are compared as memory.
struct ModelRank {
  std::array<ModelLine, kModelWindowMax> lines{};
  std::array<uint8_t, kModelSlotsMax> slots{};         // operation
  std::array<Tag, kModelPartsMax> pieces{};            // for the others, in a part
  std::array<Tag, kModelPartsMax> results{};           // behind them
  std::array<Tag, kModelTurnedPages> turned_pieces{};  // the same of its area, whoever wrote there
  std::array<Tag, kModelTurnedPages> turned_results{};
  uint8_t done = 0;
  uint8_t staged_word = 0;
  uint8_t reduced_word = 0;
  uint8_t wrote = 0;  // the last operation of which it has written a shared result

  uint8_t issued = 0;
  uint8_t completed = 0;
  bool announcing = false;  // operation issued + 1, of which a round has been staged
  ModelPhase phase = ModelPhase::kArrive;
  uint8_t current = 0;        // round
  uint8_t staged_rounds = 0;  // of operation completed + 1
  bool round_reduced = false;
  uint8_t staged = 0;  // when `completed` was done
  uint8_t reduced = 0;
  bool wake_due = false;
  uint8_t sleeps_for = 0;  // 1 + rank
  // The operation that it was the last to announce, and has yet to publish as arrived.
  uint8_t arrived_due = 0;
};

struct ProtocolState {
  std::array<ModelRank, kModelRanksMax> ranks{};
  ModelArrivalCounter counter;

  ModelRank& operator[](size_t rank) { return ranks[rank]; }

  const ModelRank& operator[](size_t rank) const { return ranks[rank]; }
};

static_assert(std::has_unique_object_representations_v<ProtocolState>);

// kIssue: announce the next operation. kWork: go on with the oldest, or sleep.
enum class Action : uint8_t { kIssue, kWork };

class ProtocolModel {
 public:
  explicit ProtocolModel(ModelWorld world);

  ProtocolState Initial() const { return {}; }

  const ModelWorld& world() const { return world_; }

  // True if the rank can do this now; if it would have to wait, that is to sleep.
  bool Possible(const ProtocolState& state, int rank, Action action) const;

  // Does what is possible. Returns what is wrong with it, "" if nothing.
  std::string Move(ProtocolState& state, int rank, Action action) const;

  // Where nobody can move: "" if all ranks have done everything and agree on the counters.
  std::string CheckEnd(const ProtocolState& state) const;

 private:
  class Step;

  struct Slot {
    uint8_t index = 0;
    uint8_t used_before = 0;  // operation
  };

  const ModelOperation& operation(int sequence) const {
    return world_.operations[static_cast<size_t>(sequence) - 1];
  }

  // A round of an operation that takes a part of staging.
  struct PartUser {
    uint8_t sequence = 0;
    int round = 0;
  };

  int Credit(int sequence) const;

  // A round of two ranks that turn: its pages, and who must have read what was there.
  struct TurnedPart {
    int begin = 0;
    int end = 0;
    bool turned = false;  // the ranks write into each other's area
    PartUser read_there;  // the newest whose reader was the peer
  };

  bool Turns(const ModelOperation& operation) const;
  void PlanTurns();

  const ModelWorld world_;
  std::vector<Slot> slots_;           // by operation - 1, where it has one
  std::vector<PartUser> part_users_;  // in the order in which parts are taken
  std::vector<size_t> parts_before_;  // by operation - 1: of part_users_, those of older ones
  std::vector<std::vector<TurnedPart>> turned_parts_;  // by operation - 1 and round
};

}  // namespace weft::test
