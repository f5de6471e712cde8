// Every function of include/weft with bad input: the documented code, a sentence that names the call
// and the fault, nothing written, and groups that still work.
#include "tests/bindings/bad_input.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>

#include <gmock/gmock.h>

namespace weft::test {
namespace {

using testing::HasSubstr;

// Functions that take anything: there is no bad input, and a case below each says what they answer.
const std::set<std::string> kTakeAnything = {
    "weft_dtype_size", "weft_dtype_name",   "weft_op_name", "weft_result_name",
    "weft_last_error", "weft_option_count", "weft_version", "weft_log_set_callback",
    "weft_progress",   "weft_batch_begin",
};

const std::vector<BadCall>& AllBadCalls() {
  static const std::vector<BadCall> all = [] {
    std::vector<BadCall> calls;
    for (const auto& some :
         {BadCollectives(), BadVectorCalls(), BadExplainCalls(), BadOpCalls(), BadMessages(),
          BadGroupCalls(), BadShardCalls(), BadShardStepCalls(), BadProcessCalls()}) {
      calls.insert(calls.end(), some.begin(), some.end());
    }
    return calls;
  }();
  return all;
}

// The last parts of a function's name by which a sentence may call it: all_reduce, unit_begin.
bool Names(std::string_view sentence, std::string_view function) {
  for (const std::string_view prefix : {"weft_", "weft_shard_", "weft_shard_context_"}) {
    if (function.substr(0, prefix.size()) != prefix) continue;
    if (sentence.find(function.substr(prefix.size())) != std::string_view::npos) return true;
  }
  return false;
}

class BadInput : public testing::TestWithParam<BadCall> {};

TEST_P(BadInput, IsRefusedWithASentenceAndNothingIsTouched) {
  const BadCall& call = GetParam();
  Bench bench;
  auto before = std::make_unique<Outputs>();
  std::memcpy(before.get(), &bench.out, sizeof(Outputs));

  const weft_result_t result = call.run(bench);

  const std::string sentence = weft_last_error();
  EXPECT_EQ(result, call.expected) << "instead of " << weft_result_name(call.expected) << ", "
                                   << weft_result_name(result) << ": " << sentence;
  EXPECT_THAT(sentence, HasSubstr(call.needle));
  EXPECT_TRUE(Names(sentence, call.function))
      << "the sentence does not name the call: " << sentence;
  EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  EXPECT_EQ(std::memcmp(before.get(), &bench.out, sizeof(Outputs)), 0) << "an output was written";
  weft_error_info_t info = {};
  info.struct_size = sizeof(info);
  ASSERT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
  EXPECT_EQ(info.result, result);
  bench.ExpectGroupsWork();
}

std::string NameOf(const testing::TestParamInfo<BadCall>& info) {
  std::string name = info.param.function.substr(5) + "_with_" + info.param.fault;
  std::replace_if(
      name.begin(), name.end(),
      [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllCalls, BadInput, testing::ValuesIn(AllBadCalls()), NameOf);

std::set<std::string> DeclaredFunctions() {
  std::set<std::string> functions;
  const std::regex declaration(R"(WEFT_EXPORT[^;(]*?\b(weft_\w+)\s*\()");
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_HEADERS)) {
    if (entry.path().extension() != ".h") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string header = text.str();
    for (std::sregex_iterator i(header.begin(), header.end(), declaration), end; i != end; ++i)
      functions.insert((*i)[1]);
  }
  return functions;
}

TEST(BadInputList, HasEveryFunctionOfTheHeaders) {
  const std::set<std::string> declared = DeclaredFunctions();
  EXPECT_GT(declared.size(), 50u);
  std::set<std::string> listed = kTakeAnything;
  for (const BadCall& call : AllBadCalls()) {
    EXPECT_EQ(kTakeAnything.count(call.function), 0u) << call.function;
    listed.insert(call.function);
  }
  EXPECT_EQ(listed, declared) << "a function has no bad calls here, or is no longer declared";
}

TEST(AnyInput, UnknownNumbersHaveNamesAndSizes) {
  for (const int number : {-1, 12, 99, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(weft_dtype_size(Unknown<weft_dtype_t>(number)), 0u) << number;
    EXPECT_STREQ(weft_dtype_name(Unknown<weft_dtype_t>(number)), "unknown") << number;
    EXPECT_STREQ(weft_op_name(Unknown<weft_op_t>(number)), "unknown") << number;
    EXPECT_STREQ(weft_result_name(Unknown<weft_result_t>(number)), "unknown") << number;
  }
  EXPECT_EQ(weft_dtype_size(WEFT_FLOAT64), 8u);
  EXPECT_STREQ(weft_dtype_name(WEFT_BFLOAT16), "bfloat16");
  EXPECT_STREQ(weft_op_name(WEFT_AVG), "avg");
  EXPECT_STREQ(weft_result_name(WEFT_FORKED), "forked");
  EXPECT_EQ(weft_version(), WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100);
  EXPECT_GT(weft_option_count(), 0u);
}

TEST(AnyInput, NullIsFineWhereTheHeadersSaySo) {
  EXPECT_EQ(weft_group_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_store_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_log_set_callback(nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
}

TEST(AnyInput, ExplainCutsWhatDoesNotFit) {
  Bench bench;
  weft_explain_query_t query = {};
  query.struct_size = sizeof(query);
  query.operation = "all_reduce";
  query.count = 1 << 20;
  query.dtype = WEFT_FLOAT32;
  size_t length = 0;
  ASSERT_EQ(weft_explain(bench.pair[0], &query, nullptr, 0, &length), WEFT_SUCCESS);
  std::string text(length + 1, 'x');
  ASSERT_EQ(weft_explain(bench.pair[0], &query, text.data(), text.size(), nullptr), WEFT_SUCCESS);
  EXPECT_THAT(text, HasSubstr("algorithm: staged\n"));
  // (5P-2)S with two ranks and 4 MiB.
  EXPECT_THAT(text, HasSubstr("bytes moved: 33554432 "));
  EXPECT_THAT(text, HasSubstr("not direct: peers cannot reach private buffers"));
  char part[12];
  ASSERT_EQ(weft_explain(bench.pair[0], &query, part, sizeof(part), nullptr), WEFT_SUCCESS);
  EXPECT_EQ(std::string(part), text.substr(0, 11));
  query.symmetric = 1;
  ASSERT_EQ(weft_explain(bench.pair[0], &query, text.data(), text.size(), nullptr), WEFT_SUCCESS);
  EXPECT_THAT(text, HasSubstr("algorithm: direct\n"));
  EXPECT_THAT(text, HasSubstr("bytes moved: 16777216 "));  // 2PS
}

TEST(AnyInput, BatchesMayBeEmptyAndNested) {
  for (int level = 0; level < 1000; ++level)
    EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  for (int level = 0; level < 1000; ++level)
    EXPECT_EQ(weft_batch_end(), WEFT_SUCCESS) << weft_last_error();
}

TEST(AnyInput, CountsOfZeroNeedNoBuffers) {
  Bench bench;
  const weft_dtype_t dtype = WEFT_FLOAT32;
  const weft_group_t group = bench.solo;
  EXPECT_EQ(weft_all_reduce(nullptr, nullptr, 0, dtype, WEFT_SUM, group, nullptr, nullptr),
            WEFT_SUCCESS);
  EXPECT_EQ(weft_reduce(nullptr, nullptr, 0, dtype, WEFT_SUM, 0, group, nullptr, nullptr),
            WEFT_SUCCESS);
  EXPECT_EQ(weft_broadcast(nullptr, nullptr, 0, dtype, 0, group, nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_all_gather(nullptr, nullptr, 0, dtype, group, nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_reduce_scatter(nullptr, nullptr, 0, dtype, WEFT_SUM, group, nullptr, nullptr),
            WEFT_SUCCESS);
}

TEST(AnyInput, BuffersSideBySideDoNotOverlap) {
  Bench bench;
  std::vector<float> both(32, 1.0f);
  EXPECT_EQ(weft_all_reduce(both.data(), both.data() + 16, 16, WEFT_FLOAT32, WEFT_SUM, bench.solo,
                            nullptr, nullptr),
            WEFT_SUCCESS)
      << weft_last_error();
}

TEST(AnyInput, ALongReasonEndsTheGroupAllTheSame) {
  Bench bench;
  const std::string reason(1 << 20, 'r');
  EXPECT_EQ(weft_group_abort(bench.pair[0], reason.c_str()), WEFT_SUCCESS);
  EXPECT_EQ(weft_group_abort(bench.pair[0], nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_barrier(bench.pair[1], nullptr, nullptr), WEFT_ABORTED);
  EXPECT_THAT(weft_last_error(), HasSubstr("rrrrrrrr"));
}

}  // namespace
}  // namespace weft::test
