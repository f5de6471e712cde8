// Where the whole packets of an optimizer's arrays are, for the kernels of update.h. Arrays that an optimizer does not have are NULL.
// Thread-safety: a pure function.
#pragma once

#include "comm/device/packet_range.h"
#include "comm/kernels/dtype.h"
#include "shard/optimizer/device/update.h"

namespace weft {

inline device::PacketRange UpdatePackets(const OptimizerArrays& arrays) {
  const auto sizes_of = [](weft_dtype_t dtype) {
    return PacketAccess(DtypeSize(dtype), device::kUpdateWidth);
  };
  CommonAlignment alignment;
  alignment.Add(arrays.weights, sizes_of(WEFT_FLOAT32));
  alignment.Add(arrays.first_moment, sizes_of(WEFT_FLOAT32));
  alignment.Add(arrays.second_moment, sizes_of(WEFT_FLOAT32));
  alignment.Add(arrays.gradients, sizes_of(arrays.gradient_dtype));
  alignment.Add(arrays.cast, sizes_of(arrays.cast_dtype));
  return alignment.RangeOf(arrays.count, device::kUpdateWidth);
}

}  // namespace weft
