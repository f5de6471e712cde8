#include "tests/shard/small_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <random>
#include <thread>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

uint64_t Add(weft_dtype_t dtype, uint64_t a, uint64_t b) {
  return ReduceReference(dtype, WEFT_SUM, {a, b}, 1);
}

// What one param's gradients are reduced to, element by element.
struct ElementReference {
  const Scenario& scenario;
  weft_dtype_t dtype;
  int step;
  int param;

  uint64_t Reduced(size_t element) const {
    if (scenario.accumulation == WEFT_SHARD_LOCAL_THEN_REDUCE) {
      Elements sums(Ranks(), 0);
      for (int mb = 0; mb < scenario.microbatches; ++mb) {
        const Elements local = LocalOf(mb, element);
        for (size_t rank = 0; rank < sums.size(); ++rank)
          sums[rank] = Add(dtype, sums[rank], local[rank]);
      }
      return Reduce(sums);
    }
    if (scenario.accumulation == WEFT_SHARD_INNER_EVERY_OUTER_LAST && scenario.replica > 0) {
      return OfReplicas(element);
    }
    uint64_t total = Reduce(LocalOf(0, element));
    for (int mb = 1; mb < scenario.microbatches; ++mb)
      total = Add(dtype, total, Reduce(LocalOf(mb, element)));
    return total;
  }

  size_t Ranks() const { return static_cast<size_t>(scenario.ranks); }

  bool Rounded() const {
    return dtype == WEFT_FLOAT32 && scenario.wire != WEFT_SHARD_WIRE_GRADIENTS;
  }

  weft_dtype_t Wire() const {
    if (!Rounded()) return dtype;
    return scenario.wire == WEFT_SHARD_WIRE_BFLOAT16 ? WEFT_BFLOAT16 : WEFT_FLOAT16;
  }

  // In one micro-batch, by rank. A gradient is added to zero, which makes -0 of none of them.
  Elements LocalOf(int mb, size_t element) const {
    Elements local(Ranks(), 0);
    for (int rank = 0; rank < scenario.ranks; ++rank) {
      if (scenario.Missing(step, mb, rank, param)) continue;
      local[static_cast<size_t>(rank)] =
          Add(dtype, 0, scenario.Gradient(dtype, step, mb, rank, param, element));
    }
    return local;
  }

  uint64_t Reduce(Elements local) const {
    for (uint64_t& value : local)
      value = ToWire(value);
    const weft_op_t op = scenario.average ? WEFT_AVG : WEFT_SUM;
    return FromWire(ReduceReference(Wire(), op, local, scenario.ranks));
  }

  uint64_t ToWire(uint64_t value) const {
    if (!Rounded()) return value;
    return EncodeFloat(Wire(), DecodeFloat(WEFT_FLOAT32, value));
  }

  uint64_t FromWire(uint64_t value) const {
    if (!Rounded()) return value;
    return EncodeFloat(WEFT_FLOAT32, DecodeFloat(Wire(), value));
  }

  // Sums of replicas, by micro-batch, then over micro-batches, then across replicas; 16 bits in float32.
  uint64_t OfReplicas(size_t element) const {
    const weft_dtype_t sum_type = dtype == WEFT_FLOAT64 ? WEFT_FLOAT64 : WEFT_FLOAT32;
    const auto size = static_cast<size_t>(scenario.replica);
    Elements sums(Ranks() / size, 0);
    for (int mb = 0; mb < scenario.microbatches; ++mb) {
      Elements local = LocalOf(mb, element);
      for (uint64_t& value : local)
        value = Widened(ToWire(value));
      for (size_t replica = 0; replica < sums.size(); ++replica) {
        const auto first = local.begin() + static_cast<std::ptrdiff_t>(replica * size);
        const uint64_t sum = ReduceReference(
            sum_type, WEFT_SUM, Elements(first, first + scenario.replica), scenario.replica);
        sums[replica] = mb == 0 ? sum : Add(sum_type, sums[replica], sum);
      }
    }
    const uint64_t total = ReduceReference(sum_type, WEFT_SUM, sums, static_cast<int>(sums.size()));
    return Quotient(total, scenario.average ? scenario.ranks : 1);
  }

  uint64_t Widened(uint64_t value) const {
    if (dtype == WEFT_FLOAT64) return value;
    return EncodeFloat(WEFT_FLOAT32, DecodeFloat(Wire(), value));
  }

  uint64_t Quotient(uint64_t sum, int divisor) const {
    if (dtype == WEFT_FLOAT64) return std::bit_cast<uint64_t>(std::bit_cast<double>(sum) / divisor);
    const float quotient = DecodeFloat(WEFT_FLOAT32, sum) / static_cast<float>(divisor);
    return FromWire(EncodeFloat(Wire(), quotient));
  }
};

// Hands over one gradient: in place, or by pointer from an unaligned buffer.
absl::Status HandOver(Context& context, const ModelParam& param, const Scenario& scenario, int step,
                      int microbatch, int rank, int index) {
  WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(index));
  const weft_dtype_t dtype = view.grad_dtype;
  Elements gradient(param.count());
  for (size_t i = 0; i < gradient.size(); ++i) {
    gradient[i] = scenario.Gradient(dtype, step, microbatch, rank, index, i);
  }
  const bool in_place = Mix(scenario.seed + static_cast<uint64_t>(index + step)) % 2 == 0;
  if (!in_place) {
    std::vector<char> buffer(gradient.size() * DtypeSize(dtype) + 1);
    WriteElements(dtype, gradient, buffer.data() + 1);
    return context.GradReady(index, buffer.data() + 1);
  }
  EXPECT_TRUE(param.writes_grad || !view.grad_unset);
  if (view.grad_unset) {
    WriteElements(dtype, gradient, view.grad);
    return context.GradReady(index, nullptr);
  }
  Elements sums = ReadElements(dtype, view.grad, view.count);
  for (size_t i = 0; i < sums.size(); ++i)
    sums[i] = Add(dtype, sums[i], gradient[i]);
  WriteElements(dtype, sums, view.grad);
  return context.GradReady(index, nullptr);
}

// The params of `unit` that have a gradient, last one first.
std::vector<int> ParamsWithGradient(const std::vector<ModelParam>& model, const Scenario& scenario,
                                    int step, int microbatch, int rank, int unit) {
  std::vector<int> params;
  const std::vector<int> units = UnitsOf(model);
  for (int i = static_cast<int>(model.size()) - 1; i >= 0; --i) {
    const auto index = static_cast<size_t>(i);
    if (units[index] != unit || model[index].frozen) continue;
    if (!scenario.Missing(step, microbatch, rank, i)) params.push_back(i);
  }
  return params;
}

absl::Status BackwardUnit(Context& context, const std::vector<ModelParam>& model,
                          const Scenario& scenario, int step, int microbatch, int rank, int unit,
                          std::mt19937_64& random) {
  std::vector<int> params = ParamsWithGradient(model, scenario, step, microbatch, rank, unit);
  if (scenario.shuffle) std::shuffle(params.begin(), params.end(), random);
  WEFT_RETURN_IF_ERROR(context.PreBackward(unit));
  if (scenario.in_use) WEFT_RETURN_IF_ERROR(scenario.in_use(unit));
  std::vector<absl::Status> statuses(static_cast<size_t>(scenario.grad_threads));
  const auto hand_over = [&](size_t thread) {
    for (size_t i = thread; i < params.size(); i += statuses.size()) {
      const absl::Status status = HandOver(context, model[static_cast<size_t>(params[i])], scenario,
                                           step, microbatch, rank, params[i]);
      if (!status.ok()) statuses[thread] = status;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < statuses.size(); ++i)
    threads.emplace_back(hand_over, i);
  hand_over(0);
  for (std::thread& thread : threads)
    thread.join();
  for (const absl::Status& status : statuses)
    WEFT_RETURN_IF_ERROR(status);
  return context.PostBackward(unit);
}

absl::Status RunMicrobatch(Context& context, const std::vector<ModelParam>& model,
                           const Scenario& scenario, int rank, int step, int microbatch) {
  std::mt19937_64 random(
      Mix(scenario.seed + static_cast<uint64_t>((step * 16 + microbatch) * 16 + rank)));
  std::vector<int> units;
  for (int unit = 0; unit <= UnitsOf(model).back(); ++unit)
    units.push_back(unit);
  WEFT_RETURN_IF_ERROR(
      context.MicrobatchBegin(microbatch, microbatch == scenario.microbatches - 1));
  for (const int unit : units) {
    WEFT_RETURN_IF_ERROR(context.PreForward(unit));
    if (scenario.in_use) WEFT_RETURN_IF_ERROR(scenario.in_use(unit));
    WEFT_RETURN_IF_ERROR(context.PostForward(unit));
  }
  std::reverse(units.begin(), units.end());
  if (scenario.shuffle) std::shuffle(units.begin(), units.end(), random);
  for (const int unit : units) {
    // Ranks drift apart: some buckets are ready long before other ranks have them.
    for (uint64_t i = random() % 16; i > 0; --i)
      std::this_thread::yield();
    WEFT_RETURN_IF_ERROR(
        BackwardUnit(context, model, scenario, step, microbatch, rank, unit, random));
  }
  return context.MicrobatchEnd();
}

}  // namespace

size_t ModelParam::count() const {
  size_t product = 1;
  for (const int64_t dimension : shape)
    product *= static_cast<size_t>(dimension);
  return product;
}

uint32_t ModelParam::flags() const {
  return (frozen ? WEFT_SHARD_PARAM_FROZEN : 0) | (decays ? 0 : WEFT_SHARD_PARAM_NO_DECAY) |
         (writes_grad ? WEFT_SHARD_PARAM_WRITES_GRAD : 0) |
         (counted ? 0 : WEFT_SHARD_PARAM_NOT_COUNTED);
}

std::vector<ModelParam> SmallModel() {
  std::vector<ModelParam> model = {
      {"embed", "embed.tokens", {19, 11}, WEFT_FLOAT32},
      {"embed", "embed.positions", {5, 11}, WEFT_FLOAT32},
      {"blocks.0", "blocks.0.norm", {11}, WEFT_FLOAT32},
      {"blocks.0", "blocks.0.scale", {}, WEFT_FLOAT32},
      {"blocks.0", "blocks.0.weight", {13, 7}, WEFT_BFLOAT16},
      {"blocks.0", "blocks.0.base", {7, 3}, WEFT_FLOAT32, true},
      {"blocks.0", "blocks.0.none", {0, 4}, WEFT_FLOAT32},
      {"blocks.1", "blocks.1.weight", {19, 3}, WEFT_FLOAT16},
      {"blocks.1", "blocks.1.bias", {29}, WEFT_FLOAT64},
      {"blocks.1", "blocks.1.base", {5, 5}, WEFT_BFLOAT16, true},
      {"frozen", "frozen.weight", {3, 3}, WEFT_FLOAT32, true},
      {"head", "head.weight", {40, 13}, WEFT_FLOAT32},
      {"head", "head.bias", {2}, WEFT_FLOAT32},
      {"head", "head.temperature", {1, 1, 1}, WEFT_FLOAT64},
  };
  for (const size_t p : {1, 3, 4, 5, 6, 7, 8, 11})
    model[p].writes_grad = true;
  return model;
}

absl::Status Declare(Context& context, const std::vector<ModelParam>& model,
                     const Placement& placement) {
  std::string open;
  int unit = -1;
  for (const ModelParam& param : model) {
    if (param.unit != open) {
      if (unit >= 0) WEFT_RETURN_IF_ERROR(context.SealUnit(unit));
      WEFT_ASSIGN_OR_RETURN(unit, context.BeginUnit(param.unit, placement));
      open = param.unit;
    }
    WEFT_RETURN_IF_ERROR(context
                             .AddParam(unit, param.name, param.shape.data(),
                                       static_cast<int>(param.shape.size()), param.dtype,
                                       param.flags())
                             .status());
  }
  return context.SealUnit(unit);
}

std::vector<int> UnitsOf(const std::vector<ModelParam>& model) {
  std::vector<int> units;
  int unit = 0;
  for (size_t i = 0; i < model.size(); ++i) {
    if (i > 0 && model[i].unit != model[i - 1].unit) ++unit;
    units.push_back(unit);
  }
  return units;
}

bool Scenario::Missing(int step, int microbatch, int rank, int param) const {
  if (data && data(step, rank) <= microbatch) return true;
  const auto key = static_cast<uint64_t>(((step * 16 + microbatch) * 16 + rank) * 64 + param);
  return static_cast<int>(Mix(key + Mix(seed ^ 0x5eed)) % 100) < missing_percent;
}

uint64_t Scenario::Gradient(weft_dtype_t dtype, int step, int microbatch, int rank, int param,
                            size_t element) const {
  uint64_t key = Mix(seed);
  for (const int part : {step, microbatch, rank, param}) {
    key = Mix(key + static_cast<uint64_t>(part));
  }
  key = Mix(key + element);
  // Exponents over 12 binary orders, so that the order of additions shows in the bits.
  const double mantissa = static_cast<double>(static_cast<int64_t>(key)) * 0x1p-63;
  const double value = mantissa * static_cast<double>(1 << (key % 12));
  if (dtype == WEFT_FLOAT64) return std::bit_cast<uint64_t>(value);
  return EncodeFloat(dtype, static_cast<float>(value));
}

std::vector<Elements> ExpectedGradients(const std::vector<ModelParam>& model,
                                        const Scenario& scenario, int step) {
  std::vector<Elements> expected(model.size());
  for (size_t p = 0; p < model.size(); ++p) {
    if (model[p].frozen) continue;
    const ElementReference reference{scenario, model[p].dtype, step, static_cast<int>(p)};
    for (size_t i = 0; i < model[p].count(); ++i)
      expected[p].push_back(reference.Reduced(i));
  }
  return expected;
}

absl::StatusOr<weft_shard_step_result_t> RunStep(Context& context,
                                                 const std::vector<ModelParam>& model,
                                                 const Scenario& scenario, int rank, int step) {
  WEFT_RETURN_IF_ERROR(context.StepBegin(WEFT_SHARD_TRAIN, 0));
  const int data = scenario.data ? scenario.data(step, rank) : scenario.microbatches;
  for (int microbatch = 0; microbatch < data; ++microbatch) {
    WEFT_RETURN_IF_ERROR(RunMicrobatch(context, model, scenario, rank, step, microbatch));
  }
  if (data < scenario.microbatches) WEFT_RETURN_IF_ERROR(context.Join().status());
  return context.Finish();
}

absl::StatusOr<std::vector<Elements>> ReadGradients(Context& context,
                                                    const std::vector<ModelParam>& model) {
  std::vector<Elements> gradients(model.size());
  for (size_t i = 0; i < model.size(); ++i) {
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context.View(static_cast<int>(i)));
    if (view.grad != nullptr) gradients[i] = ReadElements(view.dtype, view.grad, view.count);
  }
  return gradients;
}

absl::Status ExpectOwn(Context& context, const std::vector<ModelParam>& model,
                       const std::vector<Elements>& expected) {
  for (size_t p = 0; p < model.size(); ++p) {
    if (model[p].frozen) continue;
    WEFT_ASSIGN_OR_RETURN(const auto part, context.OwnPart(static_cast<int>(p)));
    const auto& [view, begin] = part;
    if (view.count == 0) continue;
    const auto first = expected[p].begin() + static_cast<std::ptrdiff_t>(begin);
    EXPECT_EQ(ReadElements(view.grad_dtype, view.grad, view.count),
              Elements(first, first + static_cast<std::ptrdiff_t>(view.count)))
        << model[p].name;
  }
  return absl::OkStatus();
}

Elements ReadElements(weft_dtype_t dtype, const void* memory, size_t count) {
  const size_t size = DtypeSize(dtype);
  Elements elements(count);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&elements[i], static_cast<const char*>(memory) + i * size, size);
  }
  return elements;
}

void WriteElements(weft_dtype_t dtype, const Elements& elements, void* memory) {
  const size_t size = DtypeSize(dtype);
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(static_cast<char*>(memory) + i * size, &elements[i], size);
  }
}

// splitmix64.
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace weft
