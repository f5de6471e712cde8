// A rank is lost while the others save: they wait for it no longer than it takes to know of its end. Ranks are processes.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/checkpoint_calls.h"
#include "tests/bindings/local_threads.h"
#include "tests/support/forked_ranks.h"

namespace weft::test::checkpoint_loss_test {
namespace {

constexpr int kSize = 3;
constexpr int kLost = 2;
constexpr size_t kElements = 10;  // of each rank
// The saves themselves have ten minutes.
constexpr std::chrono::seconds kSoon{15};

#define SAY_UNLESS(condition)                                                  \
  do {                                                                         \
    if (!(condition)) return std::string(#condition ": ") + weft_last_error(); \
  } while (0)

// Saves once with all ranks, and once more without the one that is lost; one rank in the background, one not.
std::string SaveAndLoseARank(weft_group_t group, int rank, const std::string& directory) {
  weft_checkpoint_config_t config = {};
  config.struct_size = sizeof(config);
  config.directory = directory.c_str();
  weft_checkpoint_t checkpoint = nullptr;
  SAY_UNLESS(weft_checkpoint_create(group, &config, &checkpoint) == WEFT_SUCCESS);
  std::array<float, kElements> mine = {};
  const int64_t shape = kSize * kElements;
  weft_checkpoint_tensor_t tensor = {};
  tensor.struct_size = sizeof(tensor);
  tensor.name = "all";
  tensor.shape = &shape;
  tensor.ndim = 1;
  tensor.dtype = WEFT_FLOAT32;
  tensor.begin = static_cast<size_t>(rank) * kElements;
  tensor.count = kElements;
  tensor.data = mine.data();
  SAY_UNLESS(weft_checkpoint_add_tensor(checkpoint, &tensor) == WEFT_SUCCESS);
  SAY_UNLESS(Save(checkpoint, 1) == WEFT_SUCCESS);
  SAY_UNLESS(weft_barrier(group, nullptr, nullptr) == WEFT_SUCCESS);
  if (rank == kLost) kill(getpid(), SIGKILL);
  const auto begin = std::chrono::steady_clock::now();
  weft_result_t ended = Save(checkpoint, 2, /*background=*/rank == 0);
  if (rank == 0) {
    SAY_UNLESS(ended == WEFT_SUCCESS);
    ended = weft_checkpoint_wait(checkpoint, 0);
  }
  // Rank 0 says in the directory that it has given up, which rank 1 may see first: it is told why.
  SAY_UNLESS(ended == WEFT_ABORTED);
  SAY_UNLESS(std::string_view(weft_last_error()).find("rank 2") != std::string_view::npos);
  weft_error_info_t info = {};
  info.struct_size = sizeof(info);
  SAY_UNLESS(weft_last_error_info(&info) == WEFT_SUCCESS);
  SAY_UNLESS(info.rank == kLost && info.signal == SIGKILL);
  SAY_UNLESS(std::chrono::steady_clock::now() - begin < kSoon);
  SAY_UNLESS(weft_checkpoint_destroy(checkpoint) == WEFT_SUCCESS);
  SAY_UNLESS(weft_group_destroy(group) == WEFT_SUCCESS);
  return "";
}

TEST(CheckpointLoss, ASaveIsNotWaitedForWhenARankIsLost) {
  std::string folder =
      (std::filesystem::temp_directory_path() / "weft-checkpoint-loss-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::vector<RankEnd> ranks = RunForkedRanks(kSize, 60, [&](int rank) -> std::string {
    weft_unique_id_t id;
    if (rank == 0) {
      SAY_UNLESS(weft_unique_id_create(&id) == WEFT_SUCCESS);
      for (int other = 1; other < kSize; ++other)
        SAY_UNLESS(write(ends[1], &id, sizeof(id)) == sizeof(id));
    } else {
      SAY_UNLESS(read(ends[0], &id, sizeof(id)) == sizeof(id));
    }
    const weft_group_config_t config = ConfigNamed("savers");
    weft_group_t group = nullptr;
    SAY_UNLESS(weft_group_create_from_id(&id, kSize, rank, &config, &group) == WEFT_SUCCESS);
    return SaveAndLoseARank(group, rank, folder + "/checkpoints");
  });
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (rank == kLost) continue;
    EXPECT_EQ(ranks[rank].Problem(), "") << rank;
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/checkpoints/step-00000001/manifest.json"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/checkpoints/step-00000002/manifest.json"));
  close(ends[0]);
  close(ends[1]);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft::test::checkpoint_loss_test
