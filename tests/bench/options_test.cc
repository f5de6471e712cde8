#include "bench/weft_perf/options.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::perf::options_test {
namespace {

using ::testing::HasSubstr;

CommandLine Parse(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  return ParseCommandLine(static_cast<int>(words.size()), argv.data());
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const CommandLine line = Parse({"weft_perf", "all_reduce"});
  ASSERT_TRUE(line.run) << line.text;
  const Options& o = line.options;
  EXPECT_STREQ(o.operation->name, "all_reduce");
  EXPECT_EQ(o.threads, 1);
  EXPECT_EQ(o.ranks_per_thread, 1);
  EXPECT_EQ(o.min_bytes, 33554432u);
  EXPECT_EQ(o.max_bytes, 33554432u);
  EXPECT_EQ(o.step_bytes, 1048576u);
  EXPECT_EQ(o.step_factor, 1u);
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmup, 1);
  EXPECT_EQ(o.aggregated, 1);
  EXPECT_EQ(o.cycles, 1);
  EXPECT_EQ(o.checks, 1);
  EXPECT_EQ(o.root, 0);
  EXPECT_EQ(o.blocking, Blocking::kNone);
  EXPECT_EQ(o.average, Average::kMean);
  ASSERT_EQ(o.reductions.size(), 1u);
  EXPECT_STREQ(o.reductions[0]->name, "sum");
  ASSERT_EQ(o.types.size(), 1u);
  EXPECT_STREQ(o.types[0]->name, "float");
  EXPECT_FALSE(o.hot);
  EXPECT_EQ(o.memory, Memory::kPrivate);
}

TEST(Options, AProgramOfNcclTestsKnowsItsOperation) {
  const CommandLine line =
      Parse({"/opt/bin/reduce_scatter_perf", "-b", "8", "-e", "64M", "-f", "8"});
  ASSERT_TRUE(line.run) << line.text;
  EXPECT_STREQ(line.options.operation->name, "reduce_scatter");
  EXPECT_EQ(line.options.program, "reduce_scatter_perf");
  EXPECT_EQ(line.options.min_bytes, 8u);
  EXPECT_EQ(line.options.max_bytes, 64u << 20);
  EXPECT_EQ(line.options.step_factor, 8u);
}

TEST(Options, ShortAndLongNamesAgree) {
  const CommandLine brief =
      Parse({"weft_perf", "reduce", "-t", "2", "-g", "3",   "-n", "0x10", "-m", "4", "-w", "5",
             "-N",        "0",      "-c", "2", "-o", "max", "-d", "half", "-r", "1", "-z", "3",
             "-T",        "7",      "-C", "1", "-a", "3",   "-R", "2",    "-S", "1", "-J", "x.JSON",
             "-M",        "1",      "-u", "3", "-I", "1",   "-K", "2",    "-p", "1", "-y", "1",
             "-G",        "0",      "-x", "1", "-D", "0",   "-V", "16"});
  const CommandLine full = Parse({"weft_perf",
                                  "reduce",
                                  "--nthreads",
                                  "2",
                                  "--ngpus",
                                  "3",
                                  "--iters",
                                  "16",
                                  "--agg_iters=4",
                                  "--warmup_iters",
                                  "5",
                                  "--run_cycles",
                                  "0",
                                  "--check",
                                  "2",
                                  "--op",
                                  "max",
                                  "--datatype",
                                  "half",
                                  "--root",
                                  "1",
                                  "--blocking",
                                  "3",
                                  "--timeout",
                                  "7",
                                  "--report_cputime",
                                  "1",
                                  "--average",
                                  "3",
                                  "--local_register",
                                  "2",
                                  "--report_timestamps",
                                  "1",
                                  "--output_file",
                                  "x.JSON",
                                  "--memory",
                                  "1",
                                  "--unalign",
                                  "3",
                                  "--per_iter_timing",
                                  "1",
                                  "--per_iter_skip",
                                  "2",
                                  "--parallel_init",
                                  "1",
                                  "--stream_null",
                                  "1",
                                  "--cudagraph",
                                  "0",
                                  "--cta_policy",
                                  "1",
                                  "--device_implementation",
                                  "0",
                                  "--device_cta_count",
                                  "16"});
  for (const CommandLine* line : {&brief, &full}) {
    ASSERT_TRUE(line->run) << line->text;
    const Options& o = line->options;
    EXPECT_EQ(o.ranks_per_process(), 6);
    EXPECT_EQ(o.iterations, 16);
    EXPECT_EQ(o.aggregated, 4);
    EXPECT_EQ(o.warmup, 5);
    EXPECT_EQ(o.cycles, 0);
    EXPECT_EQ(o.checks, 2);
    EXPECT_EQ(o.reductions.at(0)->op, WEFT_MAX);
    EXPECT_EQ(o.types.at(0)->dtype, WEFT_FLOAT16);
    EXPECT_EQ(o.root, 1);
    EXPECT_EQ(o.blocking, Blocking::kBarrierOutsideTime);
    EXPECT_EQ(o.timeout_s, 7);
    EXPECT_TRUE(o.cpu_time);
    EXPECT_EQ(o.average, Average::kMax);
    EXPECT_EQ(o.memory, Memory::kSymmetric);
    EXPECT_TRUE(o.timestamps);
    EXPECT_EQ(o.json_path, "x.JSON");
    EXPECT_TRUE(o.memory_report);
    EXPECT_EQ(o.unalign, 3u);
    EXPECT_TRUE(o.per_iteration);
    EXPECT_EQ(o.per_iteration_skip, 2);
    EXPECT_EQ(o.parallel_init, 1);
  }
}

TEST(Options, EveryLetterOfNcclTestsIsKnown) {
  for (const char letter : std::string("tgbeifnmwNpIKcodrzyThGCaRxDVJSMu")) {
    EXPECT_NE(OptionName(letter), "?") << letter;
  }
}

TEST(Options, OwnOptionsHaveLongNamesOnly) {
  const CommandLine line = Parse({"weft_perf", "--nprocs", "8", "--hot", "--symmetric", "--async",
                                  "--bound", "--threads-as-ranks", "broadcast", "-r", "all"});
  ASSERT_TRUE(line.run) << line.text;
  EXPECT_EQ(line.options.processes, 8);
  EXPECT_TRUE(line.options.hot);
  EXPECT_EQ(line.options.memory, Memory::kSymmetric);
  EXPECT_TRUE(line.options.asynchronous);
  EXPECT_TRUE(line.options.bound);
  EXPECT_TRUE(line.options.threads_as_ranks);
  EXPECT_EQ(line.options.root, kAllRoots);
}

TEST(Options, AllMeansThoseOfNcclTests) {
  const CommandLine line = Parse({"weft_perf", "all_reduce", "-o", "all", "-d", "all"});
  ASSERT_TRUE(line.run) << line.text;
  std::string reductions;
  for (const Reduction* reduction : line.options.reductions) {
    reductions += std::string(reduction->name) + " ";
  }
  EXPECT_EQ(reductions, "sum prod max min avg mulsum ");
  std::string types;
  for (const ElementType* type : line.options.types)
    types += std::string(type->name) + " ";
  EXPECT_EQ(types,
            "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 ");
}

TEST(Options, BuffersLieWhereLocalRegisterSays) {
  EXPECT_EQ(Parse({"weft_perf", "gather", "-R", "0"}).options.memory, Memory::kPrivate);
  EXPECT_EQ(Parse({"weft_perf", "gather", "-R", "1"}).options.memory, Memory::kRegistered);
  EXPECT_EQ(Parse({"weft_perf", "gather", "-R", "2"}).options.memory, Memory::kSymmetric);
  EXPECT_EQ(Parse({"weft_perf", "broadcast", "-R", "3"}).options.memory, Memory::kShared);
  EXPECT_EQ(Parse({"weft_perf", "all_gather", "--shared"}).options.memory, Memory::kShared);
}

TEST(Options, OneResultForAllRanksIsRefusedWhereThereIsNone) {
  for (const char* operation : {"gather", "reduce_scatter", "alltoall", "sendrecv", "barrier"}) {
    const CommandLine line = Parse({"weft_perf", operation, "--shared"});
    EXPECT_FALSE(line.run) << operation;
    EXPECT_NE(line.text.find("not the same for all ranks"), std::string::npos) << line.text;
  }
  EXPECT_FALSE(Parse({"weft_perf", "all_reduce", "--shared", "--bound"}).run);
  EXPECT_FALSE(Parse({"weft_perf", "all_reduce", "--shared", "--repro"}).run);
}

TEST(Options, ReproIsAModeOfItsOwn) {
  EXPECT_FALSE(Parse({"weft_perf", "reduce"}).options.repro);
  const CommandLine line = Parse({"weft_perf", "reduce", "--repro"});
  ASSERT_TRUE(line.run) << line.text;
  EXPECT_TRUE(line.options.repro);
  EXPECT_FALSE(line.options.repro_world);
  const CommandLine child = Parse({"weft_perf", "reduce", "--repro", "--repro-world"});
  EXPECT_TRUE(child.options.repro && child.options.repro_world);
}

TEST(Options, SizesTakeSuffixesAndDecimals) {
  EXPECT_EQ(ParseSize("8"), 8);
  EXPECT_EQ(ParseSize("1.5K"), 1536);
  EXPECT_EQ(ParseSize("64M"), 64.0 * 1024 * 1024);
  EXPECT_EQ(ParseSize("2g"), 2.0 * 1024 * 1024 * 1024);
  EXPECT_EQ(ParseSize("1MB"), 1024.0 * 1024);
  for (const char* bad :
       {"", "x", "-1", "1T", "nan", "inf", "1e40", "9999999999G", "64Mx", "64 M", " 8"}) {
    EXPECT_EQ(ParseSize(bad), -1) << bad;
  }
}

struct BadLine {
  std::vector<std::string> words;
  ExitCode code;
  const char* says;
};

TEST(Options, BadLinesGetTheirExitCodeAndOneLine) {
  const std::vector<BadLine> lines = {
      {{"weft_perf"}, ExitCode::kUsage, "which operation"},
      {{"weft_perf", "allreduce"}, ExitCode::kUsage, "no operation \"allreduce\""},
      {{"weft_perf", "reduce", "reduce"}, ExitCode::kUsage, "unexpected argument"},
      {{"all_reduce_perf", "reduce"}, ExitCode::kUsage, "unexpected argument \"reduce\""},
      {{"weft_perf", "reduce", "-q"}, ExitCode::kUsage, "invalid option 'q'"},
      {{"weft_perf", "reduce", "--quick"}, ExitCode::kUsage, "invalid option '--quick'"},
      {{"weft_perf", "reduce", "-n"}, ExitCode::kUsage, "-n,--iters needs a value"},
      {{"weft_perf", "reduce", "--nprocs"}, ExitCode::kUsage, "--nprocs needs a value"},
      {{"weft_perf", "reduce", "--hot=1"}, ExitCode::kUsage, "--hot takes no value"},
      {{"weft_perf", "reduce", "-n", "x"}, ExitCode::kUsage, "takes a number, not \"x\""},
      {{"weft_perf", "reduce", "-n", "0"}, ExitCode::kUsage, "out of range"},
      {{"weft_perf", "reduce", "--nprocs", "0"}, ExitCode::kUsage, "out of range"},
      {{"weft_perf", "reduce", "-n", "99999999999999999999"}, ExitCode::kUsage, "out of range"},
      {{"weft_perf", "reduce", "-t", "65536", "-g", "65536"}, ExitCode::kUsage, "out of range"},
      {{"weft_perf", "reduce", "-a", "4"}, ExitCode::kUsage, "out of range"},
      {{"weft_perf", "reduce", "-o", "xor"}, ExitCode::kUsage, "no reduction \"xor\""},
      {{"weft_perf", "reduce", "-d", "f32"}, ExitCode::kUsage, "no element type \"f32\""},
      {{"weft_perf", "reduce", "-R", "4"}, ExitCode::kUsage, "out of range"},
      {{"weft_perf", "barrier", "--repro"}, ExitCode::kUsage, "a barrier has none"},
      {{"weft_perf", "reduce", "-G", "1"}, ExitCode::kUsage, "needs CUDA"},
      {{"weft_perf", "reduce", "-D", "1"}, ExitCode::kUsage, "needs CUDA"},
      {{"weft_perf", "reduce", "-J", "out.csv"}, ExitCode::kUsage, "only .json"},
      {{"weft_perf", "reduce", "-b", "junk"}, ExitCode::kBadSize, "'minbytes'"},
      {{"weft_perf", "reduce", "-e", "1X"}, ExitCode::kBadSize, "'maxbytes'"},
      {{"weft_perf", "reduce", "-b", "2M", "-e", "1M"}, ExitCode::kBadSize, "2097152 > 1048576"},
      {{"weft_perf", "reduce", "-b", "0", "-f", "2"}, ExitCode::kUsage, "never grow"},
      {{"weft_perf", "reduce", "-b", "0", "-i", "0"}, ExitCode::kUsage, "never grow"},
      {{"weft_perf", "reduce", "-I", "1", "-K", "20"}, ExitCode::kUsage, "leaves none"},
      {{"weft_perf", "reduce", "-I", "1", "--async"}, ExitCode::kUsage, "choose one"},
      {{"weft_perf", "reduce", "--nprocs", "2", "--threads-as-ranks", "-t", "2"},
       ExitCode::kUsage,
       "leave -t and -g out"},
  };
  for (const BadLine& bad : lines) {
    const CommandLine line = Parse(bad.words);
    SCOPED_TRACE(::testing::PrintToString(bad.words));
    EXPECT_FALSE(line.run);
    EXPECT_EQ(static_cast<int>(line.code), static_cast<int>(bad.code)) << line.text;
    EXPECT_THAT(line.text, HasSubstr(bad.says));
    EXPECT_EQ(std::count(line.text.begin(), line.text.end(), '\n'), 1);
  }
}

TEST(Options, HelpNamesEveryOptionAndEndsWell) {
  const CommandLine line = Parse({"weft_perf", "-h"});
  EXPECT_FALSE(line.run);
  EXPECT_EQ(line.code, ExitCode::kOk);
  for (const OptionRow& option : OptionTable()) {
    if (option.meaning == nullptr) continue;
    EXPECT_THAT(line.text, HasSubstr(std::string("--") + option.name));
  }
  EXPECT_THAT(line.text, ::testing::Not(HasSubstr("--repro-world")));
  EXPECT_THAT(line.text, HasSubstr("alltoallv gather scatter sendrecv hypercube barrier"));
}

}  // namespace
}  // namespace weft::perf::options_test
