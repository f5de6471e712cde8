// The optimizers' formulas as plain as they are written in shard/optimizer/optimizer_kernels.h, element by element in
// long double, and the kernels behind one call. What tests of kernels compare.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shard/optimizer/optimizer_kernels.h"

namespace weft {

enum class Rule : uint8_t {
  kAdamW,
  kSgd,
  kSgdWithMomentum,
  kSgdWithNesterov,
  kSgdDecoupled,
  kLion,
  kLamb,
  kLars
};

inline constexpr Rule kRules[] = {Rule::kAdamW,
                                  Rule::kSgd,
                                  Rule::kSgdWithMomentum,
                                  Rule::kSgdWithNesterov,
                                  Rule::kSgdDecoupled,
                                  Rule::kLion,
                                  Rule::kLamb,
                                  Rule::kLars};

std::string RuleName(Rule rule);

// One parameter: everything of an element side by side.
struct Element {
  long double weight = 0;
  long double first_moment = 0;
  long double second_moment = 0;
  long double gradient = 0;  // as it is stored, before the factor
};

// Step `step` (from 1) of all elements, which are one parameter; norms are summed over them. `stored` is
// what KernelStep left: the updates of AdamW and LAMB are made of the moments as they are stored, after their
// rounding.
void ReferenceStep(Rule rule, int64_t step, double gradient_factor, const OptimizerArrays& stored,
                   std::vector<Element>& elements);

// The same with the kernels of `isa`; the arrays are one whole parameter. SGD without momentum is called
// without first_moment, others without a second.
void KernelStep(Rule rule, Isa isa, int64_t step, double gradient_factor, OptimizerArrays arrays);

// As KernelStep, with norms from elsewhere: the arrays are a part of a parameter.
void KernelStepWithTrust(Rule rule, Isa isa, int64_t step, double gradient_factor,
                         double trust_ratio, OptimizerArrays arrays);

}  // namespace weft
