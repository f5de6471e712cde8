// Records that wait, for a pipe: it takes as many bytes as it has room for.
#include "trainer/waiting_records.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace weft::trainer::waiting_records_test {
namespace {

constexpr size_t kPipeBytes = 4096;  // the least that the system makes one of

class WaitingRecordsTest : public ::testing::Test {
 protected:
  WaitingRecordsTest() {
    EXPECT_EQ(pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0);
    EXPECT_EQ(fcntl(ends_[1], F_SETPIPE_SZ, int(kPipeBytes)), int(kPipeBytes));
  }

  ~WaitingRecordsTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  std::string Read(size_t bytes) const {
    std::string text(bytes, '\0');
    const ssize_t count = read(ends_[0], text.data(), bytes);
    text.resize(size_t(std::max<ssize_t>(count, 0)));
    return text;
  }

  std::array<int, 2> ends_ = {};
  WaitingRecords records_;
};

TEST_F(WaitingRecordsTest, WhatIsNotTakenWaitsAndGoesOnFromTheByteWhereItStopped) {
  std::string all;
  for (int i = 0; i < 100; i++) {
    const std::string record = std::to_string(i) + std::string(size_t(i), 'x') + "\n";
    records_.Add(record);
    all += record;
  }
  EXPECT_EQ(records_.WriteTo(ends_[1]), EAGAIN);
  EXPECT_FALSE(records_.AllWritten());
  std::string taken;
  for (int error = EAGAIN; error == EAGAIN; error = records_.WriteTo(ends_[1]))
    taken += Read(1000);
  EXPECT_TRUE(records_.AllWritten());
  taken += Read(all.size());
  EXPECT_EQ(taken, all);
  records_.Confirm(0);
  EXPECT_EQ(records_.lacking(), 0u);
}

TEST_F(WaitingRecordsTest, ARecordIsThereOnceItsLastByteIs) {
  records_.Add("one\n");
  records_.Add("two\n");
  records_.Add("three\n");
  EXPECT_EQ(records_.lacking(), 3u);
  EXPECT_EQ(records_.WriteTo(ends_[1]), 0);
  EXPECT_EQ(records_.lacking(), 3u);
  records_.Confirm(14);
  EXPECT_EQ(records_.lacking(), 3u);
  records_.Confirm(10);
  EXPECT_EQ(records_.lacking(), 2u);
  records_.Confirm(7);
  EXPECT_EQ(records_.lacking(), 2u);
  records_.Confirm(0);
  EXPECT_EQ(records_.lacking(), 0u);
}

TEST_F(WaitingRecordsTest, OfThoseThatComeWhileTooManyBytesWaitNothingIsKept) {
  const std::string record(1 << 20, 'x');
  for (size_t i = 0; i < WaitingRecords::kBytesMax / record.size(); i++)
    records_.Add(record);
  EXPECT_EQ(records_.lost(), 0u);
  records_.Add("lost\n");
  EXPECT_EQ(records_.lost(), 1u);
  EXPECT_EQ(records_.WriteTo(ends_[1]), EAGAIN);
  records_.Add("kept\n");
  EXPECT_EQ(records_.lost(), 1u);
  EXPECT_EQ(records_.lacking(), 18u);
}

TEST_F(WaitingRecordsTest, WhatIsGivenUpIsLostAndNotWrittenAnyMore) {
  records_.Add("read\n");
  records_.Add("unread\n");
  EXPECT_EQ(records_.WriteTo(ends_[1]), 0);
  records_.Confirm(7);
  records_.Add("waits\n");
  records_.GiveUp();
  EXPECT_EQ(records_.lost(), 2u);
  EXPECT_EQ(records_.lacking(), 2u);
  EXPECT_TRUE(records_.AllWritten());
  records_.Add("new\n");
  EXPECT_EQ(records_.WriteTo(ends_[1]), 0);
  records_.Confirm(0);
  EXPECT_EQ(records_.lacking(), 2u);
  EXPECT_EQ(Read(100), "read\nunread\nnew\n");
}

}  // namespace
}  // namespace weft::trainer::waiting_records_test
