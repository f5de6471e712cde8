// Connections by what the system would count of them, on a clock of the test's; and what is said of them.
#include "comm/hierarchy/link_health.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/log.h"
#include "comm/hierarchy/link_note.h"
#include "comm/hierarchy/link_watch.h"

namespace weft::test {
namespace {

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSecondNs = 1'000 * kMs;

// Counters of one connection, with peer 1.
struct Counted {
  StreamTraffic stream;
  LinkHealth health;
  int64_t now_ns = 100 * kSecondNs;

  void Look(int64_t after_ns) {
    now_ns += after_ns;
    health.Look({{.peer = 1, .stream = stream}}, now_ns);
  }

  std::vector<LinkHealth::Finding> Findings() const { return health.Findings(now_ns); }
};

TEST(LinkHealth, WhatIsSentAgainInVainForTwoSecondsIsStalled) {
  Counted link;
  link.stream.acknowledged_bytes = 1000;
  link.Look(0);
  link.stream.unacknowledged_bytes = 65'536;
  for (int look = 0; look < 4; ++look) {
    link.stream.sent_again = look;
    link.Look(500 * kMs);
    EXPECT_EQ(link.Findings().empty(), look < 3);
  }
  ASSERT_EQ(link.Findings().size(), 1u);
  const LinkHealth::Finding found = link.Findings()[0];
  EXPECT_TRUE(found.stalled);
  EXPECT_EQ(found.peer, 1);
  EXPECT_EQ(found.quiet_ns, 2 * kSecondNs);
  EXPECT_EQ(found.stream.unacknowledged_bytes, 65'536u);
  // Something passes again.
  link.stream.acknowledged_bytes += 10;
  link.Look(500 * kMs);
  ASSERT_EQ(link.Findings().size(), 1u);
  EXPECT_FALSE(link.Findings()[0].stalled);
  EXPECT_EQ(link.Findings()[0].sent_rate, 5u);
}

// A process that does not read answers that it has no room; one that has nothing to send is idle.
TEST(LinkHealth, WhoAnswersOrHasNothingToSendIsNotStalled) {
  Counted full;
  full.stream.unacknowledged_bytes = 1;
  full.stream.sent_again = 9;
  full.stream.answered = true;
  Counted idle;
  Counted waits_once;
  waits_once.stream.unacknowledged_bytes = 1;
  waits_once.stream.sent_again = 1;
  for (int look = 0; look < 20; ++look) {
    for (Counted* const link : {&full, &idle, &waits_once}) {
      link->Look(500 * kMs);
      EXPECT_TRUE(link->Findings().empty());
    }
  }
}

TEST(LinkHealth, RatesAreOfTheLastSeconds) {
  Counted link;
  for (int look = 0; look < 20; ++look) {
    const uint64_t bytes = look < 10 ? 1'000'000 : 50'000;
    link.stream.acknowledged_bytes += bytes;
    link.stream.received_bytes += 2 * bytes;
    link.stream.unacknowledged_bytes = 1000;
    link.Look(500 * kMs);
  }
  ASSERT_EQ(link.Findings().size(), 1u);
  EXPECT_FALSE(link.Findings()[0].stalled);
  EXPECT_EQ(link.Findings()[0].sent_rate, 100'000u);
  EXPECT_EQ(link.Findings()[0].received_rate, 200'000u);
  for (int look = 0; look < 5; ++look)
    link.Look(500 * kMs);
  EXPECT_TRUE(link.Findings().empty());
}

// One that was made anew counts from the beginning, and one that is gone is none.
TEST(LinkHealth, AConnectionThatIsMadeAnewIsAnotherOne) {
  Counted link;
  link.stream.acknowledged_bytes = 5000;
  link.stream.unacknowledged_bytes = 9;
  link.stream.sent_again = 5;
  for (int look = 0; look < 6; ++look)
    link.Look(500 * kMs);
  ASSERT_EQ(link.Findings().size(), 1u);
  link.stream.acknowledged_bytes = 10;
  link.Look(500 * kMs);
  EXPECT_TRUE(link.Findings().empty());
  link.health.Look({}, link.now_ns + 1);
  EXPECT_TRUE(link.health.Findings(link.now_ns + 1).empty());
}

TEST(LinkNotes, ArriveAsTheyWereShown) {
  std::vector<LinkNote> notes = {{.rank = 3,
                                  .peer = 9,
                                  .stalled = true,
                                  .from = "10.0.0.1",
                                  .to = "10.0.0.2",
                                  .unacknowledged_bytes = 1 << 20,
                                  .quiet_ns = 5,
                                  .sent_again = 4,
                                  .packet_bytes = 9000},
                                 {.rank = 3, .peer = 1, .sent_rate = 7, .received_rate = 8}};
  const std::string bytes = EncodeLinkNotes(notes);
  auto read = DecodeLinkNotes(bytes);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, notes);
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(DecodeLinkNotes(bytes.substr(0, length)).ok()) << length;
  EXPECT_FALSE(DecodeLinkNotes(bytes + "x").ok());
  notes.resize(LinkNote::kNotesMax, notes[0]);
  for (LinkNote& note : notes)
    note.from = note.to = std::string(100, 'f');
  EXPECT_LE(EncodeLinkNotes(notes).size(), LinkNote::kNotesBytesMax);
}

TEST(LinkNotes, SayWhatWasFoundAndWhatToDo) {
  LinkNote note{.stalled = true,
                .from = "10.0.0.1",
                .to = "10.0.0.2",
                .unacknowledged_bytes = 65'536,
                .quiet_ns = 2'100 * kMs,
                .sent_again = 4,
                .packet_bytes = 1500};
  EXPECT_EQ(note.Sentence("rank 0 (host a)", "rank 1 (host b)"),
            "LINK_STALLED: nothing passes from rank 0 (host a) at 10.0.0.1 to rank 1 (host b) at "
            "10.0.0.2: 65536 bytes are not acknowledged after 2.1 s, though sent again 4 times; if "
            "small packets pass, the MTU on the way is smaller than 1500 bytes: ping -M do -s 1472 "
            "10.0.0.2, and set it alike on both machines and in between");
  note.to = "fd00::2";
  EXPECT_NE(note.Sentence("a", "b").find("-s 1452 fd00::2"), std::string::npos);
  note = {.from = "10.0.0.1", .to = "10.0.0.2", .sent_rate = 1'234'000, .received_rate = 5'000};
  EXPECT_EQ(note.Sentence("rank 0 (host a)", "rank 1 (host b)"),
            "LINK_SLOW: the link from rank 0 (host a) at 10.0.0.1 to rank 1 (host b) at 10.0.0.2 "
            "carries 1.23 MB/s, and 0.005 MB/s the other way; give it more time (timeout_ns, "
            "WEFT_TIMEOUT_S), or a faster network (WEFT_IFNAME)");
}

// A transport that has but one connection, with rank 1, which a test counts for.
class CountedTransport : public Transport {
 public:
  void Post(Transfer* /*transfer*/) override {}

  bool Advance() override { return false; }

  void CloseGroup(uint64_t /*group_id*/) override {}

  std::optional<OfferedMessage> Offered(int /*peer*/, const StreamId& /*stream*/) override {
    return std::nullopt;
  }

  std::vector<LinkEvent> TakeEvents() override { return {}; }

  void AppendTraffic(std::vector<LinkTraffic>* traffic) override {
    traffic->push_back({.peer = 1, .addresses = {"10.0.0.1", "10.0.0.2"}, .stream = stream});
  }

  void AppendPollItems(std::vector<PollItem>* /*items*/) override {}

  StreamTraffic stream{.packet_bytes = 1500};
};

std::vector<std::string>* lines_told = nullptr;

TEST(LinkWatch, ToldAfterTwoSecondsAndThenLessOften) {
  std::vector<std::string> lines;
  lines_told = &lines;
  SetLogCallback([](weft_log_level_t, const char* line, void*) { lines_told->emplace_back(line); },
                 nullptr);
  std::vector<GroupMember> members(2);
  for (int rank = 0; rank < 2; ++rank) {
    members[static_cast<size_t>(rank)].rank = rank;
    members[static_cast<size_t>(rank)].world_rank = 10 + rank;
    members[static_cast<size_t>(rank)].host = rank == 0 ? "a" : "b";
  }
  CountedTransport transport;
  std::vector<LinkNote> shown;
  LinkWatch watch(transport, members, 0,
                  [&](const std::vector<LinkNote>& notes) { shown = notes; });
  int64_t now_ns = kSecondNs;
  const auto run_until = [&](int64_t seconds) {
    for (; now_ns < seconds * kSecondNs; now_ns += 100 * kMs)
      EXPECT_LE(watch.Look(now_ns), now_ns + LinkHealth::kLookNs);
  };
  run_until(3);
  EXPECT_TRUE(shown.empty());
  transport.stream.unacknowledged_bytes = 4096;
  transport.stream.sent_again = 6;
  run_until(50);
  ASSERT_EQ(lines.size(), 4u);  // after 2, 10, 20, 40 s
  EXPECT_NE(lines[0].find("LINK_STALLED: nothing passes from rank 0 (host a) at 10.0.0.1 to rank 1 "
                          "(host b) at 10.0.0.2: 4096 bytes are not acknowledged after 2.0 s"),
            std::string::npos)
      << lines[0];
  ASSERT_EQ(shown.size(), 1u);
  EXPECT_EQ(shown[0].rank, 10);
  EXPECT_EQ(shown[0].peer, 11);
  EXPECT_TRUE(shown[0].stalled);
  transport.stream.unacknowledged_bytes = 0;
  run_until(60);
  EXPECT_TRUE(shown.empty());
  EXPECT_EQ(lines.size(), 4u);
  watch.Close();
  EXPECT_EQ(watch.Look(now_ns), INT64_MAX);
  SetLogCallback(nullptr, nullptr);
}

}  // namespace
}  // namespace weft::test
