// Tests of device memory on the fake driver, each case of which runs in a child of its own, since a driver that is open stays so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/device/device_fixture.h"
#include "tests/device/fake_driver/fake_driver.h"

namespace weft::test {

inline constexpr int32_t kUnknown = 999;

inline const FakeDriver* Fake() {
  static const FakeDriver* const fake = UseFakeDriver();
  return fake;
}

// What `body` returns, from a child in which nothing has used a device. A child that has failed, which it prints, fails the test.
inline int InAChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const int returned = body();
    _exit(::testing::Test::HasFailure() ? 255 : returned);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "the child ended by signal " << WTERMSIG(status);
  EXPECT_NE(WEXITSTATUS(status), 255) << "the child failed, see above";
  return WEXITSTATUS(status);
}

inline weft_result_t Alloc(weft_device_kind_t kind, size_t bytes, void** block) {
  const weft_mem_config_t config = {.struct_size = sizeof(config),
                                    .bytes = bytes,
                                    .flags = kind == WEFT_DEVICE_HOST ? WEFT_MEM_PINNED : 0,
                                    .device_kind = kind};
  return weft_mem_alloc_on(&config, block);
}

inline weft_mem_kind_t KindOf(const void* pointer) {
  weft_mem_info_t info = {.struct_size = sizeof(info)};
  EXPECT_EQ(weft_mem_query(pointer, &info), WEFT_SUCCESS) << weft_last_error();
  return info.kind;
}

// Calls of the program's own are not among those that fail.
inline std::string Holdings() {
  const Cuda& cuda = TheCuda();
  if (cuda.CtxSynchronize() != 0) {
    cuda::Context context = nullptr;
    EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&context, 0), 0);
    EXPECT_EQ(cuda.CtxPushCurrent(context), 0);
    EXPECT_EQ(cuda.CtxSynchronize(), 0);
  }
  return Fake()->holdings_text();
}

class Failures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Fake() == nullptr) GTEST_SKIP() << "another driver than the fake one is named";
  }
};

}  // namespace weft::test
