// The operations of ops.h compiled for one instruction set; flags in CMakeLists.txt.
#define WEFT_OPS_VECTOR_BYTES 32

#include "trainer/attention_kernels.h"

namespace weft::trainer {

extern const Ops<float> kOpsFloatAvx2;
extern const Ops<double> kOpsDoubleAvx2;
const Ops<float> kOpsFloatAvx2 = MakeOps<float>("avx2");
const Ops<double> kOpsDoubleAvx2 = MakeOps<double>("avx2");

}  // namespace weft::trainer
