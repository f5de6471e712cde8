#include "tests/shard/optimizer_reference.h"

#include <cmath>

#include "shard/optimizer/sum_squares.h"

namespace weft {
namespace {

// Rates that are large, so that updates are about as large as the smaller weights.
constexpr AdamWOptions kAdamW = {.learning_rate = 3e-3, .weight_decay = 0.1};
constexpr LionOptions kLion = {.learning_rate = 1e-3, .weight_decay = 0.1};
constexpr LambOptions kLamb = {.learning_rate = 1e-2, .weight_decay = 0.05};
constexpr LarsOptions kLars = {
    .learning_rate = 0.5, .momentum = 0.9, .weight_decay = 1e-3, .coefficient = 0.02};

SgdOptions SgdOf(Rule rule) {
  return {.learning_rate = 0.02,
          .momentum = rule == Rule::kSgd ? 0 : 0.9,
          .weight_decay = 0.01,
          .nesterov = rule == Rule::kSgdWithNesterov,
          .decoupled = rule == Rule::kSgdDecoupled};
}

void AdamW(int64_t t, long double g, float stored_mean, float stored_square, Element& e) {
  const long double beta1 = kAdamW.beta1;
  const long double beta2 = kAdamW.beta2;
  const long double lr = kAdamW.learning_rate;
  e.first_moment = beta1 * e.first_moment + (1 - beta1) * g;
  e.second_moment = beta2 * e.second_moment + (1 - beta2) * g * g;
  const long double mean = stored_mean / (1 - std::pow(beta1, static_cast<long double>(t)));
  const long double square = stored_square / (1 - std::pow(beta2, static_cast<long double>(t)));
  e.weight =
      e.weight * (1 - lr * kAdamW.weight_decay) - lr * mean / (std::sqrt(square) + kAdamW.epsilon);
}

void Sgd(const SgdOptions& options, long double g, Element& e) {
  const long double lr = options.learning_rate;
  const long double decay = options.weight_decay;
  if (!options.decoupled) g += decay * e.weight;
  e.first_moment = options.momentum * e.first_moment + g;
  const long double update =
      options.nesterov ? g + options.momentum * e.first_moment : e.first_moment;
  e.weight = e.weight * (options.decoupled ? 1 - lr * decay : 1) - lr * update;
}

void Lion(long double g, Element& e) {
  const long double lr = kLion.learning_rate;
  const long double c = kLion.beta1 * e.first_moment + (1 - kLion.beta1) * g;
  const int sign = (c > 0 ? 1 : 0) - (c < 0 ? 1 : 0);
  e.weight = e.weight * (1 - lr * kLion.weight_decay) - lr * sign;
  e.first_moment = kLion.beta2 * e.first_moment + (1 - kLion.beta2) * g;
}

void Lamb(int64_t t, double factor, const OptimizerArrays& stored, std::vector<Element>& elements) {
  const long double beta1 = kLamb.beta1;
  const long double beta2 = kLamb.beta2;
  std::vector<long double> updates;
  long double weight_squares = 0;
  long double update_squares = 0;
  for (size_t i = 0; i < elements.size(); ++i) {
    Element& e = elements[i];
    const long double g = e.gradient * factor;
    e.first_moment = beta1 * e.first_moment + (1 - beta1) * g;
    e.second_moment = beta2 * e.second_moment + (1 - beta2) * g * g;
    const long double mean =
        stored.first_moment[i] / (1 - std::pow(beta1, static_cast<long double>(t)));
    const long double square =
        stored.second_moment[i] / (1 - std::pow(beta2, static_cast<long double>(t)));
    updates.push_back(mean / (std::sqrt(square) + kLamb.epsilon) + kLamb.weight_decay * e.weight);
    weight_squares += e.weight * e.weight;
    update_squares += updates.back() * updates.back();
  }
  const bool trusted = weight_squares != 0 && update_squares != 0;
  const long double trust = trusted ? std::sqrt(weight_squares / update_squares) : 1;
  for (size_t i = 0; i < elements.size(); ++i)
    elements[i].weight -= kLamb.learning_rate * trust * updates[i];
}

void Lars(double factor, std::vector<Element>& elements) {
  long double weight_squares = 0;
  long double gradient_squares = 0;
  for (const Element& e : elements) {
    weight_squares += e.weight * e.weight;
    const long double gradient = static_cast<float>(e.gradient) *
                                 static_cast<long double>(factor);  // as AddSquares reads float64
    gradient_squares += gradient * gradient;
  }
  long double trust = 1;
  if (weight_squares != 0 && gradient_squares != 0) {
    const long double weights = std::sqrt(weight_squares);
    trust =
        kLars.coefficient * weights / (std::sqrt(gradient_squares) + kLars.weight_decay * weights);
  }
  for (Element& e : elements) {
    const long double g = e.gradient * factor + kLars.weight_decay * e.weight;
    e.first_moment = kLars.momentum * e.first_moment + kLars.learning_rate * trust * g;
    e.weight -= e.first_moment;
  }
}

double SumOfSquares(Isa isa, weft_dtype_t dtype, const void* values, size_t count) {
  ExactSum sum;
  AddSquares(isa, dtype, values, count, 0, sum);
  return sum.Value();
}

}  // namespace

std::string RuleName(Rule rule) {
  constexpr const char* kNames[] = {
      "AdamW", "SGD", "SGD with momentum", "SGD with nesterov", "SGDW", "Lion", "LAMB", "LARS"};
  return kNames[static_cast<size_t>(rule)];
}

void ReferenceStep(Rule rule, int64_t step, double gradient_factor, const OptimizerArrays& stored,
                   std::vector<Element>& elements) {
  if (rule == Rule::kLamb) return Lamb(step, gradient_factor, stored, elements);
  if (rule == Rule::kLars) return Lars(gradient_factor, elements);
  for (size_t i = 0; i < elements.size(); ++i) {
    Element& element = elements[i];
    const long double gradient = element.gradient * gradient_factor;
    if (rule == Rule::kAdamW) {
      AdamW(step, gradient, stored.first_moment[i], stored.second_moment[i], element);
    } else if (rule == Rule::kLion) {
      Lion(gradient, element);
    } else {
      Sgd(SgdOf(rule), gradient, element);
    }
  }
}

void KernelStep(Rule rule, Isa isa, int64_t step, double gradient_factor, OptimizerArrays arrays) {
  double trust_ratio = 1;
  if (rule == Rule::kLars) {
    trust_ratio =
        LarsTrustRatio(MakeLarsStep(kLars, gradient_factor),
                       SumOfSquares(isa, WEFT_FLOAT32, arrays.weights, arrays.count),
                       SumOfSquares(isa, arrays.gradient_dtype, arrays.gradients, arrays.count));
  } else if (rule == Rule::kLamb) {
    LambSums sums;
    UpdateLambMoments(isa, MakeLambStep(kLamb, step, gradient_factor), arrays, 0, sums);
    trust_ratio = LambTrustRatio(sums.weights.Value(), sums.updates.Value());
  }
  KernelStepWithTrust(rule, isa, step, gradient_factor, trust_ratio, arrays);
}

void KernelStepWithTrust(Rule rule, Isa isa, int64_t step, double gradient_factor,
                         double trust_ratio, OptimizerArrays arrays) {
  if (rule == Rule::kAdamW) {
    return UpdateAdamW(isa, MakeAdamWStep(kAdamW, step, gradient_factor), arrays);
  }
  if (rule == Rule::kLamb) {
    arrays.gradients = nullptr;
    return ApplyLamb(isa, MakeLambStep(kLamb, step, gradient_factor), trust_ratio, arrays);
  }
  arrays.second_moment = nullptr;
  if (rule == Rule::kLion) return UpdateLion(isa, MakeLionStep(kLion, gradient_factor), arrays);
  if (rule == Rule::kLars) {
    return UpdateLars(isa, MakeLarsStep(kLars, gradient_factor), trust_ratio, arrays);
  }
  if (rule == Rule::kSgd) arrays.first_moment = nullptr;
  UpdateSgd(isa, MakeSgdStep(SgdOf(rule), gradient_factor), arrays);
}

}  // namespace weft
