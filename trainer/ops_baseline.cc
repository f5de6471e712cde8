// The operations of ops.h compiled for one instruction set; flags in CMakeLists.txt.
#define WEFT_OPS_VECTOR_BYTES 16

#include "trainer/attention_kernels.h"

namespace weft::trainer {

extern const Ops<float> kOpsFloatBaseline;
extern const Ops<double> kOpsDoubleBaseline;
const Ops<float> kOpsFloatBaseline = MakeOps<float>("baseline");
const Ops<double> kOpsDoubleBaseline = MakeOps<double>("baseline");

}  // namespace weft::trainer
