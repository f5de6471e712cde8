// The C++ wrapper: every operation that wrapper_test.cc does not have, batches, reductions, registration. C++17.
#include <algorithm>
#include <chrono>
#include <complex>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.hpp"

#include "tests/install/local_ranks.h"

namespace {

using weft_test::OnRanks;
using Ints = std::vector<int32_t>;

TEST(WrapperOperations, RootedAndAllToAllFormsMoveTheirBlocks) {
  OnRanks(3, [](const weft::Group& group, int rank) {
    const Ints mine = {rank, 10 + rank, 20 + rank};
    Ints all(9, -1);
    group.Gather(mine.data(), rank == 1 ? all.data() : nullptr, 3, 1);
    EXPECT_EQ(all, rank == 1 ? (Ints{0, 10, 20, 1, 11, 21, 2, 12, 22}) : Ints(9, -1));
    int32_t one = -1;
    group.Scatter(rank == 2 ? mine.data() : nullptr, &one, 1, 2);
    EXPECT_EQ(one, 10 * rank + 2);
    Ints exchanged(3, -1);
    group.AllToAll(mine.data(), exchanged.data(), 1);
    EXPECT_EQ(exchanged, (Ints{10 * rank, 10 * rank + 1, 10 * rank + 2}));
    weft::Work work = group.Start().AllToAll(mine.data(), exchanged.data(), 1, WEFT_INT32);
    work.Wait();
  });
}

TEST(WrapperOperations, CountsPerRank) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    const std::vector<std::size_t> counts = {1, 2};
    const std::size_t mine = counts[static_cast<std::size_t>(rank)];
    const Ints in = {rank, rank + 5};
    Ints out(3, -1);
    group.AllGatherV(in.data(), out.data(), counts.data());
    EXPECT_EQ(out, (Ints{0, 1, 6}));
    out.assign(3, -1);
    group.GatherV(in.data(), mine, out.data(), counts.data(), nullptr, 0);
    EXPECT_EQ(out, rank == 0 ? (Ints{0, 1, 6}) : Ints(3, -1));
    const Ints three = {1, 2, 3};
    Ints part(2, -1);
    group.ScatterV(three.data(), counts.data(), nullptr, part.data(), mine, 1);
    EXPECT_EQ(part, rank == 0 ? (Ints{1, -1}) : (Ints{2, 3}));
    group.ReduceScatterV(three.data(), part.data(), counts.data(), nullptr, WEFT_SUM);
    EXPECT_EQ(part, rank == 0 ? (Ints{2, -1}) : (Ints{4, 6}));
    // Rank r sends r + 1 elements to everybody.
    const std::vector<std::size_t> sent(2, mine);
    const Ints doubled = {rank, rank, rank, rank};
    out.assign(3, -1);
    group.AllToAllV(doubled.data(), sent.data(), nullptr, out.data(), counts.data(), nullptr);
    EXPECT_EQ(out, (Ints{0, 1, 1}));
  });
}

TEST(WrapperOperations, ListsOfBuffers) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    float a[2] = {1, 2};
    float b = static_cast<float>(rank);
    group.AllReduceIov({{a, a, 2}, {&b, &b, 1}}, WEFT_FLOAT32, WEFT_SUM);
    EXPECT_EQ(a[1], 4.0f);
    EXPECT_EQ(b, 1.0f);
    float gathered[4] = {};
    float two[2] = {};
    b = static_cast<float>(rank + 1);
    group.AllGatherIov({{a, gathered, 2}, {&b, two, 1}}, WEFT_FLOAT32);
    EXPECT_EQ(two[1], 2.0f);
    float sums[2] = {};
    group.ReduceScatterIov({{gathered, &sums[0], 1}, {two, &sums[1], 1}}, WEFT_FLOAT32, WEFT_SUM);
    EXPECT_EQ(sums[1], static_cast<float>(2 * (rank + 1)));
  });
}

TEST(WrapperOperations, MessagesFindTheirReceiver) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    const int peer = 1 - rank;
    double x = rank;
    double y = -1;
    int sender = -1;
    if (rank == 0) {
      group.Send(&x, 1, peer);
      group.Send(&x, sizeof(x), WEFT_UINT8, peer, 9);
    } else {
      group.Recv(&y, 1, peer);
      EXPECT_EQ(y, 0.0);
      group.Recv(static_cast<void*>(&y), sizeof(y), WEFT_UINT8, WEFT_ANY_SOURCE, 9, &sender);
      EXPECT_EQ(sender, 0);
    }
    group.SendRecv(&x, 1, peer, 3, &y, 1, peer, 3);
    EXPECT_EQ(y, static_cast<double>(peer));
  });
}

TEST(WrapperOperations, ABatchExchangesAndEndsByItselfWhenLeft) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    const int peer = 1 - rank;
    int64_t x = rank;
    int64_t y = -1;
    int64_t sum = rank + 1;
    weft::Batch batch;
    group.Recv(&y, 1, peer);
    group.Send(&x, 1, peer);
    group.AllReduce(&sum, &sum, 1, WEFT_SUM);
    EXPECT_EQ(y, -1);
    batch.End();
    EXPECT_EQ(y, peer);
    EXPECT_EQ(sum, 3);
    {
      const weft::Batch left;
      group.AllReduce(&sum, &sum, 1, WEFT_SUM);
    }
    EXPECT_EQ(sum, 6);
    EXPECT_EQ(weft_batch_end(), WEFT_BAD_STATE);
  });
}

TEST(WrapperOperations, ABatchThatAnExceptionLeavesStartsNothing) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    int64_t sum = rank + 1;
    if (rank == 0) {
      weft::Work work;
      try {
        const weft::Batch outer;
        work = group.Start().AllReduce(&sum, &sum, 1, WEFT_SUM);
        const weft::Batch inner;
        group.AllReduce(&sum, &sum, 1, WEFT_SUM);
        throw std::runtime_error("the second half is missing");
      } catch (const std::runtime_error&) {
        EXPECT_EQ(sum, 1);
      }
      EXPECT_EQ(work.Error(), WEFT_ABORTED);
    }
    try {
      group.AllReduce(&sum, &sum, 1, WEFT_SUM);
      ADD_FAILURE() << "the group was not aborted";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.result(), WEFT_ABORTED);
      EXPECT_NE(std::string(error.what()).find("weft_batch_cancel"), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(sum, rank + 1);
    EXPECT_EQ(weft_batch_end(), WEFT_BAD_STATE);
  });
}

// A destructor may use batches, also while an exception leaves the scope of the object.
TEST(WrapperOperations, ABatchWithinADestructorEndsDuringAnException) {
  OnRanks(2, [](const weft::Group& group, int) {
    struct SumsWhenLeft {
      ~SumsWhenLeft() {
        const weft::Batch batch;
        group.AllReduce(sum, sum, 1, WEFT_SUM);
      }

      const weft::Group& group;
      int64_t* sum;
    };

    int64_t sum = 2;
    try {
      const SumsWhenLeft left{group, &sum};
      throw std::runtime_error("of something else");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(sum, 4);
  });
}

TEST(WrapperOperations, ABatchMayBeCancelled) {
  OnRanks(1, [](const weft::Group& group, int) {
    const int64_t from = 5;
    int64_t to = 0;
    weft::Batch batch;
    group.Broadcast(&from, &to, 1, 0);
    batch.Cancel();
    EXPECT_EQ(to, 0);
    EXPECT_THROW(group.Barrier(), weft::Error);
  });
}

TEST(WrapperOperations, AGroupsDeadlineAndSequence) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    EXPECT_EQ(group.Sequence(), 0u);
    group.SetTimeout(std::chrono::seconds(30));
    group.Barrier();
    EXPECT_EQ(group.Sequence(), 1u);
    EXPECT_THROW(group.SetTimeout(std::chrono::nanoseconds(-1)), weft::Error);
    if (rank == 1) return;
    group.SetTimeout(std::chrono::milliseconds(250));
    try {
      group.Barrier();
      ADD_FAILURE() << "the other rank did not come";
    } catch (const weft::Error& error) {
      EXPECT_EQ(error.info().sequence, 2);
    }
  });
}

TEST(WrapperOperations, ReductionsOfYourOwn) {
  OnRanks(3, [](const weft::Group& group, int rank) {
    const weft::Op half = weft::Op::PremulSum(0.5f);
    float x = static_cast<float>(rank);
    group.AllReduce(&x, &x, 1, half);
    EXPECT_EQ(x, 1.5f);
    // Not commutative: the leftmost digit is rank 0's.
    const weft::Op digits =
        weft::Op::Of<int64_t>("digits", [](int64_t left, int64_t right) -> int64_t {
          int64_t scale = 1;
          while (scale <= right)
            scale *= 10;
          return left * scale + right;
        });
    int64_t number = rank + 1;
    group.AllReduce(&number, &number, 1, digits);
    EXPECT_EQ(number, 123);
    using Complex = std::complex<double>;
    const weft::Op product = weft::Op::Of<double, Complex>(
        "complex product", [](Complex a, Complex b) { return a * b; });
    std::vector<Complex> turned(3001, Complex(0, rank + 1));
    auto* const values = reinterpret_cast<double*>(turned.data());
    group.AllReduce(values, values, 2 * turned.size(), product);
    EXPECT_EQ(turned, std::vector<Complex>(3001, Complex(0, -6)));
    EXPECT_THROW(group.AllReduce(values, values, 3, product), weft::Error);
    weft::Op moved = weft::Op::PremulSum(2.0);
    moved = weft::Op::PremulSum(3.0);
    EXPECT_GE(moved.get(), WEFT_OP_CUSTOM_FIRST);
  });
}

TEST(WrapperOperations, RegisteredMemoryKeepsItsContents) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    constexpr std::size_t kBytes = 8192;
    const std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(4096, kBytes),
                                                             &std::free);
    auto* const x = static_cast<int32_t*>(memory.get());
    for (int i = 0; i < 2048; ++i)
      x[i] = rank + i;
    weft::Registration registration(memory.get(), kBytes);
    EXPECT_EQ(x[2047], rank + 2047);
    group.AllReduce(x, x, 2048, WEFT_SUM);
    registration.Deregister();
    EXPECT_FALSE(registration);
    EXPECT_EQ(x[2047], 2 * 2047 + 1);
    EXPECT_THROW(weft::Registration(memory.get(), 5), weft::Error);
  });
}

TEST(WrapperOperations, GroupsFromRanksStatsAndExplain) {
  OnRanks(3, [](const weft::Group& group, int rank) {
    const weft::Group pair = group.FromRanks({2, 0});
    EXPECT_EQ(static_cast<bool>(pair), rank != 1);
    if (pair) {
      EXPECT_EQ(pair.Rank(), rank == 2 ? 0 : 1);
      pair.Barrier();
    }
    float x = 0;
    group.AllReduce(&x, &x, 1, WEFT_SUM);
    const weft_group_stats_t stats = group.Stats();
    EXPECT_GE(stats.collectives, 1u);
    EXPECT_GE(stats.in_bytes, sizeof(float));
    EXPECT_EQ(stats.failures, 0u);
    weft_explain_query_t query = {};
    query.struct_size = sizeof(query);
    query.operation = "all_reduce";
    query.count = 1 << 20;
    query.dtype = WEFT_FLOAT32;
    const std::string text = group.Explain(query);
    EXPECT_NE(text.find("algorithm: "), std::string::npos) << text;
    EXPECT_EQ(text.find('\0'), std::string::npos);
  });
}

TEST(WrapperOperations, SharedMemoryIsOneResultForAllRanks) {
  OnRanks(3, [](const weft::Group& group, int rank) {
    constexpr size_t kCount = 30000;
    auto* const all = static_cast<int32_t*>(group.AllocateShared(3 * kCount * sizeof(int32_t)));
    int32_t* const own = all + static_cast<size_t>(rank) * kCount;
    std::fill(own, own + kCount, rank + 1);
    group.AllGather(own, all, kCount);
    EXPECT_EQ(all[0], 1);
    EXPECT_EQ(all[kCount], 2);
    EXPECT_EQ(all[3 * kCount - 1], 3);
    group.FreeShared(all);
    EXPECT_THROW(group.FreeShared(all), weft::Error);
  });
}

TEST(WrapperOperations, MemoryCopiedFromAnywhereCanBeReached) {
  OnRanks(2, [](const weft::Group& group, int rank) {
    const std::vector<float> foreign(1'000'003, static_cast<float>(rank + 1));
    const weft::Memory view = weft::Memory::CopyOf(foreign.data(), foreign.size() * sizeof(float));
    auto* const x = view.As<float>();
    EXPECT_EQ(x[0], foreign[0]);
    EXPECT_EQ(x[foreign.size() - 1], foreign[0]);
    weft_call_t call = {};
    call.struct_size = sizeof(call);
    call.algorithm = "direct";  // refused on private memory
    group.With(call).AllReduce(x, x, foreign.size(), WEFT_SUM);
    EXPECT_EQ(x[foreign.size() - 1], 3.0f);
    EXPECT_EQ(view.size_bytes(), foreign.size() * sizeof(float));
  });
}

TEST(WrapperOperations, ExplainNamesSharedResultsAndWhatACopyWouldCost) {
  OnRanks(2, [](const weft::Group& group, int) {
    weft_explain_query_t query = {};
    query.struct_size = sizeof(query);
    query.operation = "all_reduce";
    query.count = 1 << 20;
    query.dtype = WEFT_FLOAT32;
    EXPECT_NE(group.Explain(query).find("\nwith a copy: "), std::string::npos);
    query.symmetric = 1;
    EXPECT_EQ(group.Explain(query).find("\nwith a copy: "), std::string::npos);
    query.symmetric = 2;
    const std::string shared = group.Explain(query);
    EXPECT_NE(
        shared.find("\nresult: shared, in one place for all ranks, every byte written once\n"),
        std::string::npos)
        << shared;
    EXPECT_NE(shared.find("\nalgorithm: direct\n"), std::string::npos) << shared;
    EXPECT_NE(shared.find("\nbytes moved: 12582912 "), std::string::npos) << shared;  // (P+1)S
    query.count = 2;
    EXPECT_NE(group.Explain(query).find("written by each of them in turn"), std::string::npos);
    query.operation = "reduce_scatter";
    EXPECT_NE(group.Explain(query).find("\nresult: not shared"), std::string::npos);
  });
}

TEST(WrapperOperations, ProgressCountsWhatHasNotEnded) {
  OnRanks(1, [](const weft::Group& group, int) {
    EXPECT_GE(weft::ProgressFd(), 0);
    int32_t x = 1;
    const weft::Work work = group.Start().AllReduce(&x, &x, 1, WEFT_SUM);
    work.Wait();
    EXPECT_EQ(work.Error(), WEFT_SUCCESS);
    EXPECT_EQ(weft::Progress(), 0);
  });
}

}  // namespace
