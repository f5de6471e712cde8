// Dumps come back as they were written; anything else is refused.
#include "comm/recorder/dump.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/sha256.h"
#include "base/status.h"
#include "base/wire.h"
#include "tests/comm/node/directory_store.h"
#include "tests/support/failing_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;

DumpedRank RankWithCalls(int rank, uint64_t calls, size_t entries) {
  static std::array<RecorderEntry, RecorderRing::kEntryCount> memory;
  for (RecorderEntry& entry : memory) {
    for (auto& word : entry.words)
      word.store(0);
  }
  RecorderRing ring(memory.data());
  for (uint64_t sequence = 1; sequence <= calls; ++sequence) {
    RecordedCall call{.sequence = sequence, .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32};
    call.count = 100 + sequence;
    ring.Record(call);
  }
  DumpedRank dumped{.pid = 4711 + rank, .start_time = 99, .state = 1};
  for (size_t index = 0; index < entries; ++index)
    dumped.entries.push_back(ring.Copy(index));
  return dumped;
}

// What a rank has sent and gone through, `entries` of each.
void AddMessagesAndEvents(DumpedRank& rank, size_t entries) {
  static std::array<RecorderEntry, MessageRing::kEntryCount> memory;
  MessageRing messages(memory.data());
  for (uint64_t number = 1; number <= entries; ++number) {
    const MessageRing::Place place = messages.Record(
        number, {.is_send = number % 2 == 0, .count = number, .peer = 1, .tag = 10 * number});
    MessageRing::SetState(place, MessageState::kDone);
  }
  for (uint64_t number = 1; number <= entries; ++number)
    rank.messages.push_back(messages.Copy(number % MessageRing::kEntryCount));
  LifecycleMemory of_events{};
  const LifecycleLog log(&of_events);
  for (uint32_t number = 1; number <= entries; ++number)
    log.Record({.kind = LifecycleKind::kPeerEnded, .epoch = number, .rank = 2, .signal = 9});
  for (uint64_t index = 0; index < std::min<uint64_t>(entries, LifecycleLog::kEntryCount); ++index)
    rank.events.push_back(log.Copy(index));
}

RecorderDump MakeDump(size_t entries) {
  RecorderDump dump;
  dump.group = "dp/0";
  dump.group_id = 0x1234'5678'9abc'def0;
  dump.host = "box";
  dump.reason = "all_reduce #3 on group dp/0: rank 1 was killed by signal 9";
  dump.result = WEFT_PEER_LOST;
  dump.writer_rank = 1;
  dump.writer_pid = 4712;
  dump.epoch = 6;
  dump.ticks_per_second = 2'500'000'000;
  dump.ticks_now = 77;
  dump.wall_time_ns = 1'700'000'000'123'456'789;
  dump.ranks.push_back(RankWithCalls(0, 3, entries));
  dump.ranks.push_back(RankWithCalls(1, 300, entries));
  dump.ranks.push_back({.pid = 4713, .start_time = 100, .state = 0});
  AddMessagesAndEvents(dump.ranks[0], std::min<size_t>(entries, 40));
  return dump;
}

std::string Message(const absl::StatusOr<RecorderDump>& dump) {
  return std::string(dump.status().message());
}

void ExpectSame(const RecorderDump& a, const RecorderDump& b) {
  EXPECT_EQ(a.group, b.group);
  EXPECT_EQ(a.group_id, b.group_id);
  EXPECT_EQ(a.host, b.host);
  EXPECT_EQ(a.reason, b.reason);
  EXPECT_EQ(a.result, b.result);
  EXPECT_EQ(a.writer_rank, b.writer_rank);
  EXPECT_EQ(a.writer_pid, b.writer_pid);
  EXPECT_EQ(a.epoch, b.epoch);
  EXPECT_EQ(a.ticks_per_second, b.ticks_per_second);
  EXPECT_EQ(a.ticks_now, b.ticks_now);
  EXPECT_EQ(a.wall_time_ns, b.wall_time_ns);
  ASSERT_EQ(a.ranks.size(), b.ranks.size());
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
    EXPECT_EQ(a.ranks[rank].pid, b.ranks[rank].pid);
    EXPECT_EQ(a.ranks[rank].start_time, b.ranks[rank].start_time);
    EXPECT_EQ(a.ranks[rank].state, b.ranks[rank].state);
    EXPECT_EQ(a.ranks[rank].entries, b.ranks[rank].entries);
    EXPECT_EQ(a.ranks[rank].messages, b.ranks[rank].messages);
    EXPECT_EQ(a.ranks[rank].events, b.ranks[rank].events);
  }
}

TEST(RecorderDump, ComesBackAsItWasWritten) {
  const RecorderDump dump = MakeDump(RecorderRing::kEntryCount);
  const auto bytes = EncodeDump(dump);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(bytes->substr(0, 8), "WEFTREC1");
  const auto back = DecodeDump(*bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame(dump, *back);
  EXPECT_EQ(back->ranks[0].Calls().size(), 3u);
  const std::vector<RecordedCall> calls = back->ranks[1].Calls();
  ASSERT_EQ(calls.size(), RecorderRing::kEntryCount);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].sequence, 300 - RecorderRing::kEntryCount + 1 + i);
    EXPECT_EQ(calls[i].count, 100 + calls[i].sequence);
  }
  EXPECT_TRUE(back->ranks[2].Calls().empty());
  const std::vector<RecordedMessage> messages = back->ranks[0].Messages();
  ASSERT_EQ(messages.size(), 40u);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].number, i + 1);
    EXPECT_EQ(messages[i].tag, 10 * (i + 1));
    EXPECT_EQ(messages[i].state, MessageState::kDone);
  }
  const std::vector<LifecycleEvent> events = back->ranks[0].Events();
  ASSERT_EQ(events.size(), LifecycleLog::kEntryCount);
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].number, 40 - LifecycleLog::kEntryCount + 1 + i);
    EXPECT_EQ(events[i].epoch, events[i].number);
  }
  EXPECT_TRUE(back->ranks[1].Messages().empty());
}

// A file of version 1, which has no group id, messages or events: `dump` without them.
std::string EncodeVersion1(const RecorderDump& dump) {
  WireWriter header;
  header.Text(dump.group);
  header.Text(dump.host);
  header.Text(dump.reason);
  header.I32(dump.result);
  header.U32(dump.writer_rank);
  header.I32(dump.writer_pid);
  header.U32(dump.epoch);
  header.U64(dump.ticks_per_second);
  header.U64(dump.ticks_now);
  header.I64(dump.wall_time_ns);
  header.U32(static_cast<uint32_t>(dump.ranks.size()));
  for (const DumpedRank& rank : dump.ranks) {
    header.I32(rank.pid);
    header.U64(rank.start_time);
    header.U32(rank.state);
    header.U32(static_cast<uint32_t>(rank.entries.size()));
  }
  WireWriter file;
  file.Bytes("WEFTREC1");
  file.U32(1);
  file.U32(static_cast<uint32_t>(header.data().size()));
  file.Bytes(header.data());
  for (const DumpedRank& rank : dump.ranks) {
    for (const RecorderWords& words : rank.entries) {
      for (const uint64_t word : words)
        file.U64(word);
    }
  }
  Sha256 hash;
  hash.Update(file.data());
  const Sha256::Digest digest = hash.Finish();
  file.Bytes(std::string(digest.begin(), digest.end()));
  return file.Take();
}

TEST(RecorderDump, Version1IsStillRead) {
  RecorderDump dump = MakeDump(RecorderRing::kEntryCount);
  dump.group_id = 0;
  dump.ranks[0].messages.clear();
  dump.ranks[0].events.clear();
  const std::string bytes = EncodeVersion1(dump);
  const auto back = DecodeDump(bytes);
  ASSERT_TRUE(back.ok()) << back.status();
  ExpectSame(dump, *back);
  EXPECT_EQ(back->ranks[0].Calls().size(), 3u);
  for (size_t length = 0; length < bytes.size(); length += 7) {
    EXPECT_FALSE(DecodeDump(std::string_view(bytes).substr(0, length)).ok()) << length;
  }
  // Neither version passes for the other.
  std::string other = bytes;
  other[8] = 2;
  EXPECT_FALSE(DecodeDump(other).ok());
  other = EncodeDump(dump).value();
  other[8] = 1;
  EXPECT_FALSE(DecodeDump(other).ok());
}

TEST(RecorderDump, MoreEntriesThanARingHasAreRefused) {
  for (const auto ring : {&DumpedRank::entries, &DumpedRank::messages, &DumpedRank::events}) {
    RecorderDump dump = MakeDump(2);
    (dump.ranks[1].*ring).resize(RecorderRing::kEntryCount + 1);
    const auto back = DecodeDump(EncodeDump(dump).value());
    ASSERT_FALSE(back.ok());
    EXPECT_NE(Message(back).find("makes no sense"), std::string::npos) << Message(back);
  }
}

TEST(RecorderDump, LongTextsAreCutNotRefused) {
  RecorderDump dump = MakeDump(2);
  dump.reason = std::string(100'000, 'x');
  const auto back = DecodeDump(EncodeDump(dump).value());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->reason, std::string(kDumpTextBytesMax, 'x'));
}

TEST(RecorderDump, EveryTruncationIsAnError) {
  const std::string bytes = EncodeDump(MakeDump(4)).value();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto dump = DecodeDump(std::string_view(bytes).substr(0, length));
    ASSERT_FALSE(dump.ok()) << length << " bytes";
    ASSERT_EQ(ResultOf(dump.status()), WEFT_CORRUPT);
    if (length > 0) {
      EXPECT_NE(Message(dump).find("cut short"), std::string::npos) << Message(dump);
    }
  }
  EXPECT_FALSE(DecodeDump(bytes + '\0').ok());
}

TEST(RecorderDump, EveryChangedByteIsAnError) {
  const std::string bytes = EncodeDump(MakeDump(4)).value();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string bad = bytes;
      bad[at] = static_cast<char>(bad[at] ^ change);
      const auto dump = DecodeDump(bad);
      ASSERT_FALSE(dump.ok()) << "byte " << at;
      ASSERT_EQ(ResultOf(dump.status()), WEFT_CORRUPT);
    }
  }
}

TEST(RecorderDump, OtherFilesAndVersionsAreCalledWhatTheyAre) {
  std::string bytes = EncodeDump(MakeDump(1)).value();
  EXPECT_NE(Message(DecodeDump("#!/bin/sh\n")).find("not a recorder dump"), std::string::npos);
  for (const int version : {0, 3}) {
    bytes[8] = static_cast<char>(version);
    const std::string words =
        "format version " + std::to_string(version) + ", this program reads versions 1 to 2";
    EXPECT_NE(Message(DecodeDump(bytes)).find(words), std::string::npos)
        << Message(DecodeDump(bytes));
  }
}

TEST(RecorderDumpFile, IsItsOwnersAndNeverReplacesAnother) {
  const TemporaryDirectory directory;
  const Holdings before = Holdings::Now();
  RecorderDump dump = MakeDump(RecorderRing::kEntryCount);
  const auto first = WriteDumpFile(directory.path(), dump);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(fs::path(*first).filename(), "weft-dp_0-rank1-4712.wfr");
  dump.epoch = 7;
  const auto second = WriteDumpFile(directory.path(), dump);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(fs::path(*second).filename(), "weft-dp_0-rank1-4712-2.wfr");
  EXPECT_EQ(ReadDumpFile(*first)->epoch, 6u);
  EXPECT_EQ(ReadDumpFile(*second)->epoch, 7u);
  struct stat info = {};
  ASSERT_EQ(stat(first->c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // Nothing else is left there.
  EXPECT_EQ(std::distance(fs::directory_iterator(directory.path()), fs::directory_iterator()), 2);
  EXPECT_EQ(Holdings::Now().Since(before), "");
}

TEST(RecorderDumpFile, AFailingCallLeavesNothingHalfWritten) {
  const RecorderDump dump = MakeDump(RecorderRing::kEntryCount);
  for (int k = 1;; ++k) {
    const TemporaryDirectory directory;
    const Holdings before = Holdings::Now();
    absl::StatusOr<std::string> path;
    bool struck = false;
    {
      FailingCalls failing(k);
      path = WriteDumpFile(directory.path(), dump);
      struck = failing.struck();
    }
    EXPECT_EQ(Holdings::Now().Since(before), "");
    ASSERT_EQ(path.ok(), !struck) << "call " << k;
    if (!struck) {
      EXPECT_GT(k, 3);
      break;
    }
    EXPECT_TRUE(fs::is_empty(directory.path())) << "call " << k;
    EXPECT_NE(path.status().message().find(directory.path().string()), std::string::npos);
  }
}

TEST(RecorderDumpFile, ErrorsNameTheFile) {
  const TemporaryDirectory directory;
  const fs::path path = directory.path() / "x.wfr";
  const auto expect = [&](const fs::path& file, const std::string& words) {
    const auto dump = ReadDumpFile(file);
    ASSERT_FALSE(dump.ok());
    EXPECT_NE(Message(dump).find(file.string()), std::string::npos) << Message(dump);
    EXPECT_NE(Message(dump).find(words), std::string::npos) << Message(dump);
  };
  expect(path, "could not be opened");
  expect(directory.path(), "not a regular file");
  std::ofstream(path) << "hello";
  expect(path, "not a recorder dump");
  ASSERT_EQ(mkfifo((directory.path() / "fifo").c_str(), 0600), 0);
  expect(directory.path() / "fifo", "not a regular file");
  fs::resize_file(path, kDumpFileBytesMax + 1);
  expect(path, "not a recorder dump");
  const auto written = WriteDumpFile(directory.path() / "missing", MakeDump(1));
  ASSERT_FALSE(written.ok());
  EXPECT_NE(std::string(written.status().message()).find("missing"), std::string::npos);
}

}  // namespace
}  // namespace weft::test
