// The instruction sets that tests of kernels go through, and their names.
#ifndef WEFT_TESTS_TRAINER_ISAS_H_
#define WEFT_TESTS_TRAINER_ISAS_H_

#include <string>

#include <gtest/gtest.h>

#include "trainer/ops.h"

namespace weft::trainer {

inline constexpr Isa kIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16};

inline std::string IsaName(const testing::TestParamInfo<Isa>& info) {
  constexpr const char* kNames[] = {"Scalar", "Avx2", "Avx512", "Avx512Bf16"};
  return kNames[size_t(info.param)];
}

}  // namespace weft::trainer

#endif  // WEFT_TESTS_TRAINER_ISAS_H_
