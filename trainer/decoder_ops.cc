#include "trainer/decoder_ops.h"

namespace weft::trainer {

const DecoderOps& DecoderOpsFor(Isa isa) {
  switch (isa) {
    case Isa::kAvx512Bf16:
      return DecoderOpsOf<Isa::kAvx512Bf16>();
    case Isa::kAvx512:
      return DecoderOpsOf<Isa::kAvx512>();
    case Isa::kAvx2:
      return DecoderOpsOf<Isa::kAvx2>();
    case Isa::kScalar:
      break;
  }
  return DecoderOpsOf<Isa::kScalar>();
}

const DecoderOps& GetDecoderOps() {
  static const DecoderOps& fastest = DecoderOpsFor(FastestIsa());
  return fastest;
}

}  // namespace weft::trainer
