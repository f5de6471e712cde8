// Calls of device.h with one wrong argument each: none of them opens a driver.
#include "tests/bindings/bad_input.h"

namespace weft::test {

std::vector<BadCall> BadDeviceCalls() {
  return {
      {"weft_device_count", "of_the_host", WEFT_INVALID_ARGUMENT, "kind is 0",
       [](Bench&) {
         int32_t count = 0;
         return weft_device_count(WEFT_DEVICE_HOST, &count);
       }},
      {"weft_device_count", "an_unknown_kind", WEFT_INVALID_ARGUMENT, "kind is -3",
       [](Bench&) {
         int32_t count = 0;
         return weft_device_count(Unknown<weft_device_kind_t>(-3), &count);
       }},
      {"weft_device_count", "count_NULL", WEFT_INVALID_ARGUMENT, "count is NULL",
       [](Bench&) {
         return weft_device_count(WEFT_DEVICE_CUDA, nullptr);
       }},
      {"weft_device_info", "of_the_host", WEFT_INVALID_ARGUMENT, "kind is 0",
       [](Bench&) {
         weft_device_info_t info = {.struct_size = sizeof(info)};
         return weft_device_info(WEFT_DEVICE_HOST, 0, &info);
       }},
      {"weft_device_info", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL",
       [](Bench&) {
         return weft_device_info(WEFT_DEVICE_CUDA, 0, nullptr);
       }},
      {"weft_device_info", "struct_size_0", WEFT_INVALID_ARGUMENT, "struct_size is 0",
       [](Bench&) {
         weft_device_info_t info = {};
         return weft_device_info(WEFT_DEVICE_CUDA, 0, &info);
       }},
  };
}

}  // namespace weft::test
