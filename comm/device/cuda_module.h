// libweft_cuda.so: the kernels for GPUs, as images that the driver loads. It has nothing else of weft's and needs nothing of CUDA's.
//
//   WEFT_ASSIGN_OR_RETURN(const ModuleTable* const table, OpenModule(name));      // base/module.h; the entry is weft_cuda_module
//   const auto& module = *reinterpret_cast<const CudaModule*>(table);
//   for (size_t i = 0; i < module.image_count; ++i) ... module.images[i] ...
//
// An image is a fat binary: machine code for several kinds of GPUs, and PTX for later ones. Its kernels have the names of
// comm/device/kernels/kernel_list.h and shard/optimizer/device/kernel_list.h.
// Thread-safety: values.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/module_table.h"

namespace weft {

constexpr uint32_t kCudaModuleVersion = 1;

struct CudaImage {
  const char* name;  // of its source: "reduce_bfloat16"
  const void* data;
  uint64_t bytes;
};

struct CudaModule {
  ModuleTable head;
  const CudaImage* images;
  size_t image_count;
};

}  // namespace weft
