// Calls of op.h with one wrong argument each.
#include "tests/bindings/bad_input.h"
#include "tests/bindings/user_op.h"

namespace weft::test {
namespace {

void Ignore(const void*, const void*, void*, size_t, weft_dtype_t, void*) {}

BadCall Premul(const char* fault, int dtype, const char* needle) {
  return {"weft_op_create_premul_sum", fault, WEFT_INVALID_ARGUMENT, needle, [dtype](Bench& b) {
            const double factor = 1;
            return weft_op_create_premul_sum(&factor, Unknown<weft_dtype_t>(dtype), &b.out.op);
          }};
}

BadCall Named(const char* fault, const std::string& name, const char* needle) {
  return {"weft_op_create_user", fault, WEFT_INVALID_ARGUMENT, needle, [name](Bench& b) {
            return CreateUserOp(Ignore, nullptr, name.c_str(), &b.out.op);
          }};
}

BadCall Destroyed(const char* fault, int op) {
  return {"weft_op_destroy", fault, WEFT_INVALID_ARGUMENT,
          std::to_string(op) + " is not a reduction", [op](Bench&) {
            return weft_op_destroy(Unknown<weft_op_t>(op));
          }};
}

}  // namespace

std::vector<BadCall> BadOpCalls() {
  std::vector<BadCall> calls = {
      {"weft_op_create_premul_sum", "factor_NULL", WEFT_INVALID_ARGUMENT, "factor is NULL",
       [](Bench& b) {
         return weft_op_create_premul_sum(nullptr, WEFT_FLOAT32, &b.out.op);
       }},
      {"weft_op_create_premul_sum", "op_NULL", WEFT_INVALID_ARGUMENT, "op is NULL",
       [](Bench&) {
         const float factor = 1;
         return weft_op_create_premul_sum(&factor, WEFT_FLOAT32, nullptr);
       }},
      Premul("dtype_minus_1", -1, "-1 is not a data type"),
      Premul("dtype_12", 12, "12 is not a data type"),
      Premul("dtype_101", 101, "101 is not a data type"),
      Premul("dtype_bool", WEFT_BOOL, "booleans"),
      {"weft_op_create_user", "function_NULL", WEFT_INVALID_ARGUMENT, "function is NULL",
       [](Bench& b) {
         return CreateUserOp(nullptr, nullptr, "name", &b.out.op);
       }},
      {"weft_op_create_user", "name_NULL", WEFT_INVALID_ARGUMENT, "name is NULL",
       [](Bench& b) {
         return CreateUserOp(Ignore, nullptr, nullptr, &b.out.op);
       }},
      {"weft_op_create_user", "op_NULL", WEFT_INVALID_ARGUMENT, "op is NULL",
       [](Bench&) {
         return CreateUserOp(Ignore, nullptr, "name", nullptr);
       }},
      {"weft_op_create_user", "config_NULL", WEFT_INVALID_ARGUMENT, "config is NULL",
       [](Bench& b) {
         return weft_op_create_user(nullptr, &b.out.op);
       }},
      Named("an_empty_name", "", "name is empty"),
      Named("a_name_of_64_bytes", std::string(64, 'n'), "longer than 63"),
      Named("a_name_of_a_mebibyte", std::string(1 << 20, 'n'), "longer than 63"),
      {"weft_op_create_user", "element_count_8193", WEFT_INVALID_ARGUMENT, "at most 8192 bytes",
       [](Bench& b) {
         const weft_user_op_config_t config = {.struct_size = sizeof(config),
                                               .function = Ignore,
                                               .name = "name",
                                               .element_count = 8193};
         return weft_op_create_user(&config, &b.out.op);
       }},
      Destroyed("sum", WEFT_SUM),
      Destroyed("max_loc", WEFT_MAX_LOC),
      Destroyed("an_internal_number", 1022),
      Destroyed("a_number_never_made", WEFT_OP_CUSTOM_LAST),
      Destroyed("minus_1", -1),
      {"weft_op_destroy", "a_destroyed_reduction", WEFT_INVALID_ARGUMENT, "was destroyed",
       [](Bench&) {
         weft_op_t op;
         EXPECT_EQ(CreateUserOp(Ignore, nullptr, "name", &op), WEFT_SUCCESS);
         EXPECT_EQ(weft_op_destroy(op), WEFT_SUCCESS);
         return weft_op_destroy(op);
       }},
  };
  AddConfigFaults<weft_user_op_config_t>("weft_op_create_user", &calls,
                                         [](Bench& b, const weft_user_op_config_t* config) {
                                           return weft_op_create_user(config, &b.out.op);
                                         });
  return calls;
}

}  // namespace weft::test
