// The operations of ops.h compiled for one instruction set; see CMakeLists.txt.
#include "trainer/attention_bf16_kernels.h"
#include "trainer/llama_kernels.h"

namespace weft::trainer {
namespace {

template <typename T>
constexpr Ops<T> MakeOps() {
  return {
      ExpAll<T>,     Embed<T>,           EmbedBackward<T>, LayerNorm<T>,      LayerNormBackward<T>,
      RmsNorm<T>,    RmsNormBackward<T>, Rotate<T>,        Attention<T>,      AttentionBackward<T>,
      Gelu<T>,       GeluBackward<T>,    SwiGlu<T>,        SwiGluBackward<T>, Add<T>,
      DropMatrix<T>, ColumnSum<T>,       Narrow<T>,        CrossEntropy<T>,   SmallMatmul<T>,
      ToBf16<T>,     ToFp16<T>,          Widen<T>};
}

}  // namespace

template <>
const Ops<float>& OpsOf<float, Isa::WEFT_KERNEL_ISA>() {
  static constexpr Ops<float> kOps = MakeOps<float>();
  return kOps;
}

template <>
const Ops<double>& OpsOf<double, Isa::WEFT_KERNEL_ISA>() {
  static constexpr Ops<double> kOps = MakeOps<double>();
  return kOps;
}

}  // namespace weft::trainer
