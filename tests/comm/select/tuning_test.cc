// Choices turn where they should, and nothing that a peer could write is taken for a choice.
#include "comm/select/tuning.h"

#include <cstring>
#include <iterator>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "base/status.h"
#include "comm/select/predict.h"
#include "tests/comm/select/random_model.h"
#include "tests/support/leak_check.h"

namespace weft::test::tuning_test {
namespace {

constexpr int kRanks[] = {1, 2, 3, 4, 5, 7, 8, 16, 33, 64};

TEST(MachineModel, TheStaticOneIsSane) {
  EXPECT_TRUE(IsSane(MachineModel()));
  EXPECT_TRUE(IsSane(StaticModel(ReadHostFacts())));
}

TEST(MachineModel, TakesCachesAndCoresFromTheHost) {
  HostFacts host;
  host.l1_bytes = 48 << 10;
  host.l2_bytes = 2 << 20;
  host.l3_bytes = 96 << 20;
  host.cores = 1.5;
  const MachineModel model = StaticModel(host);
  EXPECT_EQ(model.l1_bytes, host.l1_bytes);
  EXPECT_EQ(model.l2_bytes, host.l2_bytes);
  EXPECT_EQ(model.l3_bytes, host.l3_bytes);
  EXPECT_EQ(model.cores, 1.5);
}

TEST(MachineModel, EveryTimeMustBeATime) {
  for (const ModelField& field : ModelFields()) {
    for (const double bad : {0.0, -1.0, kModelTimeMaxNs, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
      MachineModel model;
      model.*field.value = bad;
      EXPECT_FALSE(IsSane(model)) << field.name << " = " << bad;
    }
  }
  for (uint64_t MachineModel::*cache :
       {&MachineModel::l1_bytes, &MachineModel::l2_bytes, &MachineModel::l3_bytes}) {
    MachineModel model;
    model.*cache = 0;
    EXPECT_FALSE(IsSane(model));
  }
  for (const double cores : {0.0, -2.0, 1e9, std::numeric_limits<double>::quiet_NaN()}) {
    MachineModel model;
    model.cores = cores;
    EXPECT_FALSE(IsSane(model)) << cores;
  }
}

TEST(MachineModel, EveryTimeIsAField) {
  // Times come first in the struct, then three sizes and the cores.
  EXPECT_EQ(ModelFields().size() * sizeof(double) + 3 * sizeof(uint64_t) + sizeof(double),
            sizeof(MachineModel));
}

TEST(Choose, IsValidForAnyModel) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int round = 0; round < 2000; ++round) {
    const MachineModel model = RandomModel(random);
    ASSERT_TRUE(IsSane(model));
    for (const int ranks : kRanks) {
      const Tuning tuning = Choose(model, ranks);
      ASSERT_TRUE(Validate(tuning, ranks).ok())
          << Validate(tuning, ranks) << ", " << ranks << " ranks";
      ASSERT_LE(uint64_t{tuning.stage_piece_bytes} * ranks,
                std::max<uint64_t>(kStagePiecesBytesMax, uint64_t{kStagePieceBytesMin} * ranks));
    }
  }
}

TEST(Choose, IsAFunctionOfItsArguments) {
  const Tuning a = Choose(ZenModel(), 4);
  const Tuning b = Choose(ZenModel(), 4);
  EXPECT_EQ(std::memcmp(&a, &b, sizeof a), 0);
}

TEST(Choose, TakesNonsenseForOneRank) {
  EXPECT_TRUE(Validate(Choose(MachineModel(), 0), 1).ok());
  EXPECT_TRUE(Validate(Choose(MachineModel(), -5), 1).ok());
}

TEST(Choose, StreamsStagingWhereWritingAndReadingIsClearlyCheaper) {
  MachineModel model;
  model.store_shared_stream_line_ns = 2;
  model.read_shared_plain_line_ns = 1.5;
  model.read_shared_stream_line_ns = 4.5;
  model.store_shared_plain_line_ns = 12.9;  // 14.4 against 6.5 and the penalty of 8
  EXPECT_EQ(Choose(model, 2).stream_stage, 0);
  EXPECT_EQ(Choose(model, 2).stream_stage_min_bytes, kNever);
  model.store_shared_plain_line_ns = 13.1;
  EXPECT_EQ(Choose(model, 2).stream_stage, 1);
  EXPECT_LT(Choose(model, 2).stream_stage_min_bytes, kNever);
}

TEST(Choose, StreamsFromTheSoonerTheMoreItGains) {
  const Tuning near = Choose(ZenModel(15), 2);
  const Tuning far = Choose(ZenModel(28), 2);
  EXPECT_EQ(near.stream_stage, 1);
  EXPECT_EQ(far.stream_stage, 1);
  EXPECT_GE(near.stream_stage_min_bytes, far.stream_stage_min_bytes);
  EXPECT_FALSE(StreamsStage(far, far.stream_stage_min_bytes - 1));
  EXPECT_TRUE(StreamsStage(far, far.stream_stage_min_bytes));
}

TEST(Choose, StreamsCopiesOutOnlyWhereMemoryIsFasterForIt) {
  MachineModel model;
  model.dram_copy_line_ns = 5;
  model.dram_copy_stream_line_ns = 4.8;
  EXPECT_EQ(Choose(model, 2).stream_out_min_bytes, kNever);
  model.dram_copy_stream_line_ns = 4;
  const uint64_t from = Choose(model, 2).stream_out_min_bytes;
  EXPECT_LT(from, kNever);
  EXPECT_GE(from, 2 * model.l2_bytes);
}

TEST(Choose, AVirtualMachinesHugeLastLevelDoesNotForbidStreaming) {
  MachineModel model;
  model.dram_copy_stream_line_ns = model.dram_copy_line_ns / 2;
  model.l3_bytes = uint64_t{480} << 20;
  EXPECT_LE(Choose(model, 2).stream_out_min_bytes, uint64_t{24} << 20);
}

TEST(Choose, PiecesGetSmallerWithMoreRanksThatHaveCores) {
  MachineModel model;
  model.cores = 64;
  model.l2_bytes = 2 << 20;
  uint32_t last = UINT32_MAX;
  for (const int ranks : {2, 4, 8, 16, 32}) {
    const uint32_t bytes = Choose(model, ranks).stage_piece_bytes;
    EXPECT_LE(bytes, last) << ranks;
    last = bytes;
  }
  EXPECT_EQ(Choose(model, 2).stage_piece_bytes, 256u << 10);
}

TEST(Choose, PiecesGetLargerWhereWaitingIsDear) {
  MachineModel model;
  model.l3_bytes = uint64_t{1} << 30;
  model.l2_bytes = 256 << 10;
  const uint32_t quick = Choose(model, 4).stage_piece_bytes;
  model.yield_ns *= 10;
  EXPECT_GT(Choose(model, 4).stage_piece_bytes, quick);
  model.l3_bytes = 8 << 20;  // four rounds of four ranks in a quarter of it
  EXPECT_LE(Choose(model, 4).stage_piece_bytes * 4u * 5u * 4u, 2u << 20);
}

TEST(Choose, RanksWithoutACoreDoNotSpin) {
  MachineModel model;
  model.cores = 2;
  EXPECT_GT(Choose(model, 2).spins, 0u);
  EXPECT_EQ(Choose(model, 3).spins, 0u);
  EXPECT_GT(Choose(model, 3).yields, Choose(model, 2).yields);
  model.cores = 1.5;  // a quota
  EXPECT_EQ(Choose(model, 2).spins, 0u);
}

TEST(Choose, WaitsTheLongerTheDearerAWakeUp) {
  MachineModel quick;
  quick.futex_ns = 5'000;
  MachineModel slow;
  slow.futex_ns = 100'000;
  EXPECT_LT(Choose(quick, 2).spins, Choose(slow, 2).spins);
  EXPECT_LT(Choose(quick, 2).yields, Choose(slow, 2).yields);
}

TEST(Choose, SlotsReachFurtherWhereWaitingIsDear) {
  MachineModel model;
  model.cores = 64;
  model.sync_ns = 20;
  const uint32_t quick = Choose(model, 8).slot_limit_bytes;
  model.sync_ns = 2000;
  EXPECT_GT(Choose(model, 8).slot_limit_bytes, quick);
  // Every rank reads all of every slot: the more ranks, the sooner the pipeline wins.
  model.sync_ns = 80;
  EXPECT_LT(Choose(model, 32).slot_limit_bytes, Choose(model, 2).slot_limit_bytes);
}

TEST(Choose, SingleCopyWhereItsCopyIsCheaperThanTwo) {
  MachineModel model = ZenModel();
  model.store_shared_stream_line_ns = 5;
  EXPECT_LT(Choose(model, 2).single_copy_min_bytes, kNever);
  // A broadcast has to win by more.
  EXPECT_EQ(Choose(model, 2).single_copy_broadcast_min_bytes, kNever);
  model.store_shared_plain_line_ns = model.store_shared_stream_line_ns = 60;
  EXPECT_LT(Choose(model, 2).single_copy_broadcast_min_bytes, kNever);
  model.single_copy_page_ns = 5'000;
  EXPECT_EQ(Choose(model, 2).single_copy_min_bytes, kNever);
  EXPECT_EQ(Choose(model, 2).single_copy_broadcast_min_bytes, kNever);
  EXPECT_EQ(Choose(model, 2).single_copy_rooted_min_bytes, kNever);
}

TEST(Choose, ASingleCopyThatDearlyBeginsBeginsLater) {
  MachineModel model = ZenModel();
  const uint64_t cheap = Choose(model, 2).single_copy_min_bytes;
  model.single_copy_call_ns = 200'000;
  EXPECT_GT(Choose(model, 2).single_copy_min_bytes, cheap);
}

TEST(Choose, SingleCopyOfMessagesWhereReadingIsClearlyCheaper) {
  MachineModel model = ZenModel(7);
  model.cores = 4;
  const auto from = [&](int ranks) {
    return Choose(model, ranks).single_copy_message_min_bytes;
  };
  // Two copies of 7 and 1.5 ns per line against one of 3.2, but sender and receiver copy at the
  // same time.
  EXPECT_EQ(from(2), kNever);
  model.store_shared_plain_line_ns = 28;
  const uint64_t cheap = from(2);
  EXPECT_LT(cheap, kNever);
  // A pair with less than two cores does both copies one after the other.
  model.store_shared_plain_line_ns = 7;
  EXPECT_LT(from(8), kNever);
  model.store_shared_plain_line_ns = 28;
  model.single_copy_call_ns = 500'000;
  EXPECT_GT(from(2), cheap);
  model.single_copy_page_ns = 50'000;
  EXPECT_EQ(from(2), kNever);
  EXPECT_EQ(from(8), kNever);
}

TEST(Choose, SingleCopyOfMessagesIsPredictedFasterFromThereOn) {
  const uint64_t seed = TestSeed(20261122);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  int chosen = 0;
  for (int round = 0; round < 2000; ++round) {
    const MachineModel model = RandomModel(random);
    const int ranks = kRanks[random() % std::size(kRanks)];
    const uint64_t least = Choose(model, ranks).single_copy_message_min_bytes;
    if (least == kNever) continue;
    ++chosen;
    for (uint64_t bytes = least; bytes <= uint64_t{64} << 20; bytes *= 2) {
      ASSERT_LT(PredictMessageNs(model, ranks, bytes, Protocol::kSingleCopy),
                PredictMessageNs(model, ranks, bytes, Protocol::kStaged))
          << ranks << " ranks, " << bytes << " bytes";
    }
  }
  EXPECT_GT(chosen, 100);
}

TEST(Choose, RanksCombineWhenTheyOutnumberTheCores) {
  MachineModel model = ZenModel();
  for (const double cores : {0.5, 1.0, 2.0, 3.5, 8.0}) {
    model.cores = cores;
    for (const int ranks : {2, 3, 4, 8, 9})
      EXPECT_EQ(Choose(model, ranks).combine, ranks > cores ? 1 : 0) << ranks << " on " << cores;
    EXPECT_EQ(Choose(model, 1).combine, 0);
  }
}

void ExpectRefused(const Tuning& tuning, const char* member) {
  const absl::Status status = Validate(tuning, 2);
  EXPECT_EQ(ResultOf(status), WEFT_CORRUPT) << member;
  EXPECT_NE(status.message().find(member), absl::string_view::npos) << status;
}

TEST(Validate, TakesTheDefault) {
  EXPECT_TRUE(Validate(Tuning{}, 2).ok());
}

TEST(Validate, NamesWhatIsOutOfItsLimits) {
  const auto with = [](auto Tuning::*member, auto value) {
    Tuning tuning;
    tuning.*member = value;
    return tuning;
  };
  ExpectRefused(with(&Tuning::version, kTuningVersion + 1), "version");
  for (const uint32_t bytes : {0u, kSlotLimitBytesMin - 1, kSlotLimitBytesMax + 1, UINT32_MAX})
    ExpectRefused(with(&Tuning::slot_limit_bytes, bytes), "slot_limit_bytes");
  for (const uint32_t bytes : {0u, kStagePieceBytesMin - 64, kStagePieceBytesMin + 1,
                               kStagePieceBytesMin + 64, kStagePieceBytesMax + 64, UINT32_MAX})
    ExpectRefused(with(&Tuning::stage_piece_bytes, bytes), "stage_piece_bytes");
  for (const uint64_t bytes : {uint64_t{0}, kStageRounds * 3 * (64 << 10) - 4096,
                               uint64_t{2 << 20} + 1, kStageRingBytesMax + 4096, UINT64_MAX}) {
    ExpectRefused(with(&Tuning::stage_ring_bytes, bytes), "stage_ring_bytes");
  }
  ExpectRefused(with(&Tuning::stage_lap_bytes, uint64_t{3 << 20}), "stage_lap_bytes");
  for (const uint64_t bytes : {uint64_t{0}, kSlotRingBytesMin - 4096, kSlotRingBytesMin + 1,
                               kSlotRingBytesMax + 4096, UINT64_MAX}) {
    ExpectRefused(with(&Tuning::slot_ring_bytes, bytes), "slot_ring_bytes");
  }
  ExpectRefused(with(&Tuning::stream_stage, uint8_t{2}), "stream_stage");
  ExpectRefused(with(&Tuning::combine, uint8_t{2}), "combine");
  ExpectRefused(with(&Tuning::stream_stage_min_bytes, uint64_t{0}), "stream_stage_min_bytes");
  ExpectRefused(with(&Tuning::stream_out_min_bytes, uint64_t{0}), "stream_out_min_bytes");
  for (uint64_t Tuning::*member :
       {&Tuning::single_copy_min_bytes, &Tuning::single_copy_broadcast_min_bytes,
        &Tuning::single_copy_rooted_min_bytes, &Tuning::single_copy_message_min_bytes}) {
    ExpectRefused(with(member, uint64_t{1}), "single_copy_min_bytes");
  }
  ExpectRefused(with(&Tuning::spins, kSpinsMax + 1), "spins");
  ExpectRefused(with(&Tuning::yields, kYieldsMax + 1), "yields");
  Tuning reserved;
  reserved.reserved[1] = 1;
  ExpectRefused(reserved, "reserved");
}

TEST(Validate, WhatItAcceptsIsWithinTheLimits) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  int accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Tuning tuning = Choose(MachineModel(), 2);
    auto* bytes = reinterpret_cast<unsigned char*>(&tuning);
    for (unsigned i = 0; i <= random() % 4; ++i)
      bytes[random() % sizeof tuning] = static_cast<unsigned char>(random());
    if (!Validate(tuning, 2).ok()) continue;
    ++accepted;
    ASSERT_LE(tuning.slot_limit_bytes, kSlotLimitBytesMax);
    ASSERT_GE(tuning.stage_piece_bytes, kStagePieceBytesMin);
    ASSERT_LE(tuning.stage_piece_bytes, kStagePieceBytesMax);
    ASSERT_EQ(tuning.stage_piece_bytes % 64, 0u);
    ASSERT_GE(tuning.stage_ring_bytes, kStageRounds * 3 * tuning.stage_piece_bytes);
    ASSERT_LE(tuning.stage_ring_bytes, kStageRingBytesMax);
    ASSERT_LE(tuning.stage_lap_bytes, tuning.stage_ring_bytes);
    ASSERT_LE(tuning.slot_ring_bytes, kSlotRingBytesMax);
    ASSERT_LE(tuning.spins, kSpinsMax);
    ASSERT_LE(tuning.yields, kYieldsMax);
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace weft::test::tuning_test
