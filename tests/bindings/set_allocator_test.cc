// The process's allocator is chosen before the first group and kept from then on.
#include <cstdlib>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"

namespace weft::test::set_allocator_test {
namespace {

// One test, as the choice is the process's.
TEST(SetAllocator, MayBeChangedUntilTheFirstGroup) {
  weft_allocator_t allocator = {};
  allocator.struct_size = sizeof(allocator);
  allocator.allocate = [](size_t bytes, size_t, void*) {
    return std::malloc(bytes);
  };
  allocator.release = [](void* memory, size_t, void*) {
    std::free(memory);
  };
  EXPECT_EQ(weft_set_allocator(&allocator), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_set_allocator(nullptr), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_set_allocator(&allocator), WEFT_SUCCESS) << weft_last_error();
  weft_group_t group = nullptr;
  ASSERT_EQ(weft_group_create_local(1, nullptr, &group), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_set_allocator(&allocator), WEFT_BAD_STATE);
  EXPECT_EQ(weft_set_allocator(nullptr), WEFT_BAD_STATE);
  ExpectSumsAndDestroy(group, 1, 0);
  EXPECT_EQ(weft_set_allocator(nullptr), WEFT_BAD_STATE) << "also when no group is left";
}

}  // namespace
}  // namespace weft::test::set_allocator_test
