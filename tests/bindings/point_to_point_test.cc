// weft_send, weft_recv and weft_sendrecv as a C caller uses them; what they do with the bytes is tested in
// tests/comm/node.
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test::point_to_point_test {
namespace {

class PointToPoint : public testing::Test {
 protected:
  PointToPoint() {
    weft_group_config_t config = {};
    config.struct_size = sizeof(config);
    config.name = "pair";
    config.timeout_ns = 30'000'000'000;
    EXPECT_EQ(weft_group_create_local(2, &config, groups_), WEFT_SUCCESS) << weft_last_error();
  }

  ~PointToPoint() override {
    for (weft_group_t group : groups_)
      EXPECT_EQ(weft_group_destroy(group), WEFT_SUCCESS) << weft_last_error();
  }

  weft_group_t groups_[2] = {};
};

TEST_F(PointToPoint, ASmallSendReturnsAndIsReceived) {
  const std::vector<float> in = {1, 2, 3};
  std::vector<float> out(3);
  int sender = -1;
  EXPECT_EQ(weft_send(in.data(), 3, WEFT_FLOAT32, 1, 7, groups_[0], nullptr, nullptr),
            WEFT_SUCCESS);
  EXPECT_EQ(weft_recv(out.data(), 3, WEFT_FLOAT32, WEFT_ANY_SOURCE, 7, &sender, groups_[1], nullptr,
                      nullptr),
            WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(sender, 0);
}

TEST_F(PointToPoint, AProbeTellsWhatToMakeRoomFor) {
  const std::vector<double> in(1000, 2.5);
  int found = -1;
  weft_message_info_t info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(weft_iprobe(0, WEFT_ANY_TAG, &found, &info, groups_[1]), WEFT_SUCCESS);
  EXPECT_EQ(found, 0);
  EXPECT_EQ(info.count, 0u);
  weft_work_t waits = nullptr;
  EXPECT_EQ(weft_probe(WEFT_ANY_SOURCE, 7, &info, groups_[1], nullptr, &waits), WEFT_SUCCESS);
  int done = -1;
  EXPECT_EQ(weft_work_test(waits, &done), WEFT_SUCCESS);
  EXPECT_EQ(done, 0);
  weft_work_t sent = nullptr;
  EXPECT_EQ(weft_send(in.data(), in.size(), WEFT_FLOAT64, 1, 7, groups_[0], nullptr, &sent),
            WEFT_SUCCESS);
  EXPECT_EQ(weft_work_wait(waits, 0), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_work_free(waits), WEFT_SUCCESS);
  EXPECT_EQ(info.source, 0);
  EXPECT_EQ(info.tag, 7u);
  EXPECT_EQ(info.count, in.size());
  EXPECT_EQ(info.dtype, WEFT_FLOAT64);

  // And again, as nobody has taken it.
  weft_message_info_t again = {};
  again.struct_size = sizeof(again);
  EXPECT_EQ(weft_probe(0, WEFT_ANY_TAG, &again, groups_[1], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_iprobe(0, 7, &found, nullptr, groups_[1]), WEFT_SUCCESS);
  EXPECT_EQ(found, 1);
  EXPECT_EQ(again.count, info.count);
  std::vector<double> out(again.count);
  weft_message_info_t told = {};
  told.struct_size = sizeof(told);
  EXPECT_EQ(weft_recv_info(out.data(), out.size(), again.dtype, again.source, WEFT_ANY_TAG, &told,
                           groups_[1], nullptr, nullptr),
            WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(out, in);
  EXPECT_EQ(told.tag, 7u);
  EXPECT_EQ(weft_work_wait(sent, 0), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(sent), WEFT_SUCCESS);
  EXPECT_EQ(weft_iprobe(0, 7, &found, nullptr, groups_[1]), WEFT_SUCCESS);
  EXPECT_EQ(found, 0);
}

TEST_F(PointToPoint, WorksOfAllThreeComplete) {
  constexpr size_t kCount = 100'001;
  std::vector<int64_t> in(kCount, 5), out(kCount), back(kCount);
  weft_work_t works[3] = {};
  int sender = -1;
  EXPECT_EQ(weft_sendrecv(in.data(), kCount, 1, 1, back.data(), kCount, 1, 2, WEFT_INT64, &sender,
                          groups_[0], nullptr, &works[0]),
            WEFT_SUCCESS);
  EXPECT_EQ(
      weft_recv(out.data(), kCount, WEFT_INT64, 0, 1, nullptr, groups_[1], nullptr, &works[1]),
      WEFT_SUCCESS);
  EXPECT_EQ(weft_send(in.data(), kCount, WEFT_INT64, 0, 2, groups_[1], nullptr, &works[2]),
            WEFT_SUCCESS);
  for (weft_work_t work : works) {
    EXPECT_EQ(weft_work_wait(work, 0), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_work_free(work), WEFT_SUCCESS);
  }
  EXPECT_EQ(out, in);
  EXPECT_EQ(back, in);
  EXPECT_EQ(sender, 1);
}

TEST_F(PointToPoint, BlockingSendrecvExchangesWithDifferentCounts) {
  std::vector<uint8_t> data[2] = {std::vector<uint8_t>(10, 1), std::vector<uint8_t>(300'000, 2)};
  std::vector<uint8_t> got[2] = {std::vector<uint8_t>(300'000), std::vector<uint8_t>(10)};
  weft_result_t results[2];
  const auto exchange = [&](int rank) {
    const int peer = 1 - rank;
    results[rank] = weft_sendrecv(data[rank].data(), data[rank].size(), peer, 1, got[rank].data(),
                                  got[rank].size(), peer, 1, WEFT_UINT8, nullptr, groups_[rank],
                                  nullptr, nullptr);
  };
  std::thread other(exchange, 1);
  exchange(0);
  other.join();
  for (const int rank : {0, 1}) {
    EXPECT_EQ(results[rank], WEFT_SUCCESS);
    EXPECT_EQ(got[rank], data[1 - rank]);
  }
}

TEST_F(PointToPoint, AnEmptyMessageNeedsNoBufferAndIsStillMatched) {
  EXPECT_EQ(weft_send(nullptr, 0, WEFT_FLOAT64, 1, 3, groups_[0], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_recv(nullptr, 0, WEFT_FLOAT64, 0, 3, nullptr, groups_[1], nullptr, nullptr),
            WEFT_SUCCESS);
}

TEST_F(PointToPoint, AMismatchTellsBothAndFillsTheErrorInfo) {
  float data[4] = {};
  EXPECT_EQ(weft_send(data, 3, WEFT_FLOAT32, 1, 9, groups_[0], nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_recv(data, 4, WEFT_FLOAT32, 0, 9, nullptr, groups_[1], nullptr, nullptr),
            WEFT_MISMATCH);
  weft_error_info_t info = {};
  info.struct_size = sizeof(info);
  EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
  EXPECT_STREQ(info.operation, "recv");
  EXPECT_STREQ(info.group, "pair");
  EXPECT_EQ(weft_send(data, 1, WEFT_FLOAT32, 1, 9, groups_[0], nullptr, nullptr), WEFT_MISMATCH);
  EXPECT_NE(std::string(weft_last_error()).find("rank 0 sent 3 float32 with tag 9, rank 1 expects"),
            std::string::npos)
      << weft_last_error();
}

TEST_F(PointToPoint, ACallsDeadlineIsItsOwn) {
  weft_call_t call = {};
  call.struct_size = sizeof(call);
  call.timeout_ns = 20'000'000;
  char byte = 0;
  EXPECT_EQ(weft_recv(&byte, 1, WEFT_UINT8, 0, 11, nullptr, groups_[1], &call, nullptr),
            WEFT_TIMEOUT);
  EXPECT_NE(std::string(weft_last_error()).find("tag 11"), std::string::npos) << weft_last_error();
}

}  // namespace
}  // namespace weft::test::point_to_point_test
