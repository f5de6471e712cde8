#include "bench/weft_perf/operation.h"

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bench/weft_perf/report.h"
#include "bench/weft_perf/traffic.h"
#include "bench/weft_perf/values.h"

namespace weft::perf::operation_test {
namespace {

Extent Of(const char* name, size_t bytes, size_t element_size, int ranks) {
  return ExtentOf(*FindOperation(name), bytes, element_size, ranks);
}

TEST(Operation, WholeOperationsPassTheCountOn) {
  for (const char* name : {"all_reduce", "reduce", "broadcast"}) {
    const Extent extent = Of(name, 1027, 4, 3);
    EXPECT_EQ(extent.count, 256u) << name;
    EXPECT_EQ(extent.send_bytes, 1024u) << name;
    EXPECT_EQ(extent.recv_bytes, 1024u) << name;
    EXPECT_EQ(extent.send_in_place_step, 0u) << name;
    EXPECT_EQ(extent.recv_in_place_step, 0u) << name;
  }
}

TEST(Operation, ChunksAreRoundedDownToSixteenBytes) {
  const Extent gather = Of("all_gather", 1000, 4, 3);  // 250 / 3 = 83 -> 80
  EXPECT_EQ(gather.count, 80u);
  EXPECT_EQ(gather.send_count, 80u);
  EXPECT_EQ(gather.recv_count, 240u);
  EXPECT_EQ(gather.send_in_place_step, 80u);
  EXPECT_EQ(gather.recv_in_place_step, 0u);
  EXPECT_EQ(gather.bytes(), 960u);

  const Extent scatter = Of("reduce_scatter", 1000, 2, 3);  // 500 / 3 = 166 -> 160
  EXPECT_EQ(scatter.count, 160u);
  EXPECT_EQ(scatter.send_count, 480u);
  EXPECT_EQ(scatter.recv_count, 160u);
  EXPECT_EQ(scatter.send_in_place_step, 0u);
  EXPECT_EQ(scatter.recv_in_place_step, 160u);
  EXPECT_EQ(scatter.bytes(), 960u);
}

TEST(Operation, RootedAndExchangedChunksStandAsInNcclTests) {
  const Extent gather = Of("gather", 1000, 4, 3);
  EXPECT_EQ(gather.count, 80u);
  EXPECT_EQ(gather.send_count, 80u);
  EXPECT_EQ(gather.recv_count, 240u);
  EXPECT_EQ(gather.send_in_place_step, 80u);
  EXPECT_EQ(gather.recv_in_place_step, 0u);

  const Extent scatter = Of("scatter", 1000, 4, 3);
  EXPECT_EQ(scatter.count, 80u);
  EXPECT_EQ(scatter.send_count, 240u);
  EXPECT_EQ(scatter.recv_count, 80u);
  EXPECT_EQ(scatter.send_in_place_step, 0u);
  EXPECT_EQ(scatter.recv_in_place_step, 80u);

  const Extent exchange = Of("alltoall", 1000, 4, 3);
  EXPECT_EQ(exchange.count, 80u);
  EXPECT_EQ(exchange.send_count, 240u);
  EXPECT_EQ(exchange.recv_count, 240u);
  EXPECT_EQ(exchange.send_in_place_step, 0u);
  EXPECT_EQ(exchange.recv_in_place_step, 0u);

  const Extent cube = Of("hypercube", 1000, 4, 4);  // 250 / 4 = 62 -> 60
  EXPECT_EQ(cube.count, 60u);
  EXPECT_EQ(cube.recv_count, 240u);
  EXPECT_EQ(cube.send_in_place_step, 60u);

  const Extent ring = Of("sendrecv", 1027, 4, 3);
  EXPECT_EQ(ring.count, 256u);
  EXPECT_EQ(ring.bytes(), 1024u);
  EXPECT_EQ(Of("barrier", 1024, 4, 3).bytes(), 0u);
}

TEST(Operation, UnequalBlocksHaveTheSizeOfTheBusiestRank) {
  const Traffic by_distance;
  const Operation& operation = *FindOperation("alltoallv");
  // 1000 bytes: 80 x 3 elements of 4 bytes, 960; 0, 320 and 640 bytes to the three ranks.
  const Extent extent = ExtentOf(operation, 1000, 4, 3, &by_distance);
  EXPECT_EQ(extent.count, 80u);
  EXPECT_EQ(extent.send_count, 240u);
  EXPECT_EQ(extent.recv_count, 240u);
  EXPECT_EQ(extent.bytes(), 960u);

  Traffic matrix;
  ASSERT_TRUE(Traffic::FromMatrix("0 32 64\n16 0 0\n0 0 128\n", "m", 1, &matrix).ok());
  const Extent unequal = ExtentOf(operation, 1000, 4, 3, &matrix);
  EXPECT_EQ(unequal.count, 0u);         // as nccl-tests prints it
  EXPECT_EQ(unequal.send_bytes, 128u);  // rank 2
  EXPECT_EQ(unequal.recv_bytes, 192u);  // rank 2
  EXPECT_DOUBLE_EQ(BandwidthOf(operation, unequal, 4, 3, 1e-6).algorithm, 0.192);
  EXPECT_DOUBLE_EQ(BandwidthOf(operation, unequal, 4, 3, 1e-6).bus, 0.128);
}

TEST(Operation, WhatIsNotCheckedInPlaceIsAsInNcclTests) {
  std::string unchecked;
  for (const Operation& operation : Operations()) {
    if (!operation.checked_in_place) unchecked += std::string(operation.name) + " ";
  }
  EXPECT_EQ(unchecked, "alltoall alltoallv sendrecv barrier ");
}

TEST(Operation, SmallChunksBecomeNothing) {
  EXPECT_EQ(Of("all_gather", 8, 4, 2).bytes(), 0u);
  EXPECT_EQ(Of("reduce_scatter", 31, 1, 2).bytes(), 0u);
  EXPECT_EQ(Of("reduce_scatter", 32, 1, 2).bytes(), 32u);
}

TEST(Operation, BusBandwidthHasTheFactorOfTheOperation) {
  const struct {
    const char* name;
    double factor;
  } cases[] = {{"all_reduce", 1.5},      {"reduce", 1},      {"broadcast", 1}, {"all_gather", 0.75},
               {"reduce_scatter", 0.75}, {"alltoall", 0.75}, {"gather", 0.75}, {"scatter", 0.75},
               {"sendrecv", 1}};

  for (const auto& c : cases) {
    const Operation& operation = *FindOperation(c.name);
    const Extent extent = ExtentOf(operation, 1 << 20, 4, 4);
    const Bandwidth bandwidth = BandwidthOf(operation, extent, 4, 4, 1e-3);
    EXPECT_DOUBLE_EQ(bandwidth.algorithm, 1.048576) << c.name;
    EXPECT_DOUBLE_EQ(bandwidth.bus, 1.048576 * c.factor) << c.name;
  }
}

TEST(Operation, AHypercubeCountsWhatTravels) {
  const Operation& operation = *FindOperation("hypercube");
  const Extent extent = ExtentOf(operation, 1 << 20, 4, 4);
  const Bandwidth bandwidth = BandwidthOf(operation, extent, 4, 4, 1e-3);
  EXPECT_DOUBLE_EQ(bandwidth.algorithm, 1.048576 * 0.75);
  EXPECT_DOUBLE_EQ(bandwidth.bus, bandwidth.algorithm);
}

TEST(Operation, OneRankHasNoBusBandwidth) {
  const Operation& operation = *FindOperation("all_reduce");
  EXPECT_EQ(BandwidthOf(operation, ExtentOf(operation, 4096, 4, 1), 4, 1, 1e-6).bus, 0);
}

TEST(Operation, NamesOfNcclTestsFindTheSame) {
  for (const Operation& operation : Operations()) {
    EXPECT_EQ(FindOperation(operation.name), &operation);
    EXPECT_EQ(FindOperation(operation.perf_name()), &operation);
  }
  EXPECT_EQ(FindOperation("weft_perf"), nullptr);
}

TEST(Bound, FractionsFollowFromTheAccesses) {
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kAllReduce, 2, true, true), 0.5);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kAllReduce, 2, false, true), 0.25);
  EXPECT_NEAR(BoundFraction(OperationKind::kAllReduce, 8, false, false), 0.0921, 1e-4);
  EXPECT_NEAR(BoundFraction(OperationKind::kReduceScatter, 2, true, true), 1.0 / 3, 1e-12);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kReduceScatter, 2, false, true), 0.2);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kAllGather, 4, true, true), 0.375);
  EXPECT_LT(BoundFraction(OperationKind::kAllGather, 4, true, false), 0.375);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kBroadcast, 8, false, true), 0.125);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kGather, 2, true, true), 1);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kScatter, 2, false, false), 1.0 / 3);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kAllToAll, 2, true, true), 0.5);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kSendRecv, 4, false, false), 0.125);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kHyperCube, 2, false, true), 0.25);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kScan, 2, true, true), 0.5);
  EXPECT_DOUBLE_EQ(BoundFraction(OperationKind::kExscan, 2, false, true), 0.5);
  EXPECT_EQ(BoundFraction(OperationKind::kAllToAllV, 2, true, true), 0);
  EXPECT_EQ(BoundFraction(OperationKind::kBarrier, 2, true, true), 0);
  EXPECT_EQ(BoundFraction(OperationKind::kAllReduce, 1, true, true), 0);
}

TEST(Statistics, TheTableTimeFollowsTheOption) {
  const double times[] = {4, 1, 7};
  EXPECT_EQ(Combine(times, Average::kRank0), 4);
  EXPECT_EQ(Combine(times, Average::kMean), 4);
  EXPECT_EQ(Combine(times, Average::kMin), 1);
  EXPECT_EQ(Combine(times, Average::kMax), 7);
}

TEST(Statistics, SummaryUsesNearestRanks) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i)
    times.push_back(i);
  const IterationSummary summary = Summarise(times);
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 100);
  EXPECT_EQ(summary.p50, 51);
  EXPECT_EQ(summary.p95, 95);
  EXPECT_EQ(summary.p99, 99);
  EXPECT_DOUBLE_EQ(summary.mean, 50.5);
  EXPECT_NEAR(summary.deviation, std::sqrt((100.0 * 100 - 1) / 12), 1e-9);
  const double one[] = {3};
  EXPECT_EQ(Summarise(one).p99, 3);
  EXPECT_EQ(Summarise(one).deviation, 0);
}

TEST(Statistics, AnIterationTakesAsLongAsItsSlowestRank) {
  const double of_ranks[] = {1, 5, 2, 3, 4, 2};
  EXPECT_EQ(SlowestPerIteration(of_ranks, 3), (std::vector<double>{3, 5, 2}));
}

TEST(Element, FloatsRoundToNearestEven) {
  const ElementType& half = *FindElementType("half");
  EXPECT_EQ(EncodeFloat(0, half), 0u);
  EXPECT_EQ(EncodeFloat(-0.0, half), 0x8000u);
  EXPECT_EQ(EncodeFloat(1, half), 0x3c00u);
  EXPECT_EQ(EncodeFloat(-2, half), 0xc000u);
  EXPECT_EQ(EncodeFloat(2049, half), 0x6800u);  // between 2048 and 2050: even
  EXPECT_EQ(EncodeFloat(2051, half), 0x6802u);  // between 2050 and 2052: even
  EXPECT_EQ(EncodeFloat(65504, half), 0x7bffu);
  EXPECT_EQ(EncodeFloat(65520, half), 0x7c00u);
  EXPECT_EQ(EncodeFloat(std::ldexp(1, -24), half), 0x0001u);
  EXPECT_EQ(EncodeFloat(std::ldexp(1, -26), half), 0x0000u);
  const ElementType& bfloat16 = *FindElementType("bfloat16");
  EXPECT_EQ(EncodeFloat(1, bfloat16), 0x3f80u);
  EXPECT_EQ(EncodeFloat(257, bfloat16), 0x4380u);
  const ElementType& e4m3 = *FindElementType("f8e4m3");
  EXPECT_EQ(EncodeFloat(1, e4m3), 0x38u);
  EXPECT_EQ(EncodeFloat(448, e4m3), 0x7eu);
  EXPECT_EQ(EncodeFloat(-463, e4m3), 0xfeu);
  EXPECT_EQ(EncodeFloat(464, e4m3), 0x7eu);  // the largest number, there is no infinity
  EXPECT_EQ(EncodeFloat(1e9, e4m3), 0x7eu);
  EXPECT_EQ(EncodeFloat(416, e4m3), 0x7du);
  EXPECT_EQ(EncodeFloat(std::ldexp(1, -9), e4m3), 0x01u);
  const ElementType& e5m2 = *FindElementType("f8e5m2");
  EXPECT_EQ(EncodeFloat(1, e5m2), 0x3cu);
  EXPECT_EQ(EncodeFloat(57344, e5m2), 0x7bu);
  EXPECT_EQ(EncodeFloat(61440, e5m2), 0x7cu);
  EXPECT_EQ(EncodeElement(2, e5m2), 0x40u);
  EXPECT_EQ(EncodeElement(2, *FindElementType("uint8")), 2u);
  EXPECT_EQ(EncodeFloat(1.5, *FindElementType("float")), 0x3fc00000u);
  EXPECT_EQ(EncodeFloat(1.5, *FindElementType("double")), 0x3ff8000000000000u);
}

}  // namespace
}  // namespace weft::perf::operation_test
