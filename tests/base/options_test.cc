#include "base/options.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/quantity.h"

namespace weft::options_test {
namespace {

using ::testing::HasSubstr;

TEST(ParseBytes, TakesPowersOf1024) {
  const std::vector<std::pair<const char*, int64_t>> good = {
      {"0", 0},          {"4096", 4096},
      {"64M", 64 << 20}, {"64m", 64 << 20},
      {"1G", 1 << 30},   {"16KiB", 16 << 10},
      {"3kb", 3 << 10},  {"7B", 7},
      {"2T", 2LL << 40}, {"9223372036854775807", INT64_MAX}};
  for (const auto& [text, bytes] : good) {
    int64_t parsed = -1;
    EXPECT_TRUE(ParseBytes(text, &parsed)) << text;
    EXPECT_EQ(parsed, bytes) << text;
  }
}

TEST(ParseBytes, RefusesEverythingElse) {
  for (const char* text : {"", "M", "-1", "+", "1.5G", "1X", "1GG", "1Gi!", "1 G", "64Mx", "1i",
                           "9223372036854775808", "9007199254740992K", "99999999999999999999"}) {
    int64_t parsed = 17;
    EXPECT_FALSE(ParseBytes(text, &parsed)) << text;
    EXPECT_EQ(parsed, 17) << text;
  }
}

TEST(Options, ParsesEveryType) {
  std::vector<std::string> warnings;
  const Options options = ParseOptions(
      {"PATH=/bin", "WEFT_LOG=debug", "WEFT_TIMEOUT_S=2.5", "WEFT_HEAP_BYTES=1G",
       "WEFT_SPIN_COUNT=7", "WEFT_INSECURE=Yes", "WEFT_STORE=tcp:host=x:1", "WEFT_ISA="},
      &warnings);
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  EXPECT_EQ(options.log_level, "debug");
  EXPECT_EQ(options.timeout_s, 2.5);
  EXPECT_EQ(options.heap_bytes, 1 << 30);
  EXPECT_EQ(options.spin_count, 7);
  EXPECT_TRUE(options.insecure);
  EXPECT_EQ(options.store, "tcp:host=x:1");
}

TEST(Options, WarnsAboutABadValueAndUsesTheDefault) {
  const std::vector<std::string> bad = {
      "WEFT_LOG=loud",          "WEFT_TIMEOUT_S=soon", "WEFT_TIMEOUT_S=0",   "WEFT_TIMEOUT_S=-1",
      "WEFT_TIMEOUT_S=nan",     "WEFT_TIMEOUT_S=inf",  "WEFT_HEAP_BYTES=1Q", "WEFT_SPIN_COUNT=-2",
      "WEFT_MASTER_PORT=65536", "WEFT_INSECURE=maybe", "WEFT_PROGRESS=never"};
  const Options defaults;
  for (const std::string& line : bad) {
    std::vector<std::string> warnings;
    const Options options = ParseOptions({line}, &warnings);
    ASSERT_EQ(warnings.size(), 1u) << line;
    EXPECT_THAT(warnings[0], HasSubstr(line));
    EXPECT_THAT(warnings[0], HasSubstr("using the default"));
    EXPECT_EQ(options.timeout_s, defaults.timeout_s);
    EXPECT_EQ(options.log_level, defaults.log_level);
    EXPECT_EQ(options.heap_bytes, defaults.heap_bytes);
    EXPECT_EQ(options.spin_count, defaults.spin_count);
    EXPECT_EQ(options.master_port, defaults.master_port);
    EXPECT_EQ(options.insecure, defaults.insecure);
    EXPECT_EQ(options.progress, defaults.progress);
  }
}

TEST(Options, WarnsAboutAnUnknownNameWithTheNearest) {
  std::vector<std::string> warnings;
  ParseOptions({"WEFT_TIMEOUT=5", "WEFT_SPINS_COUNT=1", "NOT_WEFT=1", "WEFT_PREFIX=/opt"},
               &warnings);
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[0], HasSubstr("WEFT_TIMEOUT is not an option"));
  EXPECT_THAT(warnings[0], HasSubstr("did you mean WEFT_TIMEOUT_S?"));
  EXPECT_THAT(warnings[1], HasSubstr("did you mean WEFT_SPIN_COUNT?"));
}

// Each default of the table, given as a value, gives the defaults of the struct.
TEST(Options, TheTableHasTheDefaultsOfTheStruct) {
  std::vector<std::string> lines;
  std::set<std::string> names;
  const std::set<std::string> types = {"integer", "bytes", "seconds", "boolean", "choice", "text"};
  for (size_t i = 0; i < OptionCount(); ++i) {
    const OptionRow& row = OptionAt(i);
    EXPECT_TRUE(names.insert(row.environment).second) << row.environment;
    EXPECT_EQ(types.count(row.type), 1u) << row.type;
    EXPECT_EQ(std::string(row.meaning).back(), '.') << row.environment;
    lines.push_back(std::string(row.environment) + "=" + row.default_value);
  }
  std::vector<std::string> warnings;
  const Options from_table = ParseOptions(lines, &warnings);
  EXPECT_THAT(warnings, ::testing::IsEmpty());
  const Options defaults;
  EXPECT_EQ(from_table.log_level, defaults.log_level);
  EXPECT_EQ(from_table.timeout_s, defaults.timeout_s);
  EXPECT_EQ(from_table.isa, defaults.isa);
  EXPECT_EQ(from_table.heap_bytes, defaults.heap_bytes);
  EXPECT_EQ(from_table.spin_count, defaults.spin_count);
  EXPECT_EQ(from_table.yield_count, defaults.yield_count);
  EXPECT_EQ(from_table.progress, defaults.progress);
  EXPECT_EQ(from_table.tune, defaults.tune);
  EXPECT_EQ(from_table.dump_dir, defaults.dump_dir);
  EXPECT_EQ(from_table.insecure, defaults.insecure);
  EXPECT_EQ(from_table.job_secret_fd, defaults.job_secret_fd);
  EXPECT_EQ(from_table.master_port, defaults.master_port);
  EXPECT_EQ(from_table.restart_count, defaults.restart_count);
  EXPECT_EQ(from_table.join, defaults.join);
  EXPECT_EQ(from_table.library_path, defaults.library_path);
  EXPECT_EQ(from_table.torch_extension, defaults.torch_extension);
}

}  // namespace
}  // namespace weft::options_test
