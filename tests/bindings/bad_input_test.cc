// Every function of include/weft with bad input: the documented code, a sentence that names the call
// and the fault, nothing written, and groups that still work.
#include "tests/bindings/bad_input.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <string_view>

#include <gmock/gmock.h>

namespace weft::test {
namespace {

using testing::HasSubstr;

// The last parts of a function's name by which a sentence may call it: all_reduce, unit_begin.
bool Names(std::string_view sentence, std::string_view function) {
  for (const std::string_view prefix :
       {"weft_", "weft_shard_", "weft_shard_context_", "weft_xla_"}) {
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

}  // namespace
}  // namespace weft::test
