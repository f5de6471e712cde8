// Pointers as the driver has them, which are numbers.
//
//   driver.MemFree(DeviceAddress(block))
//
// Thread-safety: pure functions.
#pragma once

#include <bit>
#include <cstdint>

#include "comm/device/driver/driver_types.h"

namespace weft {

inline cuda::DevicePointer DeviceAddress(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

inline void* PointerTo(cuda::DevicePointer address) {
  return std::bit_cast<void*>(static_cast<uintptr_t>(address));
}

}  // namespace weft
