// Which protocol is chosen from facts, and that what stands in the way of the others is said.
#include "comm/select/select_protocol.h"

#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "tests/comm/select/call_kinds.h"

namespace weft::test::select_protocol_test {
namespace {

constexpr Reach kReachable = {.known = true, .direct = true};
constexpr Reach kPrivate = {.known = true, .readable = true};

TEST(SelectProtocol, FollowsTheSizes) {
  Tuning tuning;
  tuning.slot_limit_bytes = 4096;
  tuning.single_copy_min_bytes = 64 << 10;
  CallFacts call{.out_blocks = true, .ranks = 2};
  const auto of = [&](uint64_t bytes, const Reach& reach) {
    call.bytes = bytes;
    return SelectProtocol(call, tuning, reach).protocol;
  };
  EXPECT_EQ(of(48, kPrivate), Protocol::kInline);
  EXPECT_EQ(of(49, kReachable), Protocol::kSlot);
  EXPECT_EQ(of(4096, kReachable), Protocol::kSlot);
  EXPECT_EQ(of(4097, kReachable), Protocol::kDirect);
  EXPECT_EQ(of(4097, kPrivate), Protocol::kStaged);
  EXPECT_EQ(of((64 << 10) - 1, kPrivate), Protocol::kStaged);
  EXPECT_EQ(of(64 << 10, kPrivate), Protocol::kSingleCopy);
  EXPECT_EQ(of(64 << 10, {.known = true}), Protocol::kStaged);
  EXPECT_EQ(of(64 << 10, kReachable), Protocol::kDirect);
  call.reduces = true;
  EXPECT_EQ(of(64 << 20, kPrivate), Protocol::kStaged);
}

TEST(SelectProtocol, IsOpenUntilTheArrivalsTell) {
  const Tuning tuning;
  CallFacts call{.reduces = true, .bytes = 48, .ranks = 3};
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).protocol, Protocol::kInline);
  call.has_factor = true;  // which takes the end of the line
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).protocol, Protocol::kSlot);
  call.bytes = 1 << 20;
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).protocol, Protocol::kAuto);
  const CallFacts counted{
      .in_blocks = true, .bytes = 8, .ranks = 3, .laid_out = true, .local_counts = true};
  EXPECT_EQ(SelectProtocol(counted, tuning, Reach{}).protocol, Protocol::kAuto);
  EXPECT_EQ(SelectProtocol(counted, tuning, {.known = true, .in_slots = true}).protocol,
            Protocol::kSlot);
  EXPECT_EQ(SelectProtocol(counted, tuning, {.known = true}).protocol, Protocol::kStaged);
}

TEST(SelectProtocol, OneRankNeedsNoOther) {
  CallFacts call{.reduces = true, .bytes = 1 << 20, .ranks = 1};
  EXPECT_EQ(SelectProtocol(call, Tuning{}, Reach{}).protocol, Protocol::kSingleRank);
  call.asked = Protocol::kSingleCopy;
  EXPECT_EQ(SelectProtocol(call, Tuning{}, Reach{}).refused, Obstacle::kReduces);
}

TEST(SelectProtocol, WhatIsAskedForIsTakenOrRefused) {
  const Tuning tuning;
  CallFacts call{.out_blocks = true, .bytes = 1000, .ranks = 2};
  for (const Protocol asked : kRankProtocols) {
    call.asked = asked;
    for (const Reach& reach : {kPrivate, kReachable, Reach{.known = true}}) {
      const Selection selection = SelectProtocol(call, tuning, reach);
      const bool refused = selection.refused != Obstacle::kNone;
      EXPECT_EQ(selection.protocol, refused ? Protocol::kAuto : asked);
      EXPECT_EQ(refused, ObstacleText(selection.refused, call, tuning) != "");
    }
  }
  call.asked = Protocol::kInline;
  EXPECT_EQ(SelectProtocol(call, tuning, kPrivate).refused, Obstacle::kLine);
  call.asked = Protocol::kDirect;
  EXPECT_EQ(SelectProtocol(call, tuning, kPrivate).refused, Obstacle::kUnreachable);
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).refused, Obstacle::kNone);
  call.asked = Protocol::kSingleCopy;
  EXPECT_EQ(SelectProtocol(call, tuning, {.known = true}).refused, Obstacle::kUnreadable);
}

TEST(SelectProtocol, TheLastArriverReducesByItself) {
  Tuning tuning;
  CallFacts call{.reduces = true, .bytes = 1000, .ranks = 4};
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).meeting, Meeting::kLines);
  tuning.combine = 1;
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).meeting, Meeting::kLastArriver);
  call.user_function = true;
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).meeting, Meeting::kCounter);
  call = {.out_blocks = true, .bytes = 1000, .ranks = 4};
  EXPECT_EQ(SelectProtocol(call, tuning, Reach{}).meeting, Meeting::kCounter);
}

TEST(SelectProtocol, EachKindHasItsLeastSizeOfSingleCopy) {
  Tuning tuning;
  tuning.single_copy_min_bytes = 1 << 16;
  tuning.single_copy_broadcast_min_bytes = 1 << 17;
  tuning.single_copy_rooted_min_bytes = 1 << 18;
  const uint64_t expected[] = {kNever, kNever, kNever, 1 << 16, 1 << 18, 1 << 17, 1 << 18, 1 << 16};
  for (size_t i = 0; i < std::size(kKinds); ++i)
    EXPECT_EQ(SingleCopyMinBytes(tuning, kKinds[i]), expected[i]) << i;
}

TEST(ContributionBytes, CountsAllBlocksOfTheInput) {
  EXPECT_EQ(ContributionBytes({.reduces = true, .bytes = 100, .ranks = 8}), 100u);
  EXPECT_EQ(ContributionBytes({.in_blocks = true, .bytes = 100, .ranks = 8}), 800u);
  EXPECT_EQ(ContributionBytes({.in_blocks = true, .bytes = UINT64_MAX / 2, .ranks = 8}),
            UINT64_MAX);
}

}  // namespace
}  // namespace weft::test::select_protocol_test
