// A check of weft_set_interrupt's for tests, and the thread that has it.
#pragma once

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test {

// Says so when it is asked for the `at`-th time, and never again.
struct Check {
  int at = 1;
  int asked = 0;

  static int Ask(void* user) {
    auto* const check = static_cast<Check*>(user);
    return ++check->asked == check->at ? 1 : 0;
  }
};

// While it lives, this thread's waits ask.
class Asking {
 public:
  explicit Asking(Check* check) {
    EXPECT_EQ(weft_set_interrupt(&Check::Ask, check, 1'000'000), WEFT_SUCCESS) << weft_last_error();
  }

  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;

  ~Asking() { EXPECT_EQ(weft_set_interrupt(nullptr, nullptr, 0), WEFT_SUCCESS); }
};

inline bool LastErrorHas(const char* words) {
  return std::string(weft_last_error()).find(words) != std::string::npos;
}

}  // namespace weft::test
