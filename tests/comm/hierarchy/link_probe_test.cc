// Measuring links: between threads over memory and over TCP, late and strange peers, and what is said of the results.
#include "comm/hierarchy/link_probe.h"

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/link_word.h"
#include "comm/transport/memory_network.h"
#include "comm/transport/tcp_transport.h"

namespace weft::link_probe_test {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kGroup = 77;

using Transports = std::vector<std::unique_ptr<Transport>>;

// As the first ranks of islands do it.
LinkProbeSettings SettingsOf(Transports& transports, int rank, int64_t deadline_ns) {
  const int size = static_cast<int>(transports.size());
  return {.transport = transports[static_cast<size_t>(rank)].get(),
          .self = rank,
          .next = (rank + 1) % size,
          .previous = (rank + size - 1) % size,
          .group_id = kGroup,
          .asks_first = rank % 2 == 0 && !(size % 2 == 1 && rank == size - 1),
          .budget_ns = kSecondNs / 20,
          .deadline_ns = deadline_ns};
}

std::vector<absl::StatusOr<LinkCost>> ProbeAll(Transports& transports) {
  std::vector<absl::StatusOr<LinkCost>> costs(transports.size(),
                                              absl::StatusOr<LinkCost>(absl::UnknownError("")));
  const int64_t deadline_ns = MonotonicNs() + 60 * kSecondNs;
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      costs[rank] = ProbeLink(SettingsOf(transports, static_cast<int>(rank), deadline_ns));
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return costs;
}

void ExpectCosts(const std::vector<absl::StatusOr<LinkCost>>& costs) {
  for (const absl::StatusOr<LinkCost>& cost : costs) {
    ASSERT_TRUE(cost.ok()) << cost.status();
    EXPECT_GE(cost->latency_ns, 0);
    EXPECT_GT(cost->overhead_ns, 0);
    EXPECT_GT(cost->ns_per_byte, 0);
    EXPECT_LT(cost->MessageNs(0), 60 * kSecondNs);
  }
}

TEST(LinkProbe, AsksRoundARingOfAnySize) {
  for (const int size : {2, 3, 4, 5, 8}) {
    SCOPED_TRACE(StrCat(size, " ranks"));
    MemoryNetwork network(size);
    Transports transports;
    for (int rank = 0; rank < size; ++rank)
      transports.push_back(network.Join(rank));
    ExpectCosts(ProbeAll(transports));
  }
}

TEST(LinkProbe, AsksOverTcp) {
  std::vector<UniqueFd> addresses;
  TcpSettings settings{.secret = "s"};
  for (int rank = 0; rank < 3; ++rank) {
    Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
    auto address = ReserveEndpoint(&endpoint);
    ASSERT_TRUE(address.ok()) << address.status();
    addresses.push_back(*std::move(address));
    settings.endpoints.push_back({endpoint});
  }
  Transports transports;
  for (int rank = 0; rank < 3; ++rank) {
    settings.self = rank;
    auto transport = TcpTransport::Make(SystemSeams(), settings);
    ASSERT_TRUE(transport.ok()) << transport.status();
    transports.push_back(*std::move(transport));
  }
  ExpectCosts(ProbeAll(transports));
}

// Its transfers are its own again, though they were posted.
TEST(LinkProbe, NobodyAnswers) {
  MemoryNetwork network(2);
  Transports transports;
  transports.push_back(network.Join(0));
  transports.push_back(network.Join(1));
  const int64_t begun_ns = MonotonicNs();
  for (const int rank : {0, 1}) {
    const auto cost = ProbeLink(SettingsOf(transports, rank, MonotonicNs() + kSecondNs / 20));
    EXPECT_EQ(ResultOf(cost.status()), WEFT_TIMEOUT) << cost.status();
  }
  EXPECT_LT(MonotonicNs() - begun_ns, 30 * kSecondNs);
}

TEST(LinkProbe, WhatIsNoRoundIsRefused) {
  for (const uint32_t messages : {17u, 0x7fffffffu}) {
    MemoryNetwork network(2);
    Transports transports;
    transports.push_back(network.Join(0));
    transports.push_back(network.Join(1));
    uint32_t order[2] = {messages, 8};
    Transfer strange{.peer = 0,
                     .stream = {kGroup, 2},
                     .is_send = true,
                     .memory = reinterpret_cast<std::byte*>(order),
                     .bytes = sizeof(order)};
    transports[1]->Post(&strange);
    const auto cost = ProbeLink(SettingsOf(transports, 0, MonotonicNs() + 60 * kSecondNs));
    EXPECT_EQ(ResultOf(cost.status()), WEFT_CORRUPT) << cost.status();
    EXPECT_NE(cost.status().message().find("rank 1"), std::string::npos) << cost.status();
    transports[1]->CloseGroup(kGroup);
  }
}

TEST(LinkWord, IsReadAsItWasWritten) {
  const LinkCost cost{.latency_ns = 12'345, .overhead_ns = 678, .ns_per_byte = 0.08};
  const auto read = LinkCostFromText(TextOf(cost));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->latency_ns, cost.latency_ns);
  EXPECT_EQ(read->overhead_ns, cost.overhead_ns);
  EXPECT_NEAR(read->ns_per_byte, cost.ns_per_byte, 1e-6);
  // What has been said once is said alike by all.
  EXPECT_EQ(TextOf(*read), TextOf(cost));
  EXPECT_EQ(*LinkCostFromText(TextOf(*read)), *read);
}

TEST(LinkWord, IsNoneIfItIsStrange) {
  for (const char* const text :
       {"", "link", "link 1 2", "link 1 2 3 4", "link -1 2 3", "link 1 -2 3", "link 1 2 0",
        "link 1 2 -3", "link 1 2 9223372036854775807", "link 9223372036854775807 2 3",
        "link 1 2 3x", "links 1 2 3", "it takes too long"}) {
    EXPECT_FALSE(LinkCostFromText(text).has_value()) << text;
  }
}

TEST(LinkWord, TheSlowestIsTheWorstOfEachNumber) {
  const LinkCost costs[] = {{.latency_ns = 5, .overhead_ns = 2, .ns_per_byte = 0.5},
                            {.latency_ns = 3, .overhead_ns = 7, .ns_per_byte = 0.25},
                            {.latency_ns = 4, .overhead_ns = 1, .ns_per_byte = 1}};
  EXPECT_EQ(Slowest(costs), (LinkCost{.latency_ns = 5, .overhead_ns = 7, .ns_per_byte = 1}));
}

}  // namespace
}  // namespace weft::link_probe_test
