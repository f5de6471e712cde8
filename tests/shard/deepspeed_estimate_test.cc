#include "shard/plan/deepspeed_estimate.h"

#include <cstdio>
#include <string>

#include "gtest/gtest.h"

namespace weft {
namespace {

// As DeepSpeed prints bytes: 2^30 of them are its "GB".
std::string Printed(double bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.2fGB", bytes / (1 << 30));
  return text;
}

void ExpectRow(const DeepSpeedRow& row, const char* device, const char* host,
               const char* host_cut) {
  EXPECT_EQ(Printed(row.device_bytes), device);
  EXPECT_EQ(Printed(row.host_bytes), host);
  EXPECT_EQ(Printed(row.host_bytes_cut), host_cut);
}

// t5-3b on 8 GPUs of one node. The model has 2851 M params; its largest layer is the embedding,
// 32128 words of 1024.
TEST(DeepSpeedEstimate, ReproducesWhatItsDocumentationPrintsOfALiveModel) {
  const std::vector<DeepSpeedRow> rows = DeepSpeedRows(
      {.param_count = 2851598336, .largest_layer = 32128 * 1024, .ranks = 8, .ranks_per_node = 8});
  ASSERT_EQ(rows.size(), 5);
  ExpectRow(rows[0], "15.93GB", "127.48GB", "127.48GB");
  ExpectRow(rows[1], "5.31GB", "127.48GB", "127.48GB");
  ExpectRow(rows[2], "6.10GB", "127.48GB", "1.47GB");
  ExpectRow(rows[3], "0.79GB", "127.48GB", "63.74GB");
  ExpectRow(rows[4], "0.12GB", "127.48GB", "71.71GB");
}

TEST(DeepSpeedEstimate, ReproducesWhatItsDocumentationPrintsOfRoundedSizes) {
  const std::vector<DeepSpeedRow> rows = DeepSpeedRows(
      {.param_count = 2851e6, .largest_layer = 32e6, .ranks = 8, .ranks_per_node = 8});
  ASSERT_EQ(rows.size(), 5);
  ExpectRow(rows[0], "15.93GB", "127.45GB", "127.45GB");
  ExpectRow(rows[1], "5.31GB", "127.45GB", "127.45GB");
  ExpectRow(rows[2], "6.09GB", "127.45GB", "1.43GB");
  ExpectRow(rows[3], "0.78GB", "127.45GB", "63.72GB");
  ExpectRow(rows[4], "0.12GB", "127.45GB", "71.69GB");
}

TEST(DeepSpeedEstimate, ManyNodesShareWhatIsOffloaded) {
  const std::vector<DeepSpeedRow> rows =
      DeepSpeedRows({.param_count = 1e9, .largest_layer = 1e7, .ranks = 32, .ranks_per_node = 1});
  ASSERT_EQ(rows.size(), 5);
  EXPECT_DOUBLE_EQ(rows[1].host_bytes, 1.5 * 16e9);
  EXPECT_DOUBLE_EQ(rows[3].host_bytes, 1.5 * 4e9);
  EXPECT_DOUBLE_EQ(rows[3].host_bytes_cut, 1.5 * 16e9 / 32);
  EXPECT_TRUE(rows[4].offloads_params && rows[4].offloads_optimizer && rows[4].stage == 3);
}

}  // namespace
}  // namespace weft
