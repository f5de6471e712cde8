// Calls of dlpack.h with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

constexpr int64_t kShape[2] = {2, 3};

// A right tensor in memory of weft's, which `spoil` makes wrong.
BadCall Spoilt(const char* fault, weft_result_t expected, const char* needle,
               void (*spoil)(weft_tensor_t& tensor)) {
  return {"weft_mem_dlpack", fault, expected, needle, [spoil](Bench&) {
            void* block = nullptr;
            EXPECT_EQ(weft_mem_alloc(64, 0, &block), WEFT_SUCCESS);
            weft_tensor_t tensor = {.struct_size = sizeof(tensor),
                                    .data = block,
                                    .shape = kShape,
                                    .ndim = 2,
                                    .dtype = WEFT_FLOAT32};
            spoil(tensor);
            DLManagedTensorVersioned* managed = nullptr;
            const weft_result_t result = weft_mem_dlpack(&tensor, &managed);
            EXPECT_EQ(managed, nullptr) << "an output was written";
            const std::string sentence = weft_last_error();
            EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << "a reference was kept";
            EXPECT_EQ(sentence, weft_last_error());
            return result;
          }};
}

}  // namespace

std::vector<BadCall> BadDlpackCalls() {
  static int64_t negative[2] = {2, -3};
  static int64_t huge[2] = {int64_t{1} << 40, int64_t{1} << 40};
  static int64_t beyond[2] = {1024, 1024};
  static float foreign[6];
  std::vector<BadCall> calls = {
      Spoilt("data_NULL", WEFT_INVALID_ARGUMENT, "data is NULL",
             [](weft_tensor_t& t) { t.data = nullptr; }),
      Spoilt("shape_NULL", WEFT_INVALID_ARGUMENT, "shape is NULL",
             [](weft_tensor_t& t) { t.shape = nullptr; }),
      Spoilt("ndim_minus_1", WEFT_INVALID_ARGUMENT, "ndim is -1",
             [](weft_tensor_t& t) { t.ndim = -1; }),
      Spoilt("ndim_33", WEFT_INVALID_ARGUMENT, "ndim is 33", [](weft_tensor_t& t) { t.ndim = 33; }),
      Spoilt("dtype_12", WEFT_INVALID_ARGUMENT, "12 is not a data type",
             [](weft_tensor_t& t) { t.dtype = Unknown<weft_dtype_t>(12); }),
      Spoilt("a_negative_dimension", WEFT_INVALID_ARGUMENT, "shape[1] is -3",
             [](weft_tensor_t& t) { t.shape = negative; }),
      Spoilt("more_elements_than_a_number_holds", WEFT_INVALID_ARGUMENT, "more elements",
             [](weft_tensor_t& t) { t.shape = huge; }),
      Spoilt("more_bytes_than_its_block", WEFT_INVALID_ARGUMENT, "of which its block has",
             [](weft_tensor_t& t) { t.shape = beyond; }),
      Spoilt("memory_that_is_not_of_weft", WEFT_INVALID_ARGUMENT, "no block",
             [](weft_tensor_t& t) { t.data = foreign; }),
      {"weft_mem_dlpack", "tensor_NULL", WEFT_INVALID_ARGUMENT, "tensor is NULL",
       [](Bench&) {
         DLManagedTensorVersioned* managed = nullptr;
         return weft_mem_dlpack(nullptr, &managed);
       }},
      {"weft_mem_dlpack", "managed_NULL", WEFT_INVALID_ARGUMENT, "managed is NULL",
       [](Bench&) {
         const weft_tensor_t tensor = {.struct_size = sizeof(tensor), .data = foreign};
         return weft_mem_dlpack(&tensor, nullptr);
       }},
  };
  AddConfigFaults<weft_tensor_t>("weft_mem_dlpack", &calls,
                                 [](Bench&, const weft_tensor_t* tensor) {
                                   DLManagedTensorVersioned* managed = nullptr;
                                   return weft_mem_dlpack(tensor, &managed);
                                 });
  return calls;
}

}  // namespace weft::test
