#include "comm/device/cuda_module.h"

namespace {

using weft::CudaImage;
using weft::CudaModule;

}  // namespace

// The linker's names for where the images that cmake/cuda_image.c.in lists begin and end.
extern "C" const CudaImage __start_weft_images[];  // NOLINT: the linker's names
extern "C" const CudaImage __stop_weft_images[];   // NOLINT

extern "C" __attribute__((visibility("default"))) const weft::ModuleTable* weft_cuda_module() {
  static const CudaModule module = {
      .head = {weft::kCudaModuleVersion, sizeof(CudaModule)},
      .images = __start_weft_images,
      .image_count = static_cast<size_t>(__stop_weft_images - __start_weft_images)};
  return &module.head;
}
