// What the C interface answers where no input is bad: numbers without a meaning, NULL where the headers
// allow it, nothing at all.
#include <gmock/gmock.h>

#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

using testing::HasSubstr;

TEST(AnyInput, UnknownNumbersHaveNamesAndSizes) {
  for (const int number : {-1, 12, 99, INT32_MAX, INT32_MIN}) {
    EXPECT_EQ(weft_dtype_size(Unknown<weft_dtype_t>(number)), 0u) << number;
    EXPECT_STREQ(weft_dtype_name(Unknown<weft_dtype_t>(number)), "unknown") << number;
    EXPECT_STREQ(weft_shard_preset_name(Unknown<weft_shard_preset_t>(number)), "unknown") << number;
    EXPECT_STREQ(weft_op_name(Unknown<weft_op_t>(number)), "unknown") << number;
    EXPECT_STREQ(weft_result_name(Unknown<weft_result_t>(number)), "unknown") << number;
  }
  EXPECT_EQ(weft_dtype_size(WEFT_FLOAT64), 8u);
  EXPECT_STREQ(weft_dtype_name(WEFT_BFLOAT16), "bfloat16");
  EXPECT_STREQ(weft_op_name(WEFT_AVG), "avg");
  EXPECT_STREQ(weft_shard_preset_name(WEFT_SHARD_GRAD_OP), "shard-grad-op");
  EXPECT_STREQ(weft_result_name(WEFT_FORKED), "forked");
  EXPECT_EQ(weft_version(), WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100);
  EXPECT_GT(weft_option_count(), 0u);
  EXPECT_EQ(weft_struct_size("weft_no_such_t"), 0u);
}

TEST(AnyInput, NullIsFineWhereTheHeadersSaySo) {
  EXPECT_EQ(weft_group_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_work_free(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_completion_queue_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_store_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free_on(nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_mesh_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_context_destroy(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_log_set_callback(nullptr, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_struct_size(nullptr), 0u);
  weft_xla_set_interrupted(nullptr);
}

TEST(AnyInput, AReasonMayBeAnythingAndTheCodeComesBack) {
  const std::string last = weft_last_error();
  for (const char* const sentence : {"", "no room", static_cast<const char*>(nullptr)})
    EXPECT_EQ(weft_callback_failed(WEFT_TIMEOUT, sentence), WEFT_TIMEOUT);
  EXPECT_EQ(weft_callback_failed(Unknown<weft_result_t>(-7), std::string(100'000, 'x').c_str()), -7);
  // It is no failure of a call.
  EXPECT_EQ(weft_last_error(), last);
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
  EXPECT_THAT(text,
              HasSubstr("not direct: a rank's buffers are not in memory that its peers can reach"));
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
  EXPECT_EQ(weft_batch_begin(), WEFT_SUCCESS);
  EXPECT_EQ(weft_batch_cancel(), WEFT_SUCCESS) << weft_last_error();
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
