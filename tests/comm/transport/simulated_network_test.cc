// Messages, in the order and at the times that the model says.
#include "comm/transport/simulated_network.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace weft::simulated_network_test {
namespace {

constexpr LinkModel kLinks = {.near = {.latency_ns = 7, .overhead_ns = 1, .ns_per_byte = 1},
                              .far = {.latency_ns = 100, .overhead_ns = 10, .ns_per_byte = 2},
                              .ahead_bytes = 8};
constexpr StreamId kStream = {5, 1};

Transfer Send(int peer, std::string* data, uint64_t tag = 0) {
  return {.peer = peer,
          .stream = kStream,
          .tag = tag,
          .is_send = true,
          .memory = reinterpret_cast<std::byte*>(data->data()),
          .bytes = data->size()};
}

Transfer Receive(int peer, std::string* data, uint64_t tag = 0) {
  Transfer receive = Send(peer, data, tag);
  receive.is_send = false;
  return receive;
}

class SimulatedNetworkTest : public testing::Test {
 protected:
  SimulatedNetworkTest() {
    for (int rank = 0; rank < 4; ++rank)
      ranks_.push_back(network_.Join(rank));
  }

  // Until nothing happens any more.
  int64_t End() {
    while (!network_.GoOn().empty()) {
    }
    return network_.now_ns();
  }

  SimulatedNetwork network_{{0, 0, 1, 1}, kLinks};
  std::vector<std::unique_ptr<Transport>> ranks_;
};

TEST_F(SimulatedNetworkTest, ASmallMessageGoesAheadAndWaitsForItsReceive) {
  std::string from = "abcd";
  std::string to(4, '.');
  Transfer send = Send(2, &from);
  ranks_[0]->Post(&send);
  EXPECT_EQ(End(), 10 + 100 + 2 * 4 + 10);
  EXPECT_EQ(send.state(), TransferState::kDone);
  from = "what the sender does next";
  const std::optional<OfferedMessage> offered = ranks_[2]->Offered(0, kStream);
  ASSERT_TRUE(offered.has_value());
  EXPECT_EQ(offered->tag, 0U);
  EXPECT_EQ(offered->bytes, 4U);
  Transfer receive = Receive(0, &to);
  ranks_[2]->Post(&receive);
  EXPECT_EQ(receive.state(), TransferState::kDone);
  EXPECT_EQ(to, "abcd");
  EXPECT_EQ(network_.far_bytes(0), 4U);
  EXPECT_EQ(network_.near_bytes(0), 0U);
}

TEST_F(SimulatedNetworkTest, ALargeMessageWaitsUntilTheSenderKnowsOfItsReceive) {
  std::string from = "a large message";
  std::string to(from.size(), '.');
  Transfer send = Send(2, &from);
  ranks_[0]->Post(&send);
  EXPECT_EQ(End(), 0);
  EXPECT_EQ(send.state(), TransferState::kPosted);
  Transfer receive = Receive(0, &to);
  ranks_[2]->Post(&receive);
  EXPECT_EQ(End(), 100 + 10 + 100 + 2 * 15 + 10);
  EXPECT_EQ(to, from);
}

TEST_F(SimulatedNetworkTest, RanksOfAnIslandShareItsPort) {
  std::string data[2] = {"12345678", "abcdefgh"};
  std::string to[2] = {data[0], data[0]};
  std::vector<Transfer> all = {Send(2, &data[0]), Send(3, &data[1]), Receive(0, &to[0]),
                               Receive(1, &to[1])};
  for (size_t rank = 0; rank < 4; ++rank)
    ranks_[rank]->Post(&all[rank]);
  EXPECT_EQ(End(), 10 + 16 + 100 + 16 + 10);
  EXPECT_EQ(to[0], data[0]);
  EXPECT_EQ(to[1], data[1]);
}

TEST_F(SimulatedNetworkTest, RanksOfAnIslandDoNotMeetInItsPort) {
  std::string data[2] = {"12345678", "abcdefgh"};
  std::string to[2] = {data[0], data[0]};
  std::vector<Transfer> all = {Send(1, &data[0]), Receive(0, &to[0]), Send(3, &data[1]),
                               Receive(2, &to[1])};
  for (size_t rank = 0; rank < 4; ++rank)
    ranks_[rank]->Post(&all[rank]);
  EXPECT_EQ(End(), 1 + 7 + 8 + 1);
  EXPECT_EQ(network_.near_bytes(0), 8U);
}

TEST_F(SimulatedNetworkTest, ADifferentCallIsAMismatchAtBothEnds) {
  std::string data = "1234";
  Transfer send = Send(1, &data);
  Transfer receive = Receive(0, &data);
  send.signature = 1;
  receive.signature = 2;
  ranks_[1]->Post(&receive);
  ranks_[0]->Post(&send);
  (void)End();
  EXPECT_EQ(send.state(), TransferState::kMismatch);
  EXPECT_EQ(send.other_signature, 2U);
  EXPECT_EQ(receive.state(), TransferState::kMismatch);
  EXPECT_EQ(receive.other_signature, 1U);
}

TEST_F(SimulatedNetworkTest, AClosedGroupGetsNothingMore) {
  std::string data = "1234";
  Transfer send = Send(1, &data);
  Transfer receive = Receive(0, &data);
  ranks_[0]->Post(&send);
  ranks_[1]->Post(&receive);
  ranks_[1]->CloseGroup(kStream.group_id);
  EXPECT_EQ(receive.state(), TransferState::kRetracted);
  (void)End();
  EXPECT_EQ(send.state(), TransferState::kDone);
  Transfer late = Receive(0, &data, 3);
  ranks_[1]->Post(&late);
  EXPECT_EQ(late.state(), TransferState::kRetracted);
}

}  // namespace
}  // namespace weft::simulated_network_test
