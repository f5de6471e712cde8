// The lists of bad calls have every function of include/weft.
#include <set>
#include <string>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/declared_functions.h"

namespace weft::test {
namespace {

// Functions that take anything: there is no bad input, and a case of any_input_test.cc each says what they answer.
const std::set<std::string> kTakeAnything = {
    "weft_dtype_size",
    "weft_dtype_name",
    "weft_op_name",
    "weft_result_name",
    "weft_last_error",
    "weft_callback_failed",
    "weft_option_count",
    "weft_version",
    "weft_log_set_callback",
    "weft_progress",
    "weft_batch_begin",
    "weft_shard_preset_name",
    "weft_struct_size",
    "weft_xla_set_interrupted",
};

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

}  // namespace
}  // namespace weft::test
