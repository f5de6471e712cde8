// metrics.jsonl, as docs/formats/metrics.md describes it.
#include "trainer/metrics.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <stdlib.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using Json = nlohmann::ordered_json;

class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-metrics-XXXXXX").string();
    directory_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }

  ~MetricsTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  std::filesystem::path directory_;
};

std::vector<Json> ReadLines(const std::filesystem::path& file) {
  std::vector<Json> lines;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);)
    lines.push_back(Json::parse(line));
  return lines;
}

TEST_F(MetricsTest, EachLineHasTheVersionAndTheFieldsOfTheFormat) {
  const std::string run = (directory_ / "run").string();
  {
    MetricsWriter writer(run);
    writer.Write({.step = 1, .loss = 5.5, .grad_norm = 2, .lr = 0.25, .comm_exposed_s = 0.5}, 1000,
                 64, std::nullopt);
    writer.Write({.step = 2, .loss = 4.5, .grad_norm = 1, .lr = 0.5, .comm_exposed_s = 0}, 2000,
                 128, 4.75);
  }
  const std::vector<Json> lines = ReadLines(run + "/metrics.jsonl");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], Json::parse(R"({"version": 1, "step": 1, "time_ns": 1000, "loss": 5.5,
      "tok_s": 64.0, "comm_exposed_s": 0.5, "lr": 0.25, "grad_norm": 2.0})"));
  EXPECT_EQ(lines[1], Json::parse(R"({"version": 1, "step": 2, "time_ns": 2000, "loss": 4.5,
      "val_loss": 4.75, "tok_s": 128.0, "comm_exposed_s": 0.0, "lr": 0.5, "grad_norm": 1.0})"));
}

TEST_F(MetricsTest, ADirectoryThatCannotBeMadeIsBadInput) {
  const std::string file = (directory_ / "file").string();
  std::ofstream(file) << "in the way";
  EXPECT_THROW(MetricsWriter(file + "/run"), BadInput);
}

}  // namespace
}  // namespace weft::trainer
