#include "tests/shard/exact_model.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "base/status.h"
#include "gtest/gtest.h"
#include "tests/shard/small_model.h"

namespace weft {

using Kind = Event::Kind;

std::vector<ExactUnit> ExactUnits(size_t units, weft_shard_preset_t preset) {
  return std::vector<ExactUnit>(units, {.placement = PlacementOf(preset)});
}

Script ScriptOf(const std::vector<int>& forward, const std::vector<int>& backward, int microbatches,
                bool finish) {
  Script script;
  for (int m = 0; m < microbatches; ++m) {
    script.push_back({Kind::kMicrobatchBegin, m == microbatches - 1 ? 1 : 0});
    for (const int unit : forward) {
      script.push_back({Kind::kPreForward, unit});
      script.push_back({Kind::kPostForward, unit});
    }
    for (const int unit : backward) {
      script.push_back({Kind::kPreBackward, unit});
      script.push_back({Kind::kPostBackward, unit});
    }
    script.push_back({Kind::kMicrobatchEnd, 0});
  }
  if (finish) script.push_back({Kind::kFinish, 0});
  return script;
}

std::vector<int> Shuffled(size_t units, uint64_t seed) {
  std::vector<int> order(units);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(Mix(seed));
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

absl::StatusOr<weft_shard_plan_t> ExactModel::Finalize() {
  for (size_t u = 0; u < units_.size(); ++u) {
    const std::string name = "unit" + std::to_string(u);
    WEFT_ASSIGN_OR_RETURN(const int unit, context_.BeginUnit(name, units_[u].placement));
    first_param_.push_back(static_cast<int>(weights_.size()));
    for (const int64_t& count : units_[u].counts) {
      const std::string param = name + "." + std::to_string(weights_.size());
      WEFT_RETURN_IF_ERROR(context_.AddParam(unit, param, &count, 1, WEFT_FLOAT32).status());
      Values values(static_cast<size_t>(count));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(Mix(weights_.size() * 1000003 + i) % 1000);
      weights_.push_back(std::move(values));
    }
    WEFT_RETURN_IF_ERROR(context_.SealUnit(unit));
    if (units_[u].within >= 0) {
      WEFT_RETURN_IF_ERROR(context_.builder().NestUnit(unit, units_[u].within));
    }
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_plan_t plan, context_.Finalize());
  for (size_t p = 0; p < weights_.size(); ++p) {
    WEFT_RETURN_IF_ERROR(
        context_.Load(static_cast<int>(p), weights_[p].data(), Context::kEveryRank));
  }
  return plan;
}

void ExactModel::Pause() const {
  if (pause) pause();
}

float ExactModel::Gradient(int rank, int param, size_t element, int backward) const {
  uint64_t key = Mix(static_cast<uint64_t>(step_));
  for (const int part : {rank, param, backward})
    key = Mix(key + static_cast<uint64_t>(part));
  return static_cast<float>(Mix(key + element) % 15) - 7;
}

template <typename Body>
absl::Status ExactModel::ForParams(int unit, const Body& body) const {
  const auto u = static_cast<size_t>(unit);
  for (size_t i = 0; i < units_[u].counts.size(); ++i)
    WEFT_RETURN_IF_ERROR(body(first_param_[u] + static_cast<int>(i)));
  return absl::OkStatus();
}

absl::Status ExactModel::ExpectWhole(int unit) {
  return ForParams(unit, [&](int param) -> absl::Status {
    const Values& expected = weights_[static_cast<size_t>(param)];
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context_.View(param));
    EXPECT_EQ(view.count, expected.size());
    if (seen) seen(param, view.data);
    const auto* const data = static_cast<const float*>(view.data);
    EXPECT_TRUE(expected.empty() || std::equal(expected.begin(), expected.end(), data))
        << "unit " << unit << " on rank " << rank_ << " in step " << step_;
    return absl::OkStatus();
  });
}

absl::Status ExactModel::GiveGradients(int unit) {
  const int backward = backwards_[static_cast<size_t>(unit)]++;
  return ForParams(unit, [&](int param) -> absl::Status {
    Values gradient(weights_[static_cast<size_t>(param)].size());
    for (size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = Gradient(rank_, param, i, backward);
    Pause();
    return context_.GradReady(param, gradient.empty() ? nullptr : gradient.data());
  });
}

absl::Status ExactModel::Call(const Event& event, int* microbatch) {
  Pause();
  switch (event.kind) {
    case Kind::kMicrobatchBegin:
      return context_.MicrobatchBegin((*microbatch)++, event.index == 1);
    case Kind::kPreForward:
      WEFT_RETURN_IF_ERROR(context_.PreForward(event.index));
      Pause();
      return ExpectWhole(event.index);
    case Kind::kPostForward:
      WEFT_RETURN_IF_ERROR(ExpectWhole(event.index));
      return context_.PostForward(event.index);
    case Kind::kPreBackward:
      WEFT_RETURN_IF_ERROR(context_.PreBackward(event.index));
      WEFT_RETURN_IF_ERROR(ExpectWhole(event.index));
      return GiveGradients(event.index);
    case Kind::kPostBackward:
      WEFT_RETURN_IF_ERROR(ExpectWhole(event.index));
      return context_.PostBackward(event.index);
    case Kind::kUnshard:
      return context_.UnshardStart(event.index,
                                   destination ? destination(event.index) : UnshardDestination());
    case Kind::kReshard:
      WEFT_RETURN_IF_ERROR(context_.UnshardWait(event.index));
      WEFT_RETURN_IF_ERROR(ExpectWhole(event.index));
      return context_.Reshard(event.index);
    default:
      return context_.MicrobatchEnd();
  }
}

absl::StatusOr<weft_shard_step_result_t> ExactModel::Run(const Script& script) {
  int microbatch = 0;
  for (const Event& event : script) {
    if (event.kind != Kind::kFinish) {
      WEFT_RETURN_IF_ERROR(Call(event, &microbatch));
      continue;
    }
    Pause();
    return context_.Finish();
  }
  return weft_shard_step_result_t{};
}

absl::StatusOr<weft_shard_step_result_t> ExactModel::Train(const Script& script, uint64_t tag) {
  return Train([&](int) { return script; }, tag);
}

absl::StatusOr<weft_shard_step_result_t> ExactModel::Train(
    const std::function<Script(int rank)>& script_of, uint64_t tag) {
  ++step_;
  backwards_.assign(units_.size(), 0);
  WEFT_RETURN_IF_ERROR(context_.StepBegin(WEFT_SHARD_TRAIN, tag));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, Run(script_of(rank_)));
  Pause();
  WEFT_RETURN_IF_ERROR(Update(script_of));
  WEFT_RETURN_IF_ERROR(context_.Updated());
  WEFT_RETURN_IF_ERROR(context_.StepEnd());
  return result;
}

absl::Status ExactModel::Update(const std::function<Script(int rank)>& script_of) {
  for (size_t u = 0; u < units_.size(); ++u) {
    const int unit = static_cast<int>(u);
    std::vector<int> backwards;  // by rank
    for (int rank = 0; rank < ranks_; ++rank) {
      const Script script = script_of(rank);
      const Event backward{Kind::kPostBackward, unit};
      backwards.push_back(static_cast<int>(std::count(script.begin(), script.end(), backward)));
    }
    WEFT_RETURN_IF_ERROR(ForParams(unit, [&](int param) -> absl::Status {
      Values& weights = weights_[static_cast<size_t>(param)];
      Values sums(weights.size());
      for (int rank = 0; rank < ranks_; ++rank) {
        for (int b = 0; b < backwards[static_cast<size_t>(rank)]; ++b) {
          for (size_t i = 0; i < sums.size(); ++i)
            sums[i] += Gradient(rank, param, i, b);
        }
      }
      WEFT_ASSIGN_OR_RETURN(const auto part, context_.OwnPart(param));
      const auto& [view, begin] = part;
      auto* const data = static_cast<float*>(view.data);
      const auto* const grad = static_cast<const float*>(view.grad);
      size_t wrong = 0;
      for (size_t i = 0; i < view.count; ++i) {
        wrong += grad[i] == sums[begin + i] ? 0 : 1;
        data[i] += sums[begin + i];
      }
      EXPECT_EQ(wrong, 0u) << "gradients of unit " << u << " on rank " << rank_ << " in step "
                           << step_;
      for (size_t i = 0; i < sums.size(); ++i)
        weights[i] += sums[i];
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

absl::StatusOr<weft_shard_step_result_t> ExactModel::Eval(const Script& script, uint64_t tag) {
  WEFT_RETURN_IF_ERROR(context_.StepBegin(WEFT_SHARD_EVAL, tag));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t result, Run(script));
  Pause();
  WEFT_RETURN_IF_ERROR(context_.StepEnd());
  return result;
}

absl::Status ExactModel::ExpectWeights() {
  for (size_t p = 0; p < weights_.size(); ++p) {
    Values values(weights_[p].size());
    WEFT_RETURN_IF_ERROR(context_.Read(static_cast<int>(p), values.data()));
    EXPECT_EQ(values, weights_[p]) << "param " << p << " on rank " << rank_;
  }
  return absl::OkStatus();
}

}  // namespace weft
