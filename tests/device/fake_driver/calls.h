// The driver's entry points: each of driver_functions.h is implemented by the function of its name here, which runs behind the lock, after
// the checks that all have in common.
#pragma once

#include "comm/device/driver/driver_functions.h"
#include "tests/device/fake_driver/world.h"

namespace weft::fake_cuda {

#define WEFT_FAKE_DECLARE(name, version, arguments) Result name arguments;
WEFT_CUDA_FUNCTIONS(WEFT_FAKE_DECLARE)
#undef WEFT_FAKE_DECLARE

// The function of this name in the list ("cuMemAlloc"); -1: there is none.
int FindFunction(const char* name);
uint64_t CountCalls(const char* name);
void ForgetCalls();

// For the scope of a host function, which must not call the driver.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
};

}  // namespace weft::fake_cuda
