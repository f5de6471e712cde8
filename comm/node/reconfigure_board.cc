#include "comm/node/reconfigure_board.h"

#include <algorithm>
#include <new>

namespace weft {
namespace {

constexpr uint8_t kOpenPlace = 0xff;

uint64_t PackOutcome(const ReconfigureOutcome& outcome) {
  return uint64_t{outcome.attempt} << 32 | static_cast<uint64_t>(outcome.kind) << 16 |
         static_cast<uint64_t>(outcome.rank) << 8 | outcome.other;
}

ReconfigureOutcome UnpackOutcome(uint64_t word) {
  return {.attempt = static_cast<uint32_t>(word >> 32),
          .kind = static_cast<ReconfigureOutcome::Kind>(word >> 16 & 0xff),
          .rank = static_cast<uint8_t>(word >> 8),
          .other = static_cast<uint8_t>(word)};
}

}  // namespace

ReconfigureBoard::ReconfigureBoard(char* base, int size) : base_(base), size_(size) {}

size_t ReconfigureBoard::Bytes(int size) {
  return sizeof(Head) + static_cast<size_t>(size) * sizeof(Place);
}

ReconfigureBoard ReconfigureBoard::Create(char* base, int size) {
  const ReconfigureBoard board(base, size);
  new (&board.head()) Head{};
  for (int rank = 0; rank < size; ++rank)
    new (&board.place(rank)) Place{};
  return board;
}

ReconfigureOutcome ReconfigureBoard::Outcome() const {
  return UnpackOutcome(head().outcome.load(std::memory_order_seq_cst));
}

void ReconfigureBoard::Vote(int rank, uint32_t attempt, uint64_t wish) const {
  Place& own = place(rank);
  own.wish.store(wish, std::memory_order_relaxed);
  own.attempt.store(attempt, std::memory_order_seq_cst);
  NotifyAll(events());
}

std::optional<uint64_t> ReconfigureBoard::VoteOf(int rank, uint32_t attempt) const {
  const Place& voter = place(rank);
  if (voter.attempt.load(std::memory_order_seq_cst) != attempt) return std::nullopt;
  return voter.wish.load(std::memory_order_relaxed);
}

bool ReconfigureBoard::HasVoted(int rank, uint32_t attempt) const {
  return place(rank).attempt.load(std::memory_order_seq_cst) >= attempt;
}

int ReconfigureBoard::Votes(uint32_t attempt) const {
  int votes = 0;
  for (int rank = 0; rank < size_; ++rank)
    votes += VoteOf(rank, attempt).has_value() ? 1 : 0;
  return votes;
}

void ReconfigureBoard::Offer(int rank, const ReconfigureOffer& offer) const {
  Place& own = place(rank);
  own.offset = offer.offset;
  own.group_id = offer.group_id;
  own.member_count = static_cast<uint32_t>(offer.members.size());
  for (size_t i = 0; i < offer.members.size(); ++i)
    own.members[i] =
        offer.members[i] == kNewRank ? kOpenPlace : static_cast<uint8_t>(offer.members[i]);
}

std::optional<ReconfigureOffer> ReconfigureBoard::OfferOf(int rank) const {
  if (rank >= size_) return std::nullopt;
  const Place& leader = place(rank);
  ReconfigureOffer offer{.offset = leader.offset, .group_id = leader.group_id};
  const uint32_t count = leader.member_count;
  if (count < 1 || count > kRanksMax) return std::nullopt;
  std::vector<bool> seen(static_cast<size_t>(size_));
  int first = kNewRank;
  for (uint32_t i = 0; i < count; ++i) {
    const int member = leader.members[i] == kOpenPlace ? kNewRank : leader.members[i];
    offer.members.push_back(member);
    if (member == kNewRank) continue;
    if (member >= size_ || seen[static_cast<size_t>(member)]) return std::nullopt;
    seen[static_cast<size_t>(member)] = true;
    if (first == kNewRank) first = member;
  }
  if (first != rank) return std::nullopt;
  return offer;
}

bool ReconfigureBoard::Decide(const ReconfigureOutcome& before,
                              const ReconfigureOutcome& outcome) const {
  uint64_t expected = PackOutcome(before);
  const bool decided = head().outcome.compare_exchange_strong(expected, PackOutcome(outcome),
                                                              std::memory_order_seq_cst);
  NotifyAll(events());
  return decided;
}

}  // namespace weft
