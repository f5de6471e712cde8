// Where the whole packets of a kernel are: from the first element on at which all of its pointers are aligned to their accesses.
//
//   CommonAlignment alignment;
//   alignment.Add(source, {.element_bytes = 2, .access_bytes = 16});
//   alignment.Add(destination, {.element_bytes = 4, .access_bytes = 16});
//   parameters.range = alignment.RangeOf(count, 8);                    // packets of 8 elements
//
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/device/element/worker.h"

namespace weft {

// From one element to the next, and of one access: powers of two.
struct AccessSizes {
  size_t element_bytes;
  size_t access_bytes;
};

// Of elements that are moved as packets of `width`.
constexpr AccessSizes PacketAccess(size_t element_bytes, size_t width) {
  return {element_bytes, device::AccessBytes(element_bytes * width)};
}

class CommonAlignment {
 public:
  // The pointer of element 0; it may be NULL, and says nothing then.
  void Add(const void* pointer, const AccessSizes& sizes) {
    if (pointer == nullptr) return;
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    const size_t offset = address & (sizes.access_bytes - 1);
    if (sizes.access_bytes <= sizes.element_bytes) {
      if (offset != 0) never_ = true;
      return;
    }
    if ((offset & (sizes.element_bytes - 1)) != 0) never_ = true;
    const size_t period = sizes.access_bytes / sizes.element_bytes;  // in elements
    const size_t missing = (sizes.access_bytes - offset) % sizes.access_bytes / sizes.element_bytes;
    // Two demands agree if the weaker one follows from the stronger.
    const size_t weaker = period < period_ ? period : period_;
    if (((missing ^ missing_) & (weaker - 1)) != 0) never_ = true;  // powers of two
    if (period > period_) {
      period_ = period;
      missing_ = missing;
    }
  }

  device::PacketRange RangeOf(uint64_t count, size_t width) const {
    if (never_ || count < missing_) return {count, 0, 0};
    return {count, missing_, (count - missing_) / width};
  }

 private:
  bool never_ = false;
  size_t period_ = 1;
  size_t missing_ = 0;  // elements to skip, below period_
};

}  // namespace weft
