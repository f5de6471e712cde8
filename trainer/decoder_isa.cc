// The operations of decoder_ops.h compiled for one instruction set; see CMakeLists.txt.
#include "trainer/decoder_kernels.h"

namespace weft::trainer {

template <>
const DecoderOps& DecoderOpsOf<Isa::WEFT_KERNEL_ISA>() {
  static constexpr DecoderOps ops = {RowProduct, Attend};
  return ops;
}

}  // namespace weft::trainer
