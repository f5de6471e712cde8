#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/weft_perf/machine.h"
#include "bench/weft_perf/report.h"

namespace weft::perf::table_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Report SomeReport() {
  Report report;
  report.options.operation = FindOperation("all_reduce");
  report.options.min_bytes = 8;
  report.options.max_bytes = 1024;
  report.options.step_factor = 2;
  report.version = "1.2.3";
  report.header_version = 10203;
  report.library_version = 10204;
  report.devices.push_back({0, 0, 4711, "host", 0, "numa0:cpu1", "Some CPU @ 2 GHz"});
  report.devices.push_back({1, 0, 4712, "host", 1, "numa0:cpu0", "Some CPU @ 2 GHz"});
  return report;
}

Row SomeRow() {
  Row row;
  row.bytes = 1024;
  row.count = 256;
  row.type = "float";
  row.reduction = "sum";
  row.out_of_place = {12.345, {0.08, 0.12}, 0.0, {}, {}};
  row.in_place = {1234567.8, {123.456, 9999.9}, 17.0, {}, {}};
  return row;
}

TEST(ShrinkFloat, LosesDecimalsAsItGrows) {
  EXPECT_EQ(ShrinkFloat(0, 7), "   0.00");
  EXPECT_EQ(ShrinkFloat(0.016, 7), "   0.02");
  EXPECT_EQ(ShrinkFloat(1234.56, 7), "1234.56");
  EXPECT_EQ(ShrinkFloat(12345.67, 7), "12345.7");
  EXPECT_EQ(ShrinkFloat(123456.7, 7), " 123457");
  EXPECT_EQ(ShrinkFloat(1234567.8, 7), "1234568");
  EXPECT_EQ(ShrinkFloat(12345678, 7), "1.2e+07");
  EXPECT_EQ(ShrinkFloat(123.456, 6), "123.46");
  EXPECT_EQ(ShrinkFloat(1234.56, 6), "1234.6");
  EXPECT_EQ(ShrinkFloat(123456, 6), "123456");
  EXPECT_EQ(ShrinkFloat(1234567, 6), " 1e+06");
}

TEST(Table, PreambleHasTheLinesOfNcclTests) {
  EXPECT_EQ(
      PreambleText(SomeReport()),
      "# weft_perf version 1.2.3 weft-headers=10203 weft-library=10204\n"
      "# Collective test starting: all_reduce_perf\n"
      "# nThread 1 nGpus 1 minBytes 8 maxBytes 1024 step: 2(factor) warmup iters: 1 iters: "
      "20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n"
      "# Buffers: rotating within 1024 bytes, private\n"
      "#\n"
      "# Using devices\n"
      "#  Rank  0 Group  0 Pid   4711 on       host device  0 [numa0:cpu1] Some CPU @ 2 GHz\n"
      "#  Rank  1 Group  0 Pid   4712 on       host device  1 [numa0:cpu0] Some CPU @ 2 GHz\n");
}

TEST(Table, StepInBytesAndBlockingShowInThePreamble) {
  Report report = SomeReport();
  report.options.step_factor = 1;
  report.options.blocking = Blocking::kWaitAndBarrier;
  report.options.hot = true;
  report.options.memory = Memory::kSymmetric;
  const std::string text = PreambleText(report);
  EXPECT_THAT(text, HasSubstr("step: 1048576(bytes)"));
  EXPECT_THAT(text, HasSubstr("# Blocking Enabled"));
  EXPECT_THAT(text, HasSubstr("# Buffers: the same in every iteration (hot), symmetric\n"));
}

TEST(Table, HeaderHasTheColumnsOfNcclTests) {
  EXPECT_EQ(
      HeaderText(Options{}),
      "#\n"
      "#                                                              out-of-place                 "
      "      in-place          \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
      "time   algbw   busbw  #wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
      "(us)  (GB/s)  (GB/s)         \n");
}

TEST(Table, RowsKeepTheirColumns) {
  EXPECT_EQ(
      RowText(SomeRow(), Options{}),
      "        1024           256     float     sum      -1    12.35    0.08    0.12       0  "
      "1234568  123.46  9999.9      17\n");
}

TEST(Table, UncheckedCellsSayNotApplicable) {
  Row row = SomeRow();
  row.out_of_place.wrong.reset();
  row.in_place.wrong.reset();
  EXPECT_EQ(RowText(row, Options{}),
            "        1024           256     float     sum      -1    12.35    0.08    0.12    N/A  "
            "1234568  123.46  9999.9    N/A\n");
}

TEST(Table, TimestampsAndCpuTimeOnlyAppend) {
  Options options;
  options.timestamps = true;
  options.cpu_time = true;
  const std::string header = HeaderText(options);
  EXPECT_THAT(header, HasSubstr("cputime   algbw   busbw  #wrong           timestamp\n"));
  EXPECT_THAT(header, HasSubstr("   %Y-%m-%d %H:%M:%S\n"));
  Row row = SomeRow();
  row.time_of_day = "2026-01-02 03:04:05";
  const std::string plain = RowText(row, Options{});
  EXPECT_EQ(RowText(row, options), plain.substr(0, plain.size() - 1) + "  2026-01-02 03:04:05\n");
}

TEST(Table, SingleIterationsFollowEachGroup) {
  Options options;
  options.per_iteration = true;
  Row row = SomeRow();
  const std::vector<double> times = {10, 20, 30};
  row.out_of_place.iterations = Iterations{Summarise(times), times, {times}};
  row.in_place.iterations = row.out_of_place.iterations;
  EXPECT_EQ(
      RowText(row, options),
      "        1024           256     float     sum      -1    12.35    0.08    0.12       0  "
      "  10.00    30.00    30.00    40.82  1234568  123.46  9999.9      17    10.00    30.00  "
      "  30.00    40.82\n");
  EXPECT_THAT(HeaderText(options),
              HasSubstr("#wrong    i_min    i_max    i_p99    i_cv%     time"));
}

TEST(Table, FooterSaysWhetherAllIsWell) {
  Report report = SomeReport();
  report.totals = Totals{0, 1.5, {}, -1};
  EXPECT_EQ(FooterText(report),
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 1.5 \n"
            "#\n"
            "# Collective test concluded: all_reduce_perf\n"
            "#\n");
  report.totals = Totals{3, 1.5, {}, 10};
  EXPECT_THAT(FooterText(report), HasSubstr("# Out of bounds values : 3 FAILED\n"));
  EXPECT_THAT(FooterText(report), HasSubstr("# Avg bus bandwidth    : 1.5 FAILED\n"));
  report.totals = Totals{0, 9.1, {}, 10};
  EXPECT_THAT(FooterText(report), HasSubstr("# Avg bus bandwidth    : 9.1 OK\n"));
}

TEST(Table, GroupsOfASplitHaveALineEach) {
  Report report = SomeReport();
  report.groups = {{0, {0, 2}}, {1, {1}}};
  report.totals = Totals{0, 1.5, {2.5, 0}, -1};
  EXPECT_THAT(FooterText(report), HasSubstr("# Avg bus bandwidth    : 1.5 \n"
                                            "# Group  0,   2 ranks   : 2.5\n"
                                            "# Group  1,   1 ranks   : 0\n"));
}

TEST(Table, MemoryIsScaled) {
  EXPECT_EQ(MemoryText(12), "12.0 B");
  EXPECT_EQ(MemoryText(1536), "1.50 KB");
  EXPECT_EQ(MemoryText(300.0 * 1024 * 1024), "300 MB");
}

TEST(Machine, BuffersLeaveMemoryForOthers) {
  constexpr size_t kGiB = size_t{1} << 30;
  EXPECT_EQ(LargestBufferBytes(25 * kGiB, 8, 3), kGiB);
  EXPECT_EQ(LargestBufferBytes(25 * kGiB, 1, 2), 12 * kGiB);
  EXPECT_EQ(LargestBufferBytes(kGiB, 1, 3), kGiB / 4);
}

TEST(Json, KeepsTheKeysAndQuirksOfNcclTests) {
  Report report = SomeReport();
  report.rows.push_back(SomeRow());
  report.rows[0].in_place.wrong.reset();
  report.rows[0].in_place.bandwidth.bus = std::nan("");
  report.totals = Totals{0, 2.5, {}, -1};
  const std::string text = JsonText(report);
  for (const char* part :
       {R"("version": 3)", R"("nccl_version": 10204)", R"("minimum_bytes": 8)",
        R"("step_factor": 2)", R"("parallel_init": "false")", R"("device_hex": "numa0:cpu1")",
        R"("root": "    -1")", R"("time": 12.345)", R"("nwrong": null)", R"("bus_bw": "nan")",
        R"("okay": "true")", R"("okay": "unchecked")", R"("experiment_name": "AllReduce")",
        R"("actual_iterations": 20)"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(Json, GroupsOfASplitAndReproducibilityHaveKeysOfTheirOwn) {
  Report report = SomeReport();
  report.rows.push_back(SomeRow());
  EXPECT_THAT(JsonText(report), ::testing::Not(HasSubstr("\"groups\"")));
  EXPECT_THAT(JsonText(report), ::testing::Not(HasSubstr("\"reproducibility\"")));
  report.groups = {{0, {0}}, {5, {1}}};
  for (Cell* cell : {&report.rows[0].out_of_place, &report.rows[0].in_place})
    cell->groups = {{10, {1, 2}}, {20, {3, 4}}};
  report.repro.emplace();
  const std::string text = JsonText(report);
  EXPECT_THAT(text, HasSubstr("\"group\": 5"));
  EXPECT_THAT(text, HasSubstr("\"time\": 20.0"));
  EXPECT_THAT(text, HasSubstr("\"distinct_hashes\": 0"));
}

TEST(Json, SecretsOfTheEnvironmentStayOut) {
  const std::vector<std::string> environment = {
      "HOME=/root",       "WEFT_LOG=info",     "WEFT_JOB_SECRET_FILE=/x", "AWS_TOKEN=a",
      "SLURM_JWT=secret", "OMP_NUM_THREADS=1", "NCCL_TESTS_SPLIT=MOD 2"};
  EXPECT_THAT(ReportedEnvironment(environment),
              ElementsAre("WEFT_LOG=info", "OMP_NUM_THREADS=1", "NCCL_TESTS_SPLIT=MOD 2"));
}

TEST(Json, AnExistingReportIsNotOverwritten) {
  const std::string folder = ::testing::TempDir() + "weft_perf_json_XXXXXX";
  std::vector<char> name(folder.c_str(), folder.c_str() + folder.size() + 1);
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const std::string path = std::string(name.data()) + "/out.json";
  for (const char* suffix : {"", ".0", ".1"}) {
    std::string used;
    std::FILE* file = CreateReportFile(path, &used);
    ASSERT_NE(file, nullptr);
    std::fclose(file);
    EXPECT_EQ(used, path + suffix);
  }
  std::string used;
  EXPECT_EQ(CreateReportFile(std::string(name.data()) + "/no/out.json", &used), nullptr);
  std::filesystem::remove_all(name.data());
}

}  // namespace
}  // namespace weft::perf::table_test
