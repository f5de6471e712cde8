// Blocks that all ranks of a group have: made and freed by all, refused clearly, never left behind; and results in
// one place for all ranks, bitwise those of buffers of one's own.
//
// A rank changes the result as soon as its call has returned, in its own part of it: a rank that still wrote there
// would be seen, by the comparison and by ThreadSanitizer.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "collective_model.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "comm/node/shared_blocks.h"
#include "fmt/format.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "tests/support/case_sample.h"
#include "tests/support/leak_check.h"

namespace weft::test::shared_memory_test {
namespace {

std::string Text(const absl::Status& status) {
  return std::string(status.message());
}

bool Says(const absl::Status& status, weft_result_t result, const char* words) {
  return ResultOf(status) == result && Text(status).find(words) != std::string::npos;
}

// Which ranks give shared memory as out, and which of two blocks.
enum class Who { kAll, kAllButFirst, kAllButLast, kEven, kTwoBlocks, kOne };
constexpr Who kWho[] = {Who::kAll,  Who::kAllButFirst, Who::kAllButLast,
                        Who::kEven, Who::kTwoBlocks,   Who::kOne};

// -1: memory of its own.
int BlockOf(Who who, int rank, int size) {
  switch (who) {
    case Who::kAll:
      return 0;
    case Who::kAllButFirst:
      return rank == 0 ? -1 : 0;
    case Who::kAllButLast:
      return rank == size - 1 ? -1 : 0;
    case Who::kEven:
      return rank % 2 == 0 ? 0 : -1;
    case Who::kTwoBlocks:
      return rank % 2;
    case Who::kOne:
      return rank == size / 2 ? 1 : -1;
  }
  return -1;
}

struct SharedCase {
  CollectiveCase test;
  Who who = Who::kAll;
  bool in_place = false;
  bool asynchronous = false;
  bool symmetric = false;  // the inputs
};

std::string Name(const SharedCase& c) {
  return fmt::format("{} shared by {}{}{}{}", c.test.Name(), static_cast<int>(c.who),
                     c.in_place ? ", in place" : "", c.asynchronous ? ", asynchronous" : "",
                     c.symmetric ? ", symmetric" : "");
}

std::vector<SharedCase> Cases(int size, uint64_t seed) {
  const auto ranks = static_cast<size_t>(size);
  const size_t counts[] = {1, 7, ranks + 1, 1021, 5003, 40'009, 300'007};
  const Protocol algorithms[] = {Protocol::kAuto, Protocol::kStaged, Protocol::kAuto};
  std::vector<SharedCase> all;
  for (const OpKind kind :
       {OpKind::kAllReduce, OpKind::kBroadcast, OpKind::kAllGather, OpKind::kAllGatherV}) {
    for (const weft_dtype_t dtype : {WEFT_FLOAT32, WEFT_BFLOAT16, WEFT_INT8}) {
      for (const size_t count : counts) {
        for (const Who who : kWho) {
          const uint64_t index = all.size();
          const bool large = count > 100'000;
          if (large && dtype != WEFT_INT8) continue;
          all.push_back(
              {.test = {.kind = kind,
                        .dtype = dtype,
                        .op = index % 7 == 0 ? kOpPremulSum : WEFT_SUM,
                        .root = static_cast<int>(index % ranks),
                        .count = count,
                        .seed = seed + index,
                        .algorithm = count < 1000 ? Protocol::kAuto : algorithms[index / 2 % 3]},
               .who = who,
               .in_place = kind != OpKind::kAllReduce && index % 5 < 2,
               .asynchronous = index % 3 == 0,
               .symmetric = index % 4 < 2});
        }
      }
    }
  }
  return all;
}

// Memory for the inputs or for an out of one's own.
struct Own {
  Own(size_t bytes, bool symmetric)
      : symmetric(symmetric),
        data(symmetric ? static_cast<char*>(*ProcessHeap().Allocate(bytes + 1))
                       : new char[bytes + 1]) {}

  Own(const Own&) = delete;
  Own& operator=(const Own&) = delete;

  ~Own() {
    if (symmetric) {
      (void)ProcessHeap().Free(data);
    } else {
      delete[] data;
    }
  }

  const bool symmetric;
  char* const data;
};

void Put(const Side& side, size_t element, const CollectiveModel& model, int rank, char* to) {
  for (const Piece& piece : side.pieces) {
    const std::vector<char> block = model.Input(rank, piece.block);
    std::copy_n(block.begin() + static_cast<ptrdiff_t>(piece.begin * element),
                piece.count * element, to + piece.at * element);
  }
}

std::string Compare(const Side& side, size_t element, const CollectiveModel& model, int rank,
                    const char* found) {
  for (const Piece& piece : side.pieces) {
    const std::vector<char> block = model.Expected(rank, piece.block);
    for (size_t i = 0; i < piece.count * element; ++i) {
      const char expected = block[piece.begin * element + i];
      const char actual = found[piece.at * element + i];
      if (expected == actual) continue;
      return fmt::format("byte {} is {:#04x}, not {:#04x}", piece.at * element + i,
                         static_cast<unsigned char>(actual), static_cast<unsigned char>(expected));
    }
  }
  return "";
}

absl::Status Issue(ProcessGroup& group, const Collective& call, bool asynchronous) {
  if (const absl::Status checked = CheckCollective(call, group.rank(), group.size()); !checked.ok())
    return checked;
  if (!asynchronous) return group.Run(call);
  absl::StatusOr<WorkRef> work = group.Start(call);
  return work.ok() ? (*work)->Wait(0) : work.status();
}

// `blocks`: two shared ones with room for everything.
std::string RunShared(ProcessGroup& group, const SharedCase& c, char* const* blocks) {
  const int rank = group.rank();
  const int size = group.size();
  const CollectiveModel model(c.test, size);
  const size_t element = model.element();
  const Side in = model.In(rank);
  const Side out = model.Out(rank);
  const int block = BlockOf(c.who, rank, size);
  const bool in_place = c.in_place && model.CanBeInPlace(rank) && model.HasInput(rank);
  Own own_in(in.extent * element, c.symmetric);
  Own own_out(out.extent * element, c.symmetric);
  char* const out_data = (block < 0 ? own_out.data : blocks[block]) +
                         (in_place ? model.InPlaceOut(rank) * element : 0);
  char* const in_data =
      in_place ? (block < 0 ? own_out.data : blocks[block]) + model.InPlaceIn(rank) * element
               : own_in.data;
  if (model.HasInput(rank)) Put(in, element, model, rank, in_data);
  Collective call{.kind = c.test.kind,
                  .dtype = c.test.dtype,
                  .op = c.test.op,
                  .root = c.test.root,
                  .count = c.test.count,
                  .algorithm = c.test.algorithm,
                  .custom = model.Custom(rank)};
  call.in = model.HasInput(rank) ? in_data : nullptr;
  call.out = out_data;
  auto layout = std::make_shared<BlockLayout>();
  if (model.IsVector()) {
    const Blocks ins{in.counts.data(), in.offsets.data()};
    const Blocks outs{out.counts.data(), out.offsets.data()};
    const absl::Status laid = LayOutBlocks(ins, outs, rank, size, layout.get(), &call);
    if (!laid.ok()) return Text(laid);
    call.layout = layout;
  }
  const absl::Status status = Issue(group, call, c.asynchronous);
  if (!status.ok()) return Name(c) + ": " + Text(status);
  const std::string difference = Compare(out, element, model, rank, out_data);
  if (!difference.empty()) return fmt::format("rank {}: {}: {}", rank, Name(c), difference);
  // All have looked before anybody prepares what comes next.
  return Text(group.Run({.kind = OpKind::kBarrier}));
}

size_t RoomBytes(int size) {
  return static_cast<size_t>(size) * 1'300'000 + 4096;
}

std::string RunSharedCases(ProcessGroup& group, const std::vector<SharedCase>& all,
                           const CaseSample& sample) {
  char* blocks[2];
  for (char*& block : blocks) {
    const absl::StatusOr<void*> made = group.AllocateShared(RoomBytes(group.size()));
    if (!made.ok()) return Text(made.status());
    block = static_cast<char*>(*made);
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (!sample.Takes(i)) continue;
    std::string problem = RunShared(group, all[i], blocks);
    if (!problem.empty()) return problem;
  }
  for (char* const block : blocks) {
    if (const absl::Status freed = group.FreeShared(block); !freed.ok()) return Text(freed);
  }
  return "";
}

class SharedThreads : public testing::TestWithParam<int> {};

TEST_P(SharedThreads, GetTheResultOnceAndBitwiseTheSame) {
  const uint64_t seed = TestSeed(4711);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<SharedCase> all = Cases(GetParam(), seed);
  const CaseSample sample({.every = 5, .sanitized = 11}, seed);
  EXPECT_EQ(RunThreadRanks(GetParam(), {.name = "shared"},
                           [&](ProcessGroup& group) { return RunSharedCases(group, all, sample); }),
            "");
  sample.Print("shared results on " + std::to_string(GetParam()) + " threads", all.size());
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(RankSet, SharedThreads, ::testing::ValuesIn(kThreadRanks));

class SharedProcesses : public testing::TestWithParam<int> {};

TEST_P(SharedProcesses, GetTheResultOnceAndBitwiseTheSame) {
  const uint64_t seed = TestSeed(4712);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const std::vector<SharedCase> all = Cases(GetParam(), seed);
  const CaseSample sample({.every = 7, .sanitized = 17}, seed);
  RunProcessRanks(GetParam(),
                  [&](ProcessGroup& group) { return RunSharedCases(group, all, sample); });
  sample.Print("shared results on " + std::to_string(GetParam()) + " processes", all.size());
}

INSTANTIATE_TEST_SUITE_P(RankSet, SharedProcesses, ::testing::ValuesIn(kProcessRanks));

// Each rank owns a part of the result: it changes it after every call, and gathers again.
std::string GatherAndChange(ProcessGroup& group, size_t count) {
  const auto size = static_cast<size_t>(group.size());
  const auto rank = static_cast<size_t>(group.rank());
  const absl::StatusOr<void*> block = group.AllocateShared(count * size * sizeof(uint32_t));
  if (!block.ok()) return Text(block.status());
  auto* const all = static_cast<uint32_t*>(*block);
  Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_UINT32, .count = count};
  gather.in = all + rank * count;
  gather.out = all;
  for (uint32_t step = 1; step <= 50; ++step) {
    for (size_t i = 0; i < count; ++i)
      all[rank * count + i] = step * 1000 + static_cast<uint32_t>(rank);
    if (const absl::Status done = group.Run(gather); !done.ok()) return Text(done);
    for (size_t i = 0; i < count * size; ++i) {
      const uint32_t expected = step * 1000 + static_cast<uint32_t>(i / count);
      if (all[i] != expected)
        return fmt::format("step {}: element {} is {}, not {}", step, i, all[i], expected);
    }
    // Nobody changes its part before all have looked.
    if (const absl::Status met = group.Run({.kind = OpKind::kBarrier}); !met.ok()) return Text(met);
  }
  return Text(group.FreeShared(all));
}

TEST(SharedResult, OfAnAllGatherInPlaceIsWhatEachRankWroteItself) {
  for (const size_t count : {1u, 700u, 20'011u}) {
    SCOPED_TRACE(count);
    for (const int size : {2, 3, 8}) {
      EXPECT_EQ(RunThreadRanks(size, {.name = "zero"},
                               [&](ProcessGroup& group) { return GatherAndChange(group, count); }),
                "");
    }
    RunProcessRanks(4, [&](ProcessGroup& group) { return GatherAndChange(group, count); });
  }
}

// A rank overwrites the whole result as soon as it has it and has told the others, in ops of every size: nobody
// may still be writing.
std::string OverwriteAtOnce(ProcessGroup& group, size_t count) {
  const absl::StatusOr<void*> block = group.AllocateShared(count * sizeof(float));
  if (!block.ok()) return Text(block.status());
  auto* const out = static_cast<float*>(*block);
  std::vector<float> in(count, 1);
  const auto size = static_cast<float>(group.size());
  for (int step = 0; step < 200; ++step) {
    const bool broadcast = step % 2 == 1;
    Collective call{.kind = broadcast ? OpKind::kBroadcast : OpKind::kAllReduce,
                    .dtype = WEFT_FLOAT32,
                    .root = step % group.size(),
                    .count = count};
    call.in = in.data();
    call.out = out;
    if (const absl::Status done = group.Run(call); !done.ok()) return Text(done);
    const float expected = broadcast ? 1 : size;
    for (size_t i = 0; i < count; ++i) {
      if (out[i] != expected) return fmt::format("step {}: {} at {}", step, out[i], i);
    }
    if (const absl::Status met = group.Run({.kind = OpKind::kBarrier}); !met.ok()) return Text(met);
    if (group.rank() == step % group.size()) std::memset(out, 0x7f, count * sizeof(float));
    if (const absl::Status met = group.Run({.kind = OpKind::kBarrier}); !met.ok()) return Text(met);
  }
  return Text(group.FreeShared(out));
}

TEST(SharedResult, IsNotWrittenAnyMoreWhenACallHasReturned) {
  for (const size_t count : {2u, 500u, 9000u}) {
    SCOPED_TRACE(count);
    for (const int size : {2, 5}) {
      EXPECT_EQ(RunThreadRanks(size, {.name = "once"},
                               [&](ProcessGroup& group) { return OverwriteAtOnce(group, count); }),
                "");
    }
    RunProcessRanks(2, [&](ProcessGroup& group) { return OverwriteAtOnce(group, count); });
  }
}

// The part has no rank in whose heap the block is.
TEST(SharedResult, MayBeOfAGroupWithoutTheOwnerOfTheBlock) {
  RunProcessRanks(4, [](ProcessGroup& group) -> std::string {
    constexpr size_t kMost = 30'000;
    const absl::StatusOr<void*> block = group.AllocateShared(kMost * sizeof(int32_t));
    if (!block.ok()) return Text(block.status());
    auto part = group.Split(group.rank() == 0 ? 0 : 1, 0, {});
    if (!part.ok()) return Text(part.status());
    auto* const out = static_cast<int32_t*>(*block);
    if (group.rank() > 0) {
      for (const size_t count : {size_t{3}, size_t{1000}, kMost}) {
        const std::vector<int32_t> in(count, group.rank());
        Collective call{.kind = OpKind::kAllReduce, .dtype = WEFT_INT32, .count = count};
        call.in = in.data();
        call.out = out;
        if (const absl::Status done = (*part)->Run(call); !done.ok()) return Text(done);
        for (size_t i = 0; i < count; ++i)
          if (out[i] != 6) return fmt::format("{} at {}", out[i], i);
        if (const absl::Status met = (*part)->Run({.kind = OpKind::kBarrier}); !met.ok())
          return Text(met);
      }
    }
    (*part)->Close();
    return Text(group.FreeShared(*block));
  });
}

TEST(SharedMemory, IsTheSamePagesOnAllRanks) {
  RunProcessRanks(4, [](ProcessGroup& group) -> std::string {
    const absl::StatusOr<void*> block = group.AllocateShared(10'000);
    if (!block.ok()) return Text(block.status());
    auto* const bytes = static_cast<unsigned char*>(*block);
    for (int i = 0; i < 10'000; ++i)
      if (bytes[i] != 0) return "not zeroed";
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier";
    bytes[group.rank()] = static_cast<unsigned char>(group.rank() + 1);
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier";
    for (int rank = 0; rank < group.size(); ++rank)
      if (bytes[rank] != rank + 1) return fmt::format("rank {}'s byte is {}", rank, bytes[rank]);
    return Text(group.FreeShared(bytes));
  });
}

TEST(SharedMemory, IsCountedAndGivenBack) {
  EXPECT_EQ(RunThreadRanks(3, {.name = "m"},
                           [](ProcessGroup& group) -> std::string {
                             const uint64_t before = group.stats().shared_bytes;
                             const absl::StatusOr<void*> block = group.AllocateShared(1 << 20);
                             if (!block.ok()) return Text(block.status());
                             const uint64_t held = group.stats().shared_bytes - before;
                             if (held != (group.rank() == 0 ? 1u << 20 : 0u)) return "not counted";
                             const absl::Status freed = group.FreeShared(*block);
                             if (!freed.ok()) return Text(freed);
                             return group.stats().shared_bytes == before ? "" : "still counted";
                           }),
            "");
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST(SharedMemory, GoesWithTheGroupIfNobodyFreesIt) {
  RunProcessRanks(3, [](ProcessGroup& group) {  // which checks for what is left behind
    return Text(group.AllocateShared(3 << 20).status());
  });
  EXPECT_EQ(RunThreadRanks(
                3, {.name = "m"},
                [](ProcessGroup& group) { return Text(group.AllocateShared(3 << 20).status()); }),
            "");
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
  EXPECT_FALSE(ProcessSharedBlocks().MayHold(&kWho));
}

TEST(SharedMemory, IsRefusedOnAllRanksIfTheyDisagree) {
  EXPECT_EQ(
      RunThreadRanks(
          3, {.name = "dp"},
          [](ProcessGroup& group) -> std::string {
            const bool outlier = group.rank() == 2;
            const absl::Status made = group.AllocateShared(outlier ? 4096 : 8192).status();
            if (!Says(made, WEFT_MISMATCH,
                      "rank 2 of group dp asks for 4096 bytes, rank 0 for 8192"))
              return "sizes: " + Text(made);
            const absl::StatusOr<void*> block = group.AllocateShared(100);
            const absl::StatusOr<void*> other = group.AllocateShared(100);
            if (!block.ok() || !other.ok()) return Text(block.status());
            const absl::Status freed = group.FreeShared(outlier ? *other : *block);
            if (!Says(freed, WEFT_MISMATCH, "rank 2 of group dp frees another block"))
              return "blocks: " + Text(freed);
            const absl::Status calls =
                outlier ? group.AllocateShared(5).status() : group.FreeShared(*block);
            if (!Says(calls, WEFT_MISMATCH,
                      "rank 2 of group dp called weft_mem_alloc_shared, rank 0 "
                      "weft_mem_free_shared"))
              return "calls: " + Text(calls);
            int local = 0;
            const absl::Status foreign = group.FreeShared(outlier ? &local : *block);
            if (outlier && !Says(foreign, WEFT_INVALID_ARGUMENT, "no shared block of group dp"))
              return "foreign: " + Text(foreign);
            if (!outlier && !Says(foreign, WEFT_REMOTE_ERROR, "rank 2 of group dp"))
              return "foreign elsewhere: " + Text(foreign);
            // The group works on, and has both blocks.
            const absl::Status both = group.FreeShared(*block);
            return both.ok() ? Text(group.FreeShared(*other)) : Text(both);
          }),
      "");
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

TEST(SharedMemory, ThatRankZeroDoesNotHaveIsAnErrorOnAllRanks) {
  RunProcessRanks(2, [](ProcessGroup& group) -> std::string {
    const absl::Status made = group.AllocateShared(size_t{1} << 46).status();
    if (group.rank() == 0) return Says(made, WEFT_OUT_OF_MEMORY, "") ? "" : Text(made);
    if (!Says(made, WEFT_REMOTE_ERROR, "rank 0 of group p has no memory")) return Text(made);
    return "";
  });
}

TEST(SharedMemory, IsNotFreedLikeARanksOwn) {
  EXPECT_EQ(RunThreadRanks(2, {.name = "m"},
                           [](ProcessGroup& group) -> std::string {
                             const absl::StatusOr<void*> block = group.AllocateShared(64);
                             if (!block.ok()) return Text(block.status());
                             const absl::Status freed = ProcessHeap().Free(*block);
                             if (!Says(freed, WEFT_INVALID_ARGUMENT, "weft_mem_free_shared"))
                               return Text(freed);
                             return Text(group.FreeShared(*block));
                           }),
            "");
}

// A rank that dies while all write to one block: the others are told, and nothing of theirs stays.
void KillOneThatShares(size_t count) {
  RunProcessRanks(4,
                  [&](ProcessGroup& group) -> std::string {
                    const absl::StatusOr<void*> block = group.AllocateShared(count * 4);
                    if (!block.ok()) return Text(block.status());
                    const std::vector<float> in(count, 1);
                    Collective call{
                        .kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .count = count};
                    call.in = in.data();
                    call.out = *block;
                    absl::Status status;
                    for (int i = 0; status.ok() && i < 1'000'000; ++i) {
                      if (group.rank() == 2 && i == 200) kill(getpid(), SIGKILL);
                      status = group.Run(call);
                    }
                    return Says(status, WEFT_PEER_LOST, "") && FieldsOf(status).rank == 2
                               ? ""
                               : "got: " + Text(status);
                  },
                  {2});
}

TEST(SharedMemory, OutlivesAKilledRankOnlyUntilTheGroupIsClosed) {
  KillOneThatShares(2);
  KillOneThatShares(1500);
  KillOneThatShares(50'000);
}

// The owner of the block dies: its pages stay mapped in the others.
TEST(SharedMemory, StaysReadableWhenItsOwnerIsGone) {
  RunProcessRanks(3,
                  [](ProcessGroup& group) -> std::string {
                    const absl::StatusOr<void*> block = group.AllocateShared(8192);
                    if (!block.ok()) return Text(block.status());
                    auto* const words = static_cast<uint32_t*>(*block);
                    if (group.rank() == 0) words[5] = 17;
                    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "barrier";
                    if (group.rank() == 0) kill(getpid(), SIGKILL);
                    const absl::Status lost = group.FreeShared(*block);
                    if (!Says(lost, WEFT_PEER_LOST, "")) return "got: " + Text(lost);
                    return words[5] == 17 ? "" : "the page is gone";
                  },
                  {0});
}

}  // namespace
}  // namespace weft::test::shared_memory_test
