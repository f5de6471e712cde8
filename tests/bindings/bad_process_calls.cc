// Calls about the process, memory, log, options, errors, with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

std::vector<BadCall> BadMemoryCalls() {
  return {
      {"weft_mem_alloc", "memory_NULL", WEFT_INVALID_ARGUMENT, "memory is NULL",
       [](Bench&) {
         return weft_mem_alloc(64, 0, nullptr);
       }},
      {"weft_mem_alloc", "bytes_0", WEFT_INVALID_ARGUMENT, "bytes is 0",
       [](Bench& b) {
         return weft_mem_alloc(0, 0, &b.out.memory);
       }},
      {"weft_mem_alloc", "bytes_SIZE_MAX", WEFT_OUT_OF_MEMORY, "18446744073709551615",
       [](Bench& b) {
         return weft_mem_alloc(SIZE_MAX, 0, &b.out.memory);
       }},
      {"weft_mem_alloc", "bytes_PTRDIFF_MAX", WEFT_OUT_OF_MEMORY, "allocating",
       [](Bench& b) {
         return weft_mem_alloc(PTRDIFF_MAX, 0, &b.out.memory);
       }},
      {"weft_mem_alloc", "flags", WEFT_INVALID_ARGUMENT, "flags is 1",
       [](Bench& b) {
         return weft_mem_alloc(64, 1, &b.out.memory);
       }},
      {"weft_mem_free", "a_pointer_from_malloc", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         const std::vector<char> foreign(4096);
         return weft_mem_free(const_cast<char*>(foreign.data()));
       }},
      {"weft_mem_free", "a_pointer_to_the_stack", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         int foreign = 0;
         return weft_mem_free(&foreign);
       }},
      {"weft_mem_free", "a_number", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         return weft_mem_free(reinterpret_cast<void*>(uintptr_t{1}));
       }},
      {"weft_mem_free", "the_middle_of_a_block", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc(8192, 0, &block), WEFT_SUCCESS) << weft_last_error();
         const weft_result_t result = weft_mem_free(static_cast<char*>(block) + 4096);
         EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
         return result;
       }},
      {"weft_mem_free", "a_freed_block", WEFT_INVALID_ARGUMENT, "not a block",
       [](Bench&) {
         void* block = nullptr;
         EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS) << weft_last_error();
         EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
         return weft_mem_free(block);
       }},
  };
}

BadCall Level(const char* fault, int level) {
  return {"weft_log_set_level", fault, WEFT_INVALID_ARGUMENT,
          std::to_string(level) + " is not a log level", [level](Bench&) {
            return weft_log_set_level(Unknown<weft_log_level_t>(level));
          }};
}

BadCall OptionSize(const char* fault, size_t struct_size) {
  return {"weft_option_at", fault, WEFT_INVALID_ARGUMENT,
          "struct_size is " + std::to_string(struct_size), [struct_size](Bench&) {
            return WithAnswer<weft_option_info_t>(
                struct_size, [](weft_option_info_t* info) { return weft_option_at(0, info); });
          }};
}

BadCall ErrorSize(const char* fault, size_t struct_size) {
  return {"weft_last_error_info", fault, WEFT_INVALID_ARGUMENT,
          "struct_size is " + std::to_string(struct_size), [struct_size](Bench&) {
            return WithAnswer<weft_error_info_t>(struct_size, weft_last_error_info);
          }};
}

BadCall OptionIndex(const char* fault, size_t index) {
  return {"weft_option_at", fault, WEFT_INVALID_ARGUMENT, "is not below", [index](Bench&) {
            return WithAnswer<weft_option_info_t>(
                sizeof(weft_option_info_t),
                [index](weft_option_info_t* info) { return weft_option_at(index, info); });
          }};
}

}  // namespace

std::vector<BadCall> BadProcessCalls() {
  std::vector<BadCall> calls = BadMemoryCalls();
  calls.push_back(Level("level_99", 99));
  calls.push_back(Level("level_4", 4));
  calls.push_back(Level("level_minus_1", -1));
  calls.push_back(
      {"weft_option_at", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL", [](Bench&) {
         return weft_option_at(0, nullptr);
       }});
  calls.push_back(OptionIndex("index_of_the_end", weft_option_count()));
  calls.push_back(OptionIndex("index_SIZE_MAX", SIZE_MAX));
  calls.push_back(OptionSize("struct_size_0", 0));
  calls.push_back(OptionSize("struct_size_1", 1));
  calls.push_back(OptionSize("struct_size_4", 4));
  calls.push_back(OptionSize("struct_size_without_end", SIZE_MAX));
  calls.push_back(
      {"weft_last_error_info", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL", [](Bench&) {
         return weft_last_error_info(nullptr);
       }});
  calls.push_back(ErrorSize("struct_size_0", 0));
  calls.push_back(ErrorSize("struct_size_1", 1));
  calls.push_back(ErrorSize("struct_size_4", 4));
  calls.push_back(ErrorSize("struct_size_without_end", SIZE_MAX));
  return calls;
}

}  // namespace weft::test
