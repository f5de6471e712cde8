// The fields of this thread's last error, for tests.
//
//   EXPECT_EQ(LastErrorInfo().rank, 2);
#pragma once

#include <cstring>

#include <gtest/gtest.h>

#include "weft/weft.h"

namespace weft::test {

inline weft_error_info_t LastErrorInfo() {
  weft_error_info_t info;
  std::memset(&info, 0x5a, sizeof(info));  // all of it is written
  info.struct_size = sizeof(info);
  EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
  return info;
}

}  // namespace weft::test
