// CUDA's driver for tests that see libweft.so alone: the same library that weft opens, real or fake, called beside it.
//
//   const Cuda& cuda = TheCuda();                 // the fake one unless WEFT_CUDA_LIBRARY names another; Cuda::why: it cannot be used
//   EXPECT_EQ(cuda.MemGetInfo(&free_bytes, &total_bytes), 0);
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "comm/device/driver/driver_functions.h"
#include "tests/device/fake_driver/fake_driver.h"

namespace weft::test {

struct Cuda {
#define WEFT_CUDA_MEMBER(name, version, arguments) cuda::Result(*name) arguments = nullptr;
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_MEMBER)
#undef WEFT_CUDA_MEMBER
  void* library = nullptr;
  int32_t devices = 0;
  std::string why;  // it cannot be used; "" if it can

  // A function of the library that is not in the list; nullptr if it has none.
  template <typename Function>
  Function Find(const char* name) const {
    return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
  }
};

inline Cuda OpenCuda() {
  using GetProcAddress = cuda::Result (*)(const char* name, void** function, int32_t version,
                                          uint64_t flags, int32_t*);
  (void)UseFakeDriver();
  Cuda cuda;
  const char* const named = std::getenv("WEFT_CUDA_LIBRARY");
  const char* const file = named != nullptr ? named : "libcuda.so.1";
  cuda.library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (cuda.library == nullptr) {
    cuda.why = dlerror();
    return cuda;
  }
  const auto get = reinterpret_cast<GetProcAddress>(dlsym(cuda.library, "cuGetProcAddress_v2"));
  if (get == nullptr) {
    cuda.why = std::string(file) + " has no cuGetProcAddress_v2";
    return cuda;
  }
  const auto find = [&](auto* function, const char* name, int32_t version) {
    void* address = nullptr;
    if (get(name, &address, version, cuda::kProcAddressLegacyStream, nullptr) != cuda::kSuccess ||
        address == nullptr) {
      cuda.why = std::string(file) + " has no " + name;
    }
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(address);
  };
#define WEFT_CUDA_FIND(name, version, arguments) find(&cuda.name, "cu" #name, version);
  WEFT_CUDA_FUNCTIONS(WEFT_CUDA_FIND)
#undef WEFT_CUDA_FIND
  if (!cuda.why.empty()) return cuda;
  const cuda::Result started = cuda.Init(0);
  if (started != cuda::kSuccess) cuda.why = "cuInit: " + std::to_string(started);
  if (cuda.why.empty()) (void)cuda.DeviceGetCount(&cuda.devices);
  return cuda;
}

inline const Cuda& TheCuda() {
  static const auto* const opened = new Cuda(OpenCuda());
  return *opened;
}

}  // namespace weft::test
