// The operations of ops.h compiled for one instruction set; flags in CMakeLists.txt.
#define WEFT_OPS_VECTOR_BYTES 64

#include "trainer/attention_kernels.h"

namespace weft::trainer {

extern const Ops<float> kOpsFloatAvx512;
extern const Ops<double> kOpsDoubleAvx512;
const Ops<float> kOpsFloatAvx512 = MakeOps<float>("avx512");
const Ops<double> kOpsDoubleAvx512 = MakeOps<double>("avx512");

}  // namespace weft::trainer
