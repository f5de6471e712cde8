// Ranks that are killed at any moment of a training: every survivor names the dead one, soon, whatever preset and call it is in; what
// it waits for may be in another group than the one that the dead rank was needed in.
//
// TEST_CASES=all (nightly) kills 200; the times of all are printed.
#include <atomic>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/make_group.h"
#include "tests/comm/node/directory_store.h"
#include "tests/shard/trained_model.h"
#include "tests/support/case_sample.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/kill_within.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"
#include "tests/support/survivor_times.h"

namespace weft::random_kill_test {
namespace {

constexpr int kRanksMax = 6;
constexpr int kKills = 200;
constexpr int64_t kHardNs = 1'000'000'000;  // within which all must know
constexpr int64_t kTimeoutNs = 60'000'000'000;

constexpr weft_shard_preset_t kPresets[] = {
    WEFT_SHARD_NO_SHARD,   WEFT_SHARD_ZERO1,        WEFT_SHARD_ZERO2, WEFT_SHARD_GRAD_OP,
    WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD, WEFT_SHARD_HPZ};

struct Trial {
  weft_shard_preset_t preset = WEFT_SHARD_NO_SHARD;
  int size = 2;
  int victim = 0;
  int64_t delay_us = 0;  // from the first step on
};

struct Exchange {
  std::atomic<int64_t> killed_ns{0};
  std::atomic<int64_t> knew_ns[kRanksMax]{};
};

Trial RandomTrial(uint64_t seed) {
  std::mt19937_64 random(seed);
  Trial trial;
  trial.preset = kPresets[random() % std::size(kPresets)];
  const bool of_replicas =
      trial.preset == WEFT_SHARD_HYBRID_SHARD || trial.preset == WEFT_SHARD_HPZ;
  trial.size = of_replicas ? 4 : 2 + static_cast<int>(random() % (kRanksMax - 1));
  trial.victim = static_cast<int>(random() % static_cast<uint64_t>(trial.size));
  trial.delay_us = static_cast<int64_t>(random() % 30'000);
  return trial;
}

absl::Status TrainUntilFailure(const Trial& trial, std::shared_ptr<ProcessGroup> group,
                               Exchange* exchange) {
  const int rank = group->rank();
  std::vector<MeshAxis> axes;
  if (trial.preset == WEFT_SHARD_HYBRID_SHARD || trial.preset == WEFT_SHARD_HPZ) {
    axes = {{"outer", 2}, {"inner", 2}};
  }
  WEFT_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(std::move(group), axes));
  TrainedModel model(
      {.preset = trial.preset, .counts = {3000, 70'001, 64, 9000, 1021}, .microbatches = 2});
  WEFT_RETURN_IF_ERROR(model.Make(
      mesh, {.limits = {.bucket_bytes = 4096, .first_bucket_bytes = 256}, .microbatches = 2}));
  if (rank == trial.victim) test::KillWithin(&exchange->killed_ns, trial.delay_us);
  const int64_t begun_ns = MonotonicNs();
  while (MonotonicNs() - begun_ns < kTimeoutNs)
    WEFT_RETURN_IF_ERROR(model.Step());
  return absl::OkStatus();
}

std::string RunRank(const Trial& trial, Exchange* exchange, const std::string& directory,
                    int rank) {
  test::DirectoryStore store(directory);
  auto group = MakeNodeGroup(&store, rank, trial.size, {.name = "k", .timeout_ns = kTimeoutNs});
  if (!group.ok()) return std::string(group.status().message());
  const absl::Status status = TrainUntilFailure(trial, *group, exchange);
  exchange->knew_ns[rank].store(MonotonicNs());
  (*group)->Close();
  const ErrorFields fields = FieldsOf(status);
  const bool named = ResultOf(status) == WEFT_PEER_LOST && fields.world_rank == trial.victim &&
                     fields.signal == SIGKILL;
  return named ? "" : StrCat(ResultOf(status), ": ", FromAbsl(status.message()));
}

TEST(ShardRandomKill, IsNamedByEverySurvivorSoon) {
  const uint64_t first_seed = test::TestSeed(std::random_device()());
  const test::CaseSample sample({.every = 7, .sanitized = 37}, first_seed);
  test::SurvivorTimes times;
  for (int kill = 0; kill < kKills && !HasFailure(); ++kill) {
    if (!sample.Takes(static_cast<size_t>(kill))) continue;
    const Trial trial = RandomTrial(first_seed + static_cast<uint64_t>(kill));
    SCOPED_TRACE(StrCat("WEFT_TEST_SEED=", first_seed, ", kill ", kill, ": rank ", trial.victim,
                        " of ", trial.size, ", preset ", static_cast<int>(trial.preset)));
    const test::TemporaryDirectory directory;
    const test::SharedValue<Exchange> exchange;
    const auto ends = test::RunForkedRanks(trial.size, 120, [&](int rank) {
      return RunRank(trial, exchange.operator->(), directory.path(), rank);
    });
    for (int rank = 0; rank < trial.size; ++rank) {
      const test::RankEnd& end = ends[static_cast<size_t>(rank)];
      if (rank == trial.victim && WIFSIGNALED(end.wait_status)) continue;
      EXPECT_EQ(end.Problem(), "") << "rank " << rank;
      EXPECT_LT(times.Add(exchange->killed_ns.load(), exchange->knew_ns[rank].load()),
                kHardNs * 1e-6)
          << "rank " << rank;
    }
  }
  sample.Print("random kills", kKills);
  ASSERT_FALSE(times.empty());
  times.Print();
}

}  // namespace
}  // namespace weft::random_kill_test
