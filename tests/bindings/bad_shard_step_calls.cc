// The calls of a step of shard.h with one wrong argument each, and each call where it is not legal.
#include <cmath>

#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

void BeginStep(Bench& bench) {
  EXPECT_EQ(weft_shard_step_begin(bench.ready, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
}

// To where weft_shard_grad_ready is legal.
void BeginBackward(Bench& bench) {
  BeginStep(bench);
  EXPECT_EQ(weft_shard_microbatch_begin(bench.ready, 0, 1), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_pre_forward(bench.unit, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_post_forward(bench.unit, nullptr), WEFT_SUCCESS);
  EXPECT_EQ(weft_shard_pre_backward(bench.unit, nullptr), WEFT_SUCCESS);
}

struct ContextCall {
  const char* function;
  std::function<weft_result_t(Bench&, weft_shard_context_t)> call;
};

std::vector<ContextCall> ContextCalls() {
  using Context = weft_shard_context_t;
  return {
      {"weft_shard_context_finalize",
       [](Bench&, Context c) {
         return weft_shard_context_finalize(c, nullptr);
       }},
      {"weft_shard_context_broadcast",
       [](Bench&, Context c) {
         return weft_shard_context_broadcast(c, 0);
       }},
      {"weft_shard_context_verify",
       [](Bench&, Context c) {
         return weft_shard_context_verify(c);
       }},
      {"weft_shard_step_begin",
       [](Bench&, Context c) {
         return weft_shard_step_begin(c, WEFT_SHARD_TRAIN, 0);
       }},
      {"weft_shard_join",
       [](Bench&, Context c) {
         return weft_shard_join(c, nullptr);
       }},
      {"weft_shard_microbatch_begin",
       [](Bench&, Context c) {
         return weft_shard_microbatch_begin(c, 0, 1);
       }},
      {"weft_shard_microbatch_end",
       [](Bench&, Context c) {
         return weft_shard_microbatch_end(c, nullptr);
       }},
      {"weft_shard_finish",
       [](Bench&, Context c) {
         return weft_shard_finish(c, nullptr, nullptr);
       }},
      {"weft_shard_step_end",
       [](Bench&, Context c) {
         return weft_shard_step_end(c);
       }},
      {"weft_shard_params_updated",
       [](Bench&, Context c) {
         return weft_shard_params_updated(c);
       }},
  };
}

struct UnitCall {
  const char* function;
  weft_result_t (*call)(weft_shard_unit_t unit, void* stream);
};

constexpr UnitCall kUnitCalls[] = {
    {"weft_shard_pre_forward", weft_shard_pre_forward},
    {"weft_shard_post_forward", weft_shard_post_forward},
    {"weft_shard_pre_backward", weft_shard_pre_backward},
    {"weft_shard_post_backward", weft_shard_post_backward},
    {"weft_shard_unshard_start", weft_shard_unshard_start},
    {"weft_shard_unshard_wait", weft_shard_unshard_wait},
    {"weft_shard_reshard", weft_shard_reshard},
    {"weft_shard_reduce_wait", weft_shard_reduce_wait},
};

void AddContextCalls(std::vector<BadCall>* calls) {
  for (const ContextCall& c : ContextCalls()) {
    AddHandleFaults<weft_shard_context_t>(c.function, "context", c.call, calls);
    // finalize is legal only before it has been called, the others only after.
    const bool finalize = std::string(c.function) == "weft_shard_context_finalize";
    calls->push_back({c.function, "a_context_not_ready_for_it", WEFT_BAD_STATE, "is not legal here",
                      [call = c.call, finalize](Bench& b) {
                        return call(b, finalize ? b.ready : b.open);
                      }});
  }
  calls->push_back(
      {"weft_shard_context_finalize", "an_open_unit", WEFT_BAD_STATE, "is open", [](Bench& b) {
         return weft_shard_context_finalize(b.open, nullptr);
       }});
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_abort_step", "context",
      [](Bench&, weft_shard_context_t c) { return weft_shard_abort_step(c, "because"); }, calls);
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_context_destroy", "context",
      [](Bench&, weft_shard_context_t c) { return weft_shard_context_destroy(c); }, calls);
}

void AddStepFaults(std::vector<BadCall>* calls) {
  for (const int mode : {2, 7, -1}) {
    calls->push_back({"weft_shard_step_begin",
                      mode < 0 ? "mode_minus_1" : "mode_" + std::to_string(mode),
                      WEFT_INVALID_ARGUMENT, "mode is " + std::to_string(mode), [mode](Bench& b) {
                        return weft_shard_step_begin(b.ready, Unknown<weft_shard_mode_t>(mode), 0);
                      }});
  }
  for (const int last : {2, -1}) {
    calls->push_back({"weft_shard_microbatch_begin", last < 0 ? "last_minus_1" : "last_2",
                      WEFT_INVALID_ARGUMENT, "last is " + std::to_string(last), [last](Bench& b) {
                        BeginStep(b);
                        return weft_shard_microbatch_begin(b.ready, 0, last);
                      }});
  }
  for (const int index : {1, -1}) {
    calls->push_back({"weft_shard_microbatch_begin", index < 0 ? "index_minus_1" : "index_1",
                      WEFT_BAD_STATE, "is not legal here", [index](Bench& b) {
                        BeginStep(b);
                        return weft_shard_microbatch_begin(b.ready, index, 1);
                      }});
  }
  calls->push_back(
      {"weft_shard_microbatch_end", "a_stream", WEFT_UNSUPPORTED, "stream", [](Bench& b) {
         return weft_shard_microbatch_end(b.ready, &b);
       }});
  calls->push_back({"weft_shard_finish", "a_stream", WEFT_UNSUPPORTED, "stream", [](Bench& b) {
                      return weft_shard_finish(b.ready, &b, nullptr);
                    }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    calls->push_back({"weft_shard_finish", "struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_step_result_t>(
                            struct_size, [&b](weft_shard_step_result_t* result) {
                              return weft_shard_finish(b.ready, nullptr, result);
                            });
                      }});
  }
}

void AddUnitCalls(std::vector<BadCall>* calls) {
  for (const UnitCall& c : kUnitCalls) {
    AddHandleFaults<weft_shard_unit_t>(
        c.function, "unit",
        [call = c.call](Bench&, weft_shard_unit_t unit) { return call(unit, nullptr); }, calls);
    calls->push_back(
        {c.function, "a_stream", WEFT_UNSUPPORTED, "stream", [call = c.call](Bench& b) {
           return call(b.unit, &b);
         }});
    calls->push_back(
        {c.function, "no_step", WEFT_BAD_STATE, "is not legal here", [call = c.call](Bench& b) {
           return call(b.unit, nullptr);
         }});
  }
  AddHandleFaults<weft_shard_unit_t>(
      "weft_shard_unit_seal", "unit",
      [](Bench&, weft_shard_unit_t unit) { return weft_shard_unit_seal(unit); }, calls);
  calls->push_back(
      {"weft_shard_unit_seal", "a_sealed_unit", WEFT_BAD_STATE, "sealed already", [](Bench& b) {
         EXPECT_EQ(weft_shard_unit_seal(b.open_unit), WEFT_SUCCESS);
         return weft_shard_unit_seal(b.open_unit);
       }});
}

void AddGradientFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_grad_ready", "param",
      [](Bench&, weft_shard_param_t param) {
        return weft_shard_grad_ready(param, nullptr, nullptr);
      },
      calls);
  calls->push_back({"weft_shard_grad_ready", "a_stream", WEFT_UNSUPPORTED, "stream", [](Bench& b) {
                      return weft_shard_grad_ready(b.param, nullptr, &b);
                    }});
  calls->push_back(
      {"weft_shard_grad_ready", "no_step", WEFT_BAD_STATE, "is not legal here", [](Bench& b) {
         return weft_shard_grad_ready(b.param, nullptr, nullptr);
       }});
  for (const int shift : {0, 4, -4}) {
    const std::string name = shift < 0 ? "before" : (shift > 0 ? "after" : "same");
    calls->push_back({"weft_shard_grad_ready", "grad_overlapping_its_own_" + name,
                      WEFT_INVALID_ARGUMENT, "overlaps", [shift](Bench& b) {
                        weft_shard_view_t view = {};
                        view.struct_size = sizeof(view);
                        EXPECT_EQ(weft_shard_param_view(b.param, &view), WEFT_SUCCESS);
                        BeginBackward(b);
                        const auto* const grad = static_cast<const char*>(view.grad) + shift;
                        return weft_shard_grad_ready(b.param, grad, nullptr);
                      }});
  }
}

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
  const auto add = [&](const char* fault, const char* needle, double rate, double norm) {
    calls->push_back({"weft_shard_optimizer_step", fault, WEFT_INVALID_ARGUMENT, needle,
                      [update = Update(rate, norm)](Bench& b) {
                        return weft_shard_optimizer_step(b.ready, &update, nullptr);
                      }});
  };
  add("learning_rate_nan", "learning_rate is nan", NAN, 0);
  add("learning_rate_infinite", "learning_rate is inf", INFINITY, 0);
  add("norm_max_negative", "norm_max -1", 0.1, -1);
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

void AddOptimizerFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_context_optimizer", "context",
      [](Bench&, weft_shard_context_t c) { return weft_shard_context_optimizer(c, nullptr); },
      calls);
  calls->push_back({"weft_shard_context_optimizer", "a_finalized_context", WEFT_BAD_STATE,
                    "is not legal here", [](Bench& b) {
                      return weft_shard_context_optimizer(b.ready, nullptr);
                    }});
  const auto add = [&](const char* fault, const char* needle,
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
  add("unknown_kind", "kind is 5", [](Config& c) { c.kind = Unknown<weft_optimizer_kind_t>(5); });
  add("kind_minus_1", "kind is -1", [](Config& c) { c.kind = Unknown<weft_optimizer_kind_t>(-1); });
  add("beta1_1", "below 1", [](Config& c) { c.beta1 = 1; });
  add("momentum_2", "below 1", [](Config& c) { c.momentum = 2; });
  add("epsilon_nan", "not finite", [](Config& c) { c.epsilon = NAN; });
  add("loss_scale_negative", "loss_scale is -2", [](Config& c) { c.loss_scale = -2; });
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
  add("loss_scale_infinite", "loss_scale is inf", [](Config& c) { c.loss_scale = INFINITY; });
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

std::vector<BadCall> BadShardStepCalls() {
  std::vector<BadCall> calls;
  AddContextCalls(&calls);
  AddStepFaults(&calls);
  AddUnitCalls(&calls);
  AddGradientFaults(&calls);
  AddUpdateFaults(&calls);
  AddOptimizerFaults(&calls);
  return calls;
}

}  // namespace weft::test
