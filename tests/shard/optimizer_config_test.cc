#include "shard/optimizer/optimizer_config.h"

#include <cmath>
#include <functional>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"

namespace weft::optimizer_config_test {
namespace {

using Change = std::function<void(OptimizerConfig&)>;

double Next(double value) {
  return std::nextafter(value, 2 * value + 1);
}

// What decides the numbers of each kind.
std::vector<Change> ChangesOf(weft_optimizer_kind_t kind) {
  std::vector<Change> changes = {
      [](OptimizerConfig& c) { c.static_scale = Next(c.static_scale); },
      [](OptimizerConfig& c) { c.dynamic_scale = true; },
  };
  const auto add = [&](const Change& change) {
    changes.push_back(change);
  };
  switch (kind) {
    case WEFT_OPTIMIZER_ADAMW:
      add([](OptimizerConfig& c) { c.adamw.beta1 = Next(c.adamw.beta1); });
      add([](OptimizerConfig& c) { c.adamw.beta2 = Next(c.adamw.beta2); });
      add([](OptimizerConfig& c) { c.adamw.epsilon = Next(c.adamw.epsilon); });
      add([](OptimizerConfig& c) { c.adamw.weight_decay = Next(c.adamw.weight_decay); });
      break;
    case WEFT_OPTIMIZER_SGD:
      add([](OptimizerConfig& c) { c.sgd.momentum = Next(c.sgd.momentum); });
      add([](OptimizerConfig& c) { c.sgd.weight_decay = Next(c.sgd.weight_decay); });
      add([](OptimizerConfig& c) { c.sgd.nesterov = true; });
      add([](OptimizerConfig& c) { c.sgd.decoupled = true; });
      break;
    case WEFT_OPTIMIZER_LION:
      add([](OptimizerConfig& c) { c.lion.beta1 = Next(c.lion.beta1); });
      add([](OptimizerConfig& c) { c.lion.beta2 = Next(c.lion.beta2); });
      add([](OptimizerConfig& c) { c.lion.weight_decay = Next(c.lion.weight_decay); });
      break;
    case WEFT_OPTIMIZER_LAMB:
      add([](OptimizerConfig& c) { c.lamb.beta1 = Next(c.lamb.beta1); });
      add([](OptimizerConfig& c) { c.lamb.beta2 = Next(c.lamb.beta2); });
      add([](OptimizerConfig& c) { c.lamb.epsilon = Next(c.lamb.epsilon); });
      add([](OptimizerConfig& c) { c.lamb.weight_decay = Next(c.lamb.weight_decay); });
      break;
    case WEFT_OPTIMIZER_LARS:
      add([](OptimizerConfig& c) { c.lars.momentum = Next(c.lars.momentum); });
      add([](OptimizerConfig& c) { c.lars.weight_decay = Next(c.lars.weight_decay); });
      add([](OptimizerConfig& c) { c.lars.coefficient = Next(c.lars.coefficient); });
      break;
    case WEFT_OPTIMIZER_OWN:
      break;
    case WEFT_OPTIMIZER_MUON:
      add([](OptimizerConfig& c) { c.muon.momentum = Next(c.muon.momentum); });
      add([](OptimizerConfig& c) { c.muon.weight_decay = 0.1; });
      add([](OptimizerConfig& c) { c.muon.nesterov = true; });
      add([](OptimizerConfig& c) {
        c.product.product = [](const float*, const float*, float*, size_t, size_t, size_t, void*) {
        };
      });
      break;
  }
  return changes;
}

// The last bit of a number is a difference.
TEST(OptimizerText, DiffersWhenAnyNumberDoes) {
  std::vector<std::string> texts;
  for (int kind = WEFT_OPTIMIZER_ADAMW; kind <= WEFT_OPTIMIZER_MUON; ++kind) {
    const OptimizerConfig config{.kind = static_cast<weft_optimizer_kind_t>(kind)};
    texts.push_back(OptimizerText(config));
    for (const Change& change : ChangesOf(config.kind)) {
      OptimizerConfig changed = config;
      change(changed);
      texts.push_back(OptimizerText(changed));
    }
  }
  const Change of_scale[] = {
      [](OptimizerConfig& c) { c.scale.initial = Next(c.scale.initial); },
      [](OptimizerConfig& c) { c.scale.least = Next(c.scale.least); },
      [](OptimizerConfig& c) { c.scale.greatest = Next(c.scale.greatest); },
      [](OptimizerConfig& c) { ++c.scale.growth_steps; },
      [](OptimizerConfig& c) { ++c.scale.hysteresis; },
  };
  for (const Change& change : of_scale) {
    OptimizerConfig changed{.dynamic_scale = true};
    change(changed);
    texts.push_back(OptimizerText(changed));
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      EXPECT_NE(texts[i], texts[j]) << i << " and " << j;
  }
}

TEST(OptimizerText, LeavesOutWhatIsEachRanksOwn) {
  EXPECT_EQ(OptimizerText({.threads = 1}), OptimizerText({.threads = 7}));
}

TEST(Finalize, NamesAnOptimizerThatDiffersInItsLastDigit) {
  const std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kReference, 2, [](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        OptimizerConfig config;
        if (rank == 1) config.adamw.beta2 = Next(config.adamw.beta2);
        WEFT_RETURN_IF_ERROR(context->SetOptimizer(config));
        WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, "a", {16}).status());
        return context->Finalize().status();
      });
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("0.9990000000000001"));
  }
}

}  // namespace
}  // namespace weft::optimizer_config_test
