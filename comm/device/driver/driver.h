// CUDA's driver: libcuda.so.1, opened when a device is wanted first, or the file that WEFT_CUDA_LIBRARY names.
//
//   WEFT_ASSIGN_OR_RETURN(const Driver* const driver, OpenDriver());
//   cuda::DevicePointer memory = 0;
//   WEFT_RETURN_IF_ERROR(driver->Check(driver->MemAlloc(&memory, bytes), ordinal, "cuMemAlloc of ", bytes, " bytes"));
//
// libweft links nothing of CUDA's, and asks the driver for each function by name and version (cuGetProcAddress).
//
// Thread-safety: any thread. An open driver stays for the process's life. A forked child cannot use its parent's: FORKED.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/text.h"
#include "comm/device/driver/driver_functions.h"

namespace weft {

struct Driver {
#define WEFT_CUDA_MEMBER(name, version, arguments) cuda::Result(*name) arguments = nullptr;
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_MEMBER)
#undef WEFT_CUDA_MEMBER

  std::string file;     // "libcuda.so.1"
  int32_t version = 0;  // of CUDA, 13000 for 13.0

  // Ok for kSuccess. Else the words of `what`, the driver's name for the failure and its text, with the device and the code in the
  // error's fields: OUT_OF_MEMORY, UNSUPPORTED where the device cannot do it, else DEVICE_ERROR. `device` is -1 where none is meant.
  template <typename... Words>
  absl::Status Check(cuda::Result result, int32_t device, const Words&... what) const {
    return result == cuda::kSuccess ? absl::OkStatus() : Failure(result, device, StrCat(what...));
  }

  absl::Status Failure(cuda::Result result, int32_t device, std::string_view what) const;
};

// The driver. UNSUPPORTED where there is none, it lacks a function, or it finds no device: the sentence says what was looked
// for and where. FORKED in a child of the process that has opened it. A failure is not kept: the next call tries again.
absl::StatusOr<const Driver*> OpenDriver();

// The driver if this process has opened it, else nullptr: for what is asked of every pointer.
const Driver* FindOpenDriver();

// Whether its library is in the process, because of weft or of who else uses CUDA here.
bool IsDriverLoaded();

}  // namespace weft
