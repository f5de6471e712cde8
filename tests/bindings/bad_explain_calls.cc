// weft_explain with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

using Spoil = std::function<void(weft_explain_query_t&)>;

void Add(const char* fault, const char* needle, const Spoil& spoil, std::vector<BadCall>* calls) {
  calls->push_back({"weft_explain", fault, WEFT_INVALID_ARGUMENT, needle, [spoil](Bench& bench) {
                      weft_explain_query_t query = {};
                      query.struct_size = sizeof(query);
                      query.operation = "all_reduce";
                      query.count = 16;
                      query.dtype = WEFT_FLOAT32;
                      spoil(query);
                      char text[64];
                      return weft_explain(bench.pair[1], &query, text, sizeof(text), nullptr);
                    }});
}

}  // namespace

std::vector<BadCall> BadExplainCalls() {
  std::vector<BadCall> calls;
  Add(
      "operation_NULL", "operation is NULL", [](auto& query) { query.operation = nullptr; },
      &calls);
  Add(
      "an_unknown_operation", "no operation \"all_talk\"",
      [](auto& query) { query.operation = "all_talk"; }, &calls);
  Add(
      "dtype_99", "is not a data type",
      [](auto& query) { query.dtype = Unknown<weft_dtype_t>(99); }, &calls);
  Add(
      "count_SIZE_MAX", "fit in memory", [](auto& query) { query.count = SIZE_MAX; }, &calls);
  Add(
      "an_unknown_reduction", "is not a reduction",
      [](auto& query) { query.op = Unknown<weft_op_t>(77); }, &calls);
  Add(
      "a_reduction_never_made", "is not a reduction",
      [](auto& query) { query.op = Unknown<weft_op_t>(123456); }, &calls);
  Add(
      "bits_of_floats", "bit_and", [](auto& query) { query.op = WEFT_BIT_AND; }, &calls);
  Add(
      "an_unknown_algorithm", "there is no algorithm \"ring\"",
      [](auto& query) { query.algorithm = "ring"; }, &calls);
  Add(
      "another_field", "fields has bits", [](auto& query) { query.fields = WEFT_CALL_BACKGROUND; },
      &calls);
  calls.push_back(
      {"weft_explain", "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL", [](Bench&) {
         char text[64];
         return weft_explain(nullptr, nullptr, text, sizeof(text), nullptr);
       }});
  calls.push_back(
      {"weft_explain", "query_NULL", WEFT_INVALID_ARGUMENT, "query is NULL", [](Bench& bench) {
         char text[64];
         return weft_explain(bench.solo, nullptr, text, sizeof(text), nullptr);
       }});
  calls.push_back(
      {"weft_explain", "text_NULL", WEFT_INVALID_ARGUMENT, "text is NULL", [](Bench& bench) {
         weft_explain_query_t query = {};
         query.struct_size = sizeof(query);
         query.operation = "barrier";
         return weft_explain(bench.solo, &query, nullptr, 64, nullptr);
       }});
  return calls;
}

}  // namespace weft::test
