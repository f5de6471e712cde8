// The calls of a step of shard.h with one wrong argument each, and each call where it is not legal.
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

}  // namespace

std::vector<BadCall> BadShardStepCalls() {
  std::vector<BadCall> calls;
  AddContextCalls(&calls);
  AddStepFaults(&calls);
  AddUnitCalls(&calls);
  AddUnshardFaults(&calls);
  AddGradientFaults(&calls);
  return calls;
}

}  // namespace weft::test
