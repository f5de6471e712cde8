// The calls of shard_step.h that are about optimizers, with one wrong argument each.
#include <cmath>
#include <initializer_list>
#include <string>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/bad_numbers.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

weft_shard_update_t Update(double learning_rate, double norm_max) {
  weft_shard_update_t update = {};
  update.struct_size = sizeof(update);
  update.learning_rate = learning_rate;
  update.norm_max = norm_max;
  return update;
}

void AddUpdateFaults(std::vector<BadCall>* calls) {
  const weft_shard_update_t good = Update(0.1, 0);
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_optimizer_step", "context",
      [good](Bench&, weft_shard_context_t c) {
        return weft_shard_optimizer_step(c, &good, nullptr);
      },
      calls);
  calls->push_back({"weft_shard_optimizer_step", "update_NULL", WEFT_INVALID_ARGUMENT,
                    "update is NULL", [](Bench& b) {
                      return weft_shard_optimizer_step(b.ready, nullptr, nullptr);
                    }});
  calls->push_back({"weft_shard_optimizer_step", "no_optimizer", WEFT_BAD_STATE, "no optimizer",
                    [good](Bench& b) {
                      return weft_shard_optimizer_step(b.ready, &good, nullptr);
                    }});
  const auto spoil = [&](const std::string& fault, const char* needle,
                         const std::function<void(weft_shard_update_t&)>& change) {
    calls->push_back({"weft_shard_optimizer_step", fault, WEFT_INVALID_ARGUMENT, needle,
                      [update = good, change](Bench& b) {
                        weft_shard_update_t spoilt = update;
                        change(spoilt);
                        return weft_shard_optimizer_step(b.ready, &spoilt, nullptr);
                      }});
  };
  for (const auto& [name, number] : std::initializer_list<Numbered<weft_shard_update_t>>{
           {"learning_rate", &weft_shard_update_t::learning_rate},
           {"norm_max", &weft_shard_update_t::norm_max},
           {"gradient_factor", &weft_shard_update_t::gradient_factor}}) {
    for (const auto& [fault, value] : kBadNumbers) {
      spoil(std::string(name) + fault, name,
            [number = number, value = value](weft_shard_update_t& u) { u.*number = value; });
    }
  }
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    calls->push_back({"weft_shard_optimizer_step",
                      "result_struct_size_" + std::to_string(struct_size), WEFT_INVALID_ARGUMENT,
                      "struct_size", [struct_size, good](Bench& b) {
                        return WithAnswer<weft_shard_update_result_t>(
                            struct_size, [&](weft_shard_update_result_t* result) {
                              return weft_shard_optimizer_step(b.ready, &good, result);
                            });
                      }});
  }
  AddConfigFaults<weft_shard_update_t>("weft_shard_optimizer_step", calls,
                                       [](Bench& b, const weft_shard_update_t* update) {
                                         return weft_shard_optimizer_step(b.ready, update, nullptr);
                                       });
}

void AddDropFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_drop_gradients", "context",
      [](Bench&, weft_shard_context_t c) { return weft_shard_drop_gradients(c, nullptr); }, calls);
  calls->push_back({"weft_shard_drop_gradients", "a_stream", WEFT_UNSUPPORTED,
                    "a stream was passed", [](Bench& b) {
                      return weft_shard_drop_gradients(b.ready, &b);
                    }});
  calls->push_back(
      {"weft_shard_drop_gradients", "no_optimizer", WEFT_BAD_STATE, "no optimizer", [](Bench& b) {
         return weft_shard_drop_gradients(b.ready, nullptr);
       }});
}

void AddOptimizerFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_context_optimizer", "context",
      [](Bench&, weft_shard_context_t c) { return weft_shard_context_optimizer(c, nullptr); },
      calls);
  calls->push_back({"weft_shard_context_optimizer", "a_finalized_context", WEFT_BAD_STATE,
                    "is not legal here", [](Bench& b) {
                      return weft_shard_context_optimizer(b.ready, nullptr);
                    }});
  const auto add = [&](const std::string& fault, const char* needle,
                       const std::function<void(weft_optimizer_config_t&)>& spoil) {
    calls->push_back(
        {"weft_shard_context_optimizer", fault, WEFT_INVALID_ARGUMENT, needle, [spoil](Bench& b) {
           weft_optimizer_config_t config = {};
           config.struct_size = sizeof(config);
           spoil(config);
           return weft_shard_context_optimizer(b.open, &config);
         }});
  };
  using Config = weft_optimizer_config_t;
  add("unknown_kind", "kind is 99", [](Config& c) { c.kind = Unknown<weft_optimizer_kind_t>(99); });
  add("kind_minus_1", "kind is -1", [](Config& c) { c.kind = Unknown<weft_optimizer_kind_t>(-1); });
  add("beta1_1", "below 1", [](Config& c) { c.beta1 = 1; });
  add("momentum_2", "below 1", [](Config& c) { c.momentum = 2; });
  add("unknown_fields", "unknown bits", [](Config& c) { c.fields = 32; });
  add("lamb_without_epsilon", "LAMB needs", [](Config& c) {
    c.kind = WEFT_OPTIMIZER_LAMB;
    c.fields = WEFT_OPTIMIZER_EPSILON;
  });
  for (const auto& [name, number] :
       std::initializer_list<Numbered<Config>>{{"beta1", &Config::beta1},
                                               {"beta2", &Config::beta2},
                                               {"epsilon", &Config::epsilon},
                                               {"weight_decay", &Config::weight_decay},
                                               {"momentum", &Config::momentum},
                                               {"trust", &Config::trust},
                                               {"loss_scale", &Config::loss_scale}}) {
    for (const auto& [fault, value] : kBadNumbers) {
      add(std::string(name) + fault, name,
          [number = number, value = value](Config& c) { c.*number = value; });
    }
  }
  // Also where the scale is static, and they are not used.
  add("loss_scale_growth_steps_minus_1", "loss_scale_growth_steps is -1",
      [](Config& c) { c.loss_scale_growth_steps = -1; });
  add("loss_scale_hysteresis_minus_1", "loss_scale_hysteresis is -1",
      [](Config& c) { c.loss_scale_hysteresis = -1; });
  add("threads_minus_1", "threads is -1", [](Config& c) { c.threads = -1; });
  add("threads_257", "threads is 257", [](Config& c) { c.threads = 257; });
  add("nonfinite_3", "nonfinite is 3",
      [](Config& c) { c.nonfinite = Unknown<weft_nonfinite_t>(3); });
  add("nonfinite_minus_1", "nonfinite is -1",
      [](Config& c) { c.nonfinite = Unknown<weft_nonfinite_t>(-1); });
  add("nonfinite_steps_minus_1", "nonfinite_steps is -1", [](Config& c) {
    c.nonfinite = WEFT_NONFINITE_FAIL;
    c.nonfinite_steps = -1;
  });
  add("nonfinite_steps_that_do_not_fail", "set nonfinite to WEFT_NONFINITE_FAIL",
      [](Config& c) { c.nonfinite_steps = 3; });
  AddConfigFaults<weft_optimizer_config_t>("weft_shard_context_optimizer", calls,
                                           [](Bench& b, const weft_optimizer_config_t* config) {
                                             return weft_shard_context_optimizer(b.open, config);
                                           });
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_loss_scale", "context",
      [](Bench&, weft_shard_context_t c) {
        double scale = 0;
        return weft_shard_loss_scale(c, &scale);
      },
      calls);
  calls->push_back(
      {"weft_shard_loss_scale", "scale_NULL", WEFT_INVALID_ARGUMENT, "scale is NULL", [](Bench& b) {
         return weft_shard_loss_scale(b.ready, nullptr);
       }});
  calls->push_back(
      {"weft_shard_loss_scale", "no_optimizer", WEFT_BAD_STATE, "no optimizer", [](Bench& b) {
         double scale = 0;
         return weft_shard_loss_scale(b.ready, &scale);
       }});
}

}  // namespace

std::vector<BadCall> BadShardOptimizerCalls() {
  std::vector<BadCall> calls;
  AddUpdateFaults(&calls);
  AddDropFaults(&calls);
  AddOptimizerFaults(&calls);
  return calls;
}

}  // namespace weft::test
