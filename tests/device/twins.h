// The kernels of devices as functions of the host, made of the same sources (comm/device/element, shard/optimizer/device) by the host's
// compiler. They prove what kernels compute, on machines without a GPU; that nvcc makes the same of it is for a GPU to show.
//
//   const Twin twin = FindTwin("weft_reduce_bfloat16_sum_8");
//   twin(&parameters, TwinLaunch{.blocks = 3, .threads = 64});
//
// The threads of a launch run one after another. Pointers are of the host.
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace weft::test {

struct TwinLaunch {
  unsigned blocks = 2;
  unsigned threads = 64;
  // A share of the work: all parts, each once and in any order, are the launch.
  unsigned part = 0;
  unsigned parts = 1;
};

using Twin = void (*)(const void* parameters, const TwinLaunch& launch);

// nullptr: there is none.
Twin FindTwin(const std::string& name);

// The size of the kernel's parameter; 0: there is no such kernel.
size_t TwinParameterBytes(const std::string& name);

// The image of libweft_cuda.so that has the kernel; "" if there is none.
std::string ImageOfKernel(const std::string& name);

// Of all kernels.
std::vector<std::string> TwinNames();

}  // namespace weft::test
