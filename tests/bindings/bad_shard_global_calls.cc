// The call of shard_global.h with one wrong argument each.
#include "tests/bindings/bad_input.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

constexpr char kGlobal[] = "weft_shard_param_global";
constexpr int64_t kWhole[] = {8, 4};

// Rows 2 to 5 of a matrix of 8 x 4.
weft_shard_global_t RightGlobal() {
  weft_shard_global_t global = {};
  global.struct_size = sizeof(global);
  global.name = "whole";
  global.shape = kWhole;
  global.ndim = 2;
  global.offset = 8;
  return global;
}

// A param of 4 x 4 in a context that is being declared.
weft_shard_param_t Declared(Bench& bench) {
  constexpr int64_t kShape[] = {4, 4};
  weft_shard_param_t param = nullptr;
  EXPECT_EQ(AddParam(bench.open_unit, "slice", kShape, 2, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
  const weft_shard_global_t right = RightGlobal();
  EXPECT_EQ(weft_shard_param_global(param, &right), WEFT_SUCCESS) << weft_last_error();
  return param;
}

}  // namespace

std::vector<BadCall> BadSliceCalls() {
  std::vector<BadCall> calls;
  AddHandleFaults<weft_shard_param_t>(
      kGlobal, "param",
      [](Bench&, weft_shard_param_t param) {
        const weft_shard_global_t right = RightGlobal();
        return weft_shard_param_global(param, &right);
      },
      &calls);
  AddConfigFaults<weft_shard_global_t>(kGlobal, &calls,
                                       [](Bench& b, const weft_shard_global_t* global) {
                                         return weft_shard_param_global(Declared(b), global);
                                       });
  calls.push_back({kGlobal, "global_NULL", WEFT_INVALID_ARGUMENT, "global is NULL", [](Bench& b) {
                     return weft_shard_param_global(Declared(b), nullptr);
                   }});
  calls.push_back(
      {kGlobal, "a_finalized_context", WEFT_BAD_STATE, "is not legal here", [](Bench& b) {
         const weft_shard_global_t right = RightGlobal();
         return weft_shard_param_global(b.param, &right);
       }});
  const auto add = [&calls](const char* fault, const char* needle,
                            void (*spoil)(weft_shard_global_t*)) {
    calls.push_back({kGlobal, fault, WEFT_INVALID_ARGUMENT, needle, [spoil](Bench& b) {
                       weft_shard_global_t global = RightGlobal();
                       spoil(&global);
                       return weft_shard_param_global(Declared(b), &global);
                     }});
  };
  static constexpr int64_t kNegative[] = {8, -4};
  static constexpr int64_t kHuge[] = {INT64_MAX, INT64_MAX};
  static constexpr int64_t kEmpty[] = {0, 4};
  add("nothing_set", "name is NULL", [](auto* global) { *global = {}; });
  add("name_NULL", "name is NULL", [](auto* global) { global->name = nullptr; });
  add("name_empty", "is empty", [](auto* global) { global->name = ""; });
  add("shape_NULL", "shape of whole is NULL", [](auto* global) { global->shape = nullptr; });
  add("ndim_negative", "-1 dimensions", [](auto* global) { global->ndim = -1; });
  add("ndim_33", "33 dimensions", [](auto* global) { global->ndim = WEFT_SHARD_DIMS_MAX + 1; });
  add("dimension_negative", "dimension 1 = -4", [](auto* global) { global->shape = kNegative; });
  add("shape_beyond_any_memory", "more elements", [](auto* global) { global->shape = kHuge; });
  add("a_smaller_tensor", "which has 8;", [](auto* global) { global->ndim = 1; });
  add("an_empty_tensor", "which has 0;", [](auto* global) { global->shape = kEmpty; });
  add("a_scalar", "which has 1;", [](auto* global) { global->ndim = 0; });
  add("offset_too_large", "begin at element 17", [](auto* global) { global->offset = 17; });
  add("offset_behind_the_end", "begin at element 33", [](auto* global) { global->offset = 33; });
  add("offset_that_overflows", "which has 32;",
      [](auto* global) { global->offset = SIZE_MAX - 3; });
  return calls;
}

}  // namespace weft::test
