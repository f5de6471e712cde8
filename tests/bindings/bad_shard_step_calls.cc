// The calls of a step of shard.h with one wrong argument each, and each call where it is not legal.
#include <cmath>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

void BeginStep(Bench& bench) {
  EXPECT_EQ(StepBegin(bench.ready, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
}

// To where weft_shard_grad_ready is legal.
void BeginBackward(Bench& bench) {
  BeginStep(bench);
  EXPECT_EQ(MicrobatchBegin(bench.ready, 0, 1), WEFT_SUCCESS);
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
      {"weft_shard_context_set",
       [](Bench&, Context c) {
         const weft_shard_settings_t settings = {.struct_size = sizeof(settings)};
         return weft_shard_context_set(c, &settings);
       }},
      {"weft_shard_context_verify",
       [](Bench&, Context c) {
         return weft_shard_context_verify(c);
       }},
      {"weft_shard_step_begin",
       [](Bench&, Context c) {
         return StepBegin(c, WEFT_SHARD_TRAIN, 0);
       }},
      {"weft_shard_join",
       [](Bench&, Context c) {
         return weft_shard_join(c, nullptr, nullptr);
       }},
      {"weft_shard_microbatch_begin",
       [](Bench&, Context c) {
         return MicrobatchBegin(c, 0, 1);
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
         return weft_shard_params_updated(c, nullptr);
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
    {"weft_shard_unshard_start",
     [](weft_shard_unit_t unit, void* stream) {
       weft_shard_unshard_t options = {};
       options.struct_size = sizeof(options);
       options.stream = stream;
       return weft_shard_unshard_start(unit, &options);
     }},
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

// Of work that cannot follow a device's stream.
void AddStreamFaults(std::vector<BadCall>* calls) {
  const auto add = [calls](const char* function, weft_result_t (*call)(Bench & b, void* stream)) {
    calls->push_back(
        {function, "a_stream", WEFT_UNSUPPORTED, "a stream was passed", [call](Bench& b) {
           return call(b, &b);
         }});
  };
  add("weft_shard_step_begin", [](Bench& b, void* stream) {
    const weft_shard_step_t step = {.struct_size = sizeof(step), .stream = stream};
    return weft_shard_step_begin(b.ready, &step);
  });
  add("weft_shard_microbatch_begin", [](Bench& b, void* stream) {
    BeginStep(b);
    const weft_shard_microbatch_t microbatch = {.struct_size = sizeof(microbatch),
                                                .stream = stream};
    return weft_shard_microbatch_begin(b.ready, &microbatch);
  });
  add("weft_shard_join",
      [](Bench& b, void* stream) { return weft_shard_join(b.ready, stream, nullptr); });
  add("weft_shard_params_updated",
      [](Bench& b, void* stream) { return weft_shard_params_updated(b.ready, stream); });
  add("weft_shard_param_load", [](Bench& b, void* stream) {
    const weft_shard_load_t load = {.struct_size = sizeof(load), .stream = stream};
    return weft_shard_param_load(b.param, &load);
  });
  add("weft_shard_param_read", [](Bench& b, void* stream) {
    const weft_shard_read_t read = {.struct_size = sizeof(read), .stream = stream};
    return weft_shard_param_read(b.param, &read);
  });
  add("weft_shard_state_written", [](Bench& b, void* stream) {
    return weft_shard_state_written(b.ready, WEFT_SHARD_STATE_ALL, stream);
  });
  add("weft_shard_gradient_norm", [](Bench& b, void* stream) {
    weft_shard_norm_t norm = {.struct_size = sizeof(norm)};
    return weft_shard_gradient_norm(b.ready, stream, &norm);
  });
  add("weft_shard_optimizer_step", [](Bench& b, void* stream) {
    const weft_shard_update_t update = {
        .struct_size = sizeof(update), .learning_rate = 0.1, .stream = stream};
    return weft_shard_optimizer_step(b.ready, &update, nullptr);
  });
}

void AddSettingsFaults(std::vector<BadCall>* calls) {
  const auto add = [calls](const char* fault, const char* needle, weft_shard_settings_t settings) {
    settings.struct_size = sizeof(settings);
    calls->push_back(
        {"weft_shard_context_set", fault, WEFT_INVALID_ARGUMENT, needle, [settings](Bench& b) {
           return weft_shard_context_set(b.ready, &settings);
         }});
  };
  add("prefetch_minus_1", "prefetch is -1", {.prefetch = -1});
  add("verify_steps_minus_1", "verify_steps is -1", {.verify_steps = -1});
  add("fields_4", "unknown bits: 4", {.fields = 4});
  calls->push_back({"weft_shard_context_set", "settings_NULL", WEFT_INVALID_ARGUMENT,
                    "settings is NULL", [](Bench& b) {
                      return weft_shard_context_set(b.ready, nullptr);
                    }});
  calls->push_back(
      {"weft_shard_context_set", "in_a_step", WEFT_BAD_STATE, "is not legal here", [](Bench& b) {
         BeginStep(b);
         const weft_shard_settings_t settings = {.struct_size = sizeof(settings)};
         return weft_shard_context_set(b.ready, &settings);
       }});
  AddConfigFaults<weft_shard_settings_t>("weft_shard_context_set", calls,
                                         [](Bench& b, const weft_shard_settings_t* settings) {
                                           return weft_shard_context_set(b.ready, settings);
                                         });
}

void AddStepFaults(std::vector<BadCall>* calls) {
  AddSettingsFaults(calls);
  AddStreamFaults(calls);
  AddConfigFaults<weft_shard_step_t>(
      "weft_shard_step_begin", calls,
      [](Bench& b, const weft_shard_step_t* step) { return weft_shard_step_begin(b.ready, step); });
  AddConfigFaults<weft_shard_microbatch_t>("weft_shard_microbatch_begin", calls,
                                           [](Bench& b, const weft_shard_microbatch_t* microbatch) {
                                             BeginStep(b);
                                             return weft_shard_microbatch_begin(b.ready,
                                                                                microbatch);
                                           });
  for (const int mode : {2, 7, -1}) {
    calls->push_back({"weft_shard_step_begin",
                      mode < 0 ? "mode_minus_1" : "mode_" + std::to_string(mode),
                      WEFT_INVALID_ARGUMENT, "mode is " + std::to_string(mode), [mode](Bench& b) {
                        return StepBegin(b.ready, Unknown<weft_shard_mode_t>(mode), 0);
                      }});
  }
  for (const int last : {2, -1}) {
    calls->push_back({"weft_shard_microbatch_begin", last < 0 ? "last_minus_1" : "last_2",
                      WEFT_INVALID_ARGUMENT, "last is " + std::to_string(last), [last](Bench& b) {
                        BeginStep(b);
                        return MicrobatchBegin(b.ready, 0, last);
                      }});
  }
  for (const int index : {1, -1}) {
    calls->push_back({"weft_shard_microbatch_begin", index < 0 ? "index_minus_1" : "index_1",
                      WEFT_BAD_STATE, "is not legal here", [index](Bench& b) {
                        BeginStep(b);
                        return MicrobatchBegin(b.ready, index, 1);
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

void AddUnshardFaults(std::vector<BadCall>* calls) {
  AddConfigFaults<weft_shard_unshard_t>("weft_shard_unshard_start", calls,
                                        [](Bench& b, const weft_shard_unshard_t* options) {
                                          return weft_shard_unshard_start(b.unit, options);
                                        });
  const auto add = [&](const char* fault, const char* needle, void* destination, size_t bytes) {
    calls->push_back(
        {"weft_shard_unshard_start", fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& b) {
           weft_shard_unshard_t options = {};
           options.struct_size = sizeof(options);
           options.destination = destination;
           options.bytes = bytes;
           return weft_shard_unshard_start(b.unit, &options);
         }});
  };
  add("destination_NULL_with_bytes", "destination is NULL but bytes is 64", nullptr, 64);
  alignas(64) static char memory[64];
  add("a_destination_for_params_that_are_not_sharded", "are not sharded", memory, sizeof(memory));
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
  const auto spoil = [&](const char* fault, const char* needle,
                         const std::function<void(weft_shard_update_t&)>& change) {
    calls->push_back({"weft_shard_optimizer_step", fault, WEFT_INVALID_ARGUMENT, needle,
                      [update = good, change](Bench& b) {
                        weft_shard_update_t spoilt = update;
                        change(spoilt);
                        return weft_shard_optimizer_step(b.ready, &spoilt, nullptr);
                      }});
  };
  spoil("gradient_factor_negative", "gradient_factor is -1",
        [](weft_shard_update_t& u) { u.gradient_factor = -1; });
  spoil("gradient_factor_nan", "gradient_factor is nan",
        [](weft_shard_update_t& u) { u.gradient_factor = NAN; });
  spoil("skip_2", "skip is 2", [](weft_shard_update_t& u) { u.skip = 2; });
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_gradient_norm", "context",
      [](Bench&, weft_shard_context_t c) {
        weft_shard_norm_t norm = {};
        norm.struct_size = sizeof(norm);
        return weft_shard_gradient_norm(c, nullptr, &norm);
      },
      calls);
  calls->push_back({"weft_shard_gradient_norm", "norm_NULL", WEFT_INVALID_ARGUMENT, "norm is NULL",
                    [](Bench& b) {
                      return weft_shard_gradient_norm(b.ready, nullptr, nullptr);
                    }});
  calls->push_back({"weft_shard_gradient_norm", "struct_size_0", WEFT_INVALID_ARGUMENT,
                    "struct_size is 0", [](Bench& b) {
                      weft_shard_norm_t norm = {};
                      return weft_shard_gradient_norm(b.ready, nullptr, &norm);
                    }});
  calls->push_back(
      {"weft_shard_gradient_norm", "between_steps", WEFT_BAD_STATE, "after finish", [](Bench& b) {
         weft_shard_norm_t norm = {};
         norm.struct_size = sizeof(norm);
         return weft_shard_gradient_norm(b.ready, nullptr, &norm);
       }});
  calls->push_back(
      {"weft_shard_norm_add", "norm_NULL", WEFT_INVALID_ARGUMENT, "norm is NULL", [](Bench&) {
         const weft_shard_norm_t other = {};
         return weft_shard_norm_add(nullptr, &other);
       }});
  calls->push_back(
      {"weft_shard_norm_add", "other_NULL", WEFT_INVALID_ARGUMENT, "other is NULL", [](Bench&) {
         weft_shard_norm_t norm = {};
         norm.struct_size = sizeof(norm);
         return weft_shard_norm_add(&norm, nullptr);
       }});
  calls->push_back({"weft_shard_norm_add", "another_loss_scale", WEFT_INVALID_ARGUMENT,
                    "loss scales 1 and 2", [](Bench&) {
                      weft_shard_norm_t norm = {};
                      norm.struct_size = sizeof(norm);
                      norm.loss_scale = 1;
                      weft_shard_norm_t other = norm;
                      other.loss_scale = 2;
                      return weft_shard_norm_add(&norm, &other);
                    }});
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
  add("unknown_kind", "kind is 99", [](Config& c) { c.kind = Unknown<weft_optimizer_kind_t>(99); });
  add("kind_minus_1", "kind is -1", [](Config& c) { c.kind = Unknown<weft_optimizer_kind_t>(-1); });
  add("beta1_1", "below 1", [](Config& c) { c.beta1 = 1; });
  add("momentum_2", "below 1", [](Config& c) { c.momentum = 2; });
  add("beta1_negative", "beta1 is -0.1", [](Config& c) { c.beta1 = -0.1; });
  add("weight_decay_negative", "weight_decay is -1", [](Config& c) { c.weight_decay = -1; });
  add("unknown_fields", "unknown bits", [](Config& c) { c.fields = 32; });
  add("lamb_without_epsilon", "LAMB needs", [](Config& c) {
    c.kind = WEFT_OPTIMIZER_LAMB;
    c.fields = WEFT_OPTIMIZER_EPSILON;
  });
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
  AddUnshardFaults(&calls);
  AddGradientFaults(&calls);
  AddUpdateFaults(&calls);
  AddOptimizerFaults(&calls);
  return calls;
}

}  // namespace weft::test
