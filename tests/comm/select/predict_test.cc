// Predictions: what they must obey whatever the numbers, and a few worked by hand.
#include "comm/select/predict.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/comm/select/call_kinds.h"
#include "tests/comm/select/random_model.h"
#include "tests/support/leak_check.h"

namespace weft::test::predict_test {
namespace {

CallFacts With(CallFacts call, uint64_t bytes, int ranks) {
  call.bytes = bytes;
  call.ranks = ranks;
  return call;
}

double Predict(const MachineModel& model, const CallFacts& call, Protocol protocol) {
  return PredictNs(model, Choose(model, call.ranks), call, protocol);
}

TEST(Predict, IsPositiveAndFiniteOrImpossible) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  for (int round = 0; round < 300; ++round) {
    const MachineModel model = RandomModel(random);
    for (const int ranks : {1, 2, 3, 8, 64}) {
      const Tuning tuning = Choose(model, ranks);
      for (const CallFacts& kind : kKinds) {
        const CallFacts call = With(kind, random() % (1 << (random() % 30)), ranks);
        for (const Protocol protocol : kRankProtocols) {
          const double ns = PredictNs(model, tuning, call, protocol);
          ASSERT_GT(ns, 0) << ProtocolName(protocol);
          ASSERT_FALSE(std::isnan(ns)) << ProtocolName(protocol);
        }
        ASSERT_TRUE(std::isfinite(PredictNs(model, tuning, call, Protocol::kStaged)));
        ASSERT_TRUE(std::isfinite(PredictNs(model, tuning, call, Protocol::kDirect)));
      }
    }
  }
}

TEST(Predict, GrowsWithTheBytes) {
  for (MachineModel model : {MachineModel(), ZenModel(7), ZenModel(28)}) {
    for (const double cores : {1.0, 2.0, 16.0}) {
      model.cores = cores;
      for (const int ranks : {1, 2, 4, 8}) {
        for (const CallFacts& kind : kKinds) {
          for (const Protocol protocol : kRankProtocols) {
            // Streaming from a threshold on makes a step down; the rest of the curve may have none.
            Tuning tuning = Choose(model, ranks);
            tuning.stream_stage = 0;
            tuning.stream_out_min_bytes = kNever;
            double last = 0;
            for (uint64_t bytes = 0; bytes < uint64_t{1} << 28; bytes += bytes / 3 + 1) {
              const double ns = PredictNs(model, tuning, With(kind, bytes, ranks), protocol);
              ASSERT_GE(ns, last) << ProtocolName(protocol) << " " << bytes;
              last = ns;
            }
          }
        }
      }
    }
  }
}

TEST(Predict, OneResultForAllRanksIsNotSlowerThanOneForEach) {
  for (const MachineModel& model : {MachineModel(), ZenModel(7), ZenModel(28)}) {
    for (const int ranks : {2, 4, 8}) {
      for (const CallFacts& kind : kKinds) {
        if (kind.root_out || kind.in_blocks) continue;
        for (uint64_t bytes = 64 << 10; bytes <= uint64_t{64} << 20; bytes *= 4) {
          CallFacts call = With(kind, bytes, ranks);
          const double each_ns = Predict(model, call, Protocol::kDirect);
          call.shared_out = true;
          const double shared_ns = Predict(model, call, Protocol::kDirect);
          ASSERT_LE(shared_ns, each_ns) << bytes;
          call.in_place = true;
          if (!kind.reduces) {  // nothing is moved, whatever the size
            ASSERT_DOUBLE_EQ(Predict(model, call, Protocol::kDirect),
                             Predict(model, With(call, 1, ranks), Protocol::kDirect));
          }
        }
      }
    }
  }
}

// By hand: the copy of 1 MiB, and a direct all_reduce in place.
TEST(Predict, WithACopyIsTheCopyAndTheSymmetricCall) {
  MachineModel model = MachineModel();
  model.l2_bytes = uint64_t{1} << 30;  // so that everything is near
  model.l3_bytes = uint64_t{1} << 33;
  const Tuning tuning = Choose(model, 2);
  CallFacts call = With({.reduces = true}, 1 << 20, 2);
  const double lines = (1 << 20) / 64;
  CallFacts there = call;
  there.in_place = true;
  EXPECT_NEAR(PredictWithCopyNs(model, tuning, call),
              lines * model.copy_line_ns + PredictNs(model, tuning, there, Protocol::kDirect),
              1e-3);
  // A broadcast's root alone has something to copy; a small call stays what it is.
  call = With({.root_in = true}, 1 << 20, 2);
  EXPECT_GT(PredictWithCopyNs(model, tuning, call), lines * model.copy_line_ns);
  call = With({.reduces = true}, 8, 2);
  EXPECT_NEAR(PredictWithCopyNs(model, tuning, call),
              model.copy_line_ns + PredictNs(model, tuning, call, Protocol::kInline), 1e-3);
}

TEST(Predict, ChosenStreamingIsNotSlowerThanPlainStores) {
  for (const MachineModel& model : {MachineModel(), ZenModel(7), ZenModel(28)}) {
    for (const int ranks : {2, 4, 8}) {
      const Tuning tuning = Choose(model, ranks);
      Tuning plain = tuning;
      plain.stream_stage = 0;
      plain.stream_out_min_bytes = kNever;
      for (const CallFacts& kind : kKinds) {
        // A broadcast's root and readers work at the same time, and streaming may burden the slower side.
        if (kind.root_in || kind.root_out) continue;
        for (uint64_t bytes = 64; bytes < uint64_t{1} << 30; bytes *= 2) {
          const CallFacts call = With(kind, bytes, ranks);
          ASSERT_LE(PredictNs(model, tuning, call, Protocol::kStaged),
                    PredictNs(model, plain, call, Protocol::kStaged))
              << bytes;
        }
      }
    }
  }
}

TEST(Predict, ChosenSingleCopyIsFasterThanStaging) {
  const uint64_t seed = TestSeed(20261121);
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(static_cast<uint32_t>(seed));
  int chosen = 0;
  for (int round = 0; round < 500; ++round) {
    const MachineModel model = RandomModel(random);
    const int ranks = 2 + static_cast<int>(random() % 8);
    const Tuning tuning = Choose(model, ranks);
    for (const CallFacts& kind : kKinds) {
      const uint64_t least = SingleCopyMinBytes(tuning, kind);
      for (uint64_t bytes = 4096; bytes <= uint64_t{64} << 20; bytes *= 2) {
        if (bytes < least) continue;
        ++chosen;
        const CallFacts call = With(kind, bytes, ranks);
        ASSERT_LT(PredictNs(model, tuning, call, Protocol::kSingleCopy),
                  PredictNs(model, tuning, call, Protocol::kStaged))
            << bytes;
      }
    }
  }
  EXPECT_GT(chosen, 0);
}

TEST(Predict, OnlyWhatAProtocolCanDoIsFinite) {
  const MachineModel model;
  EXPECT_TRUE(
      std::isfinite(Predict(model, {.reduces = true, .bytes = 48, .ranks = 2}, Protocol::kInline)));
  EXPECT_TRUE(
      std::isinf(Predict(model, {.reduces = true, .bytes = 49, .ranks = 2}, Protocol::kInline)));
  EXPECT_TRUE(std::isinf(Predict(
      model, {.reduces = true, .in_blocks = true, .bytes = 25, .ranks = 2}, Protocol::kInline)));
  EXPECT_TRUE(
      std::isfinite(Predict(model, {.reduces = true, .bytes = 8192, .ranks = 2}, Protocol::kSlot)));
  EXPECT_TRUE(
      std::isinf(Predict(model, {.reduces = true, .bytes = 8193, .ranks = 2}, Protocol::kSlot)));
  EXPECT_TRUE(std::isinf(
      Predict(model, {.reduces = true, .bytes = 1 << 20, .ranks = 2}, Protocol::kSingleCopy)));
  EXPECT_TRUE(std::isfinite(
      Predict(model, {.root_in = true, .bytes = 1 << 20, .ranks = 2}, Protocol::kSingleCopy)));
}

// 2 ranks, 1 MiB each, everything in a huge cache: per rank (docs/design/006-selection.md)
// half of 16384 lines staged, half reduced with one foreign source, the result stored once more for the
// peer, half gathered.
TEST(Predict, StagedAllReduceByHand) {
  MachineModel model;
  model.l2_bytes = uint64_t{1} << 30;
  model.l3_bytes = uint64_t{1} << 34;
  Tuning tuning = Choose(model, 2);
  tuning.stream_stage = 0;
  tuning.stage_piece_bytes = 256 << 10;
  const double lines = 16384.0 / 2;
  const double arrival =
      model.store_shared_plain_line_ns + model.sync_ns + model.read_shared_plain_line_ns;
  const double reduce =
      model.reduce2_line_ns + model.read_shared_plain_line_ns - model.copy_line_ns;
  const double expected =
      arrival + 3 * model.sync_ns +
      lines * (2 * model.store_shared_plain_line_ns + reduce + model.read_shared_plain_line_ns);
  EXPECT_NEAR(
      PredictNs(model, tuning, {.reduces = true, .bytes = 1 << 20, .ranks = 2}, Protocol::kStaged),
      expected, expected * 1e-9);
}

TEST(Predict, SingleCopyAllGatherByHand) {
  MachineModel model;
  model.l2_bytes = uint64_t{1} << 30;
  model.l3_bytes = uint64_t{1} << 34;
  model.cores = 4;
  const double arrival =
      model.store_shared_plain_line_ns + model.sync_ns + 3 * model.read_shared_plain_line_ns;
  const double block =
      model.single_copy_call_ns + 16 * model.single_copy_page_ns + 1024 * model.single_copy_line_ns;
  const double expected = arrival + model.sync_ns + 3 * block;
  EXPECT_NEAR(Predict(model, {.out_blocks = true, .bytes = 64 << 10, .ranks = 4, .in_place = true},
                      Protocol::kSingleCopy),
              expected, expected * 1e-9);
  // Out of place the own block is copied as well.
  EXPECT_NEAR(
      Predict(model, {.out_blocks = true, .bytes = 64 << 10, .ranks = 4}, Protocol::kSingleCopy),
      expected + 1024 * model.copy_line_ns, expected * 1e-9);
}

TEST(PredictMessage, ByHand) {
  MachineModel model;
  model.l2_bytes = uint64_t{1} << 30;
  model.l3_bytes = uint64_t{1} << 34;
  model.cores = 2;
  constexpr uint64_t kBytes = 8 * kMessageChunkBytes;
  constexpr double kLines = kBytes / 64.0;
  const double store = kLines * model.store_shared_plain_line_ns;
  const double read = kLines * model.read_shared_plain_line_ns;
  const double arrival =
      model.store_shared_plain_line_ns + model.sync_ns + model.read_shared_plain_line_ns;
  // Eight chunks: the receiver works beside the sender but for the last.
  const double staged = arrival + 8 * model.sync_ns + store + read / 8;
  EXPECT_NEAR(PredictMessageNs(model, 2, kBytes, Protocol::kStaged), staged, staged * 1e-9);
  const double single = arrival + model.sync_ns + model.single_copy_call_ns +
                        256 * model.single_copy_page_ns + kLines * model.single_copy_line_ns;
  EXPECT_NEAR(PredictMessageNs(model, 2, kBytes, Protocol::kSingleCopy), single, single * 1e-9);
  // Four ranks: a core for each pair, so that nothing overlaps and waits are turns.
  const double turns = model.store_shared_plain_line_ns + 9 * 2 * model.yield_ns +
                       model.read_shared_plain_line_ns + store + read;
  EXPECT_NEAR(PredictMessageNs(model, 4, kBytes, Protocol::kStaged), turns, turns * 1e-9);
}

TEST(PredictMessage, HasNoOtherProtocols) {
  for (const Protocol protocol : {Protocol::kInline, Protocol::kSlot, Protocol::kDirect})
    EXPECT_TRUE(std::isinf(PredictMessageNs(MachineModel(), 2, 8, protocol)));
}

TEST(Predict, SymmetricMemoryIsNeverSlowerThanStaging) {
  for (const MachineModel& model : {MachineModel(), ZenModel(7), ZenModel(28)}) {
    for (const CallFacts& kind : kKinds) {
      for (const uint64_t bytes : {uint64_t{64} << 10, uint64_t{1} << 20}) {
        const CallFacts call = With(kind, bytes, 2);
        EXPECT_LE(Predict(model, call, Protocol::kDirect), Predict(model, call, Protocol::kStaged))
            << bytes;
      }
    }
  }
}

TEST(Predict, RanksThatShareCoresTakeLonger) {
  MachineModel many;
  many.cores = 8;
  MachineModel few = many;
  few.cores = 2;
  for (const CallFacts& kind : kKinds) {
    const CallFacts call = With(kind, 1 << 20, 8);
    EXPECT_GT(Predict(few, call, Protocol::kStaged), Predict(many, call, Protocol::kStaged));
  }
}

TEST(Predict, SlotsCostLessWhereOneRankReducesForAll) {
  MachineModel model = MachineModel();
  model.cores = 2;
  Tuning alone = Choose(model, 8);
  Tuning last_arriver = alone;
  alone.combine = 0;
  last_arriver.combine = 1;
  const auto with = [&](const Tuning& tuning, const CallFacts& call) {
    return PredictNs(model, tuning, call, Protocol::kSlot);
  };
  const CallFacts all{.reduces = true, .bytes = 2048, .ranks = 8};
  EXPECT_LT(with(last_arriver, all), with(alone, all));
  CallFacts to_root = all;
  to_root.root_out = true;
  EXPECT_EQ(with(last_arriver, to_root), with(alone, to_root));
  CallFacts in_one_place = all;
  in_one_place.shared_out = true;
  EXPECT_EQ(with(last_arriver, in_one_place), with(alone, in_one_place));
}

TEST(Predict, AFarBufferTakesLonger) {
  MachineModel near;
  near.l2_bytes = uint64_t{1} << 30;
  near.l3_bytes = uint64_t{1} << 34;
  const CallFacts call{.out_blocks = true, .bytes = 64 << 20, .ranks = 2};
  Tuning tuning = Choose(near, 2);
  EXPECT_GT(PredictNs(MachineModel{}, tuning, call, Protocol::kStaged),
            PredictNs(near, tuning, call, Protocol::kStaged));
}

TEST(ModelTable, HasEveryCollectiveAndSizeWithAPossibleProtocol) {
  for (const int ranks : {1, 2, 8}) {
    std::set<std::string> operations;
    const std::vector<ModelRow> rows = ModelTable(MachineModel(), ranks);
    for (const ModelRow& row : rows) {
      operations.insert(row.operation);
      for (const Protocol chosen : {row.private_protocol, row.symmetric_protocol}) {
        const auto* const column = std::find(kRankProtocols.begin(), kRankProtocols.end(), chosen);
        if (ranks == 1) {
          EXPECT_EQ(chosen, Protocol::kSingleRank);
        } else {
          ASSERT_NE(column, kRankProtocols.end()) << ProtocolName(chosen);
          EXPECT_TRUE(std::isfinite(row.ns[static_cast<size_t>(column - kRankProtocols.begin())]))
              << row.operation << row.bytes;
        }
      }
    }
    EXPECT_EQ(operations.size(), 8u);
    EXPECT_EQ(rows.size(), 8u * 8);
  }
}

}  // namespace
}  // namespace weft::test::predict_test
