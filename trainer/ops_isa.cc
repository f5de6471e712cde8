// The operations of ops.h compiled for one instruction set; see CMakeLists.txt.
#include "trainer/attention_kernels.h"

namespace weft::trainer {

template <>
const Ops<float>& OpsOf<float, Isa::WEFT_KERNEL_ISA>() {
  static constexpr Ops<float> ops = MakeOps<float>();
  return ops;
}

template <>
const Ops<double>& OpsOf<double, Isa::WEFT_KERNEL_ISA>() {
  static constexpr Ops<double> ops = MakeOps<double>();
  return ops;
}

}  // namespace weft::trainer
