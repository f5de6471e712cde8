#include "base/current_cpu.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace weft::test::current_cpu_test {
namespace {

// On each CPU that this process may use, where the system says it at all.
TEST(CurrentCpu, IsTheOneThatTheThreadWasSentTo) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    ASSERT_EQ(sched_setaffinity(0, sizeof(only), &only), 0);
    const int32_t current = CurrentCpu();
    if (current < 0) GTEST_SKIP() << "this system does not say it";
    EXPECT_EQ(current, cpu);
  }
  EXPECT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
}

}  // namespace
}  // namespace weft::test::current_cpu_test
