// The calls of shard_state.h with one wrong argument each, and each call where it is not legal.
#include <limits>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

constexpr char kPart[] = "weft_shard_state_part";
constexpr char kGet[] = "weft_shard_state_scalars_get";
constexpr char kSet[] = "weft_shard_state_scalars_set";
constexpr char kWritten[] = "weft_shard_state_written";

weft_result_t PartOf(weft_shard_param_t param, weft_shard_state_kind_t kind) {
  weft_shard_state_part_t part = {};
  part.struct_size = sizeof(part);
  return weft_shard_state_part(param, kind, &part);
}

// What a context without optimizer can be set to.
weft_shard_state_scalars_t Scalars() {
  weft_shard_state_scalars_t scalars = {};
  scalars.struct_size = sizeof(scalars);
  scalars.loss_scale = 1;
  return scalars;
}

weft_result_t Get(weft_shard_context_t context) {
  weft_shard_state_scalars_t scalars = Scalars();
  return weft_shard_state_scalars_get(context, &scalars);
}

weft_result_t Set(weft_shard_context_t context) {
  const weft_shard_state_scalars_t scalars = Scalars();
  return weft_shard_state_scalars_set(context, &scalars);
}

weft_result_t Written(weft_shard_context_t context) {
  return weft_shard_state_written(context, WEFT_SHARD_STATE_ALL, nullptr);
}

void BeginAStep(Bench& bench) {
  EXPECT_EQ(StepBegin(bench.ready, WEFT_SHARD_TRAIN, 0), WEFT_SUCCESS);
}

// Of the calls that move elements.
void AddElementFaults(const char* function,
                      weft_result_t (*call)(weft_shard_param_t, weft_shard_state_kind_t, size_t,
                                            size_t, void*),
                      const char* memory_is_null, std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_param_t>(
      function, "param",
      [call](Bench&, weft_shard_param_t param) {
        float element = 0;
        return call(param, WEFT_SHARD_STATE_VALUE, 0, 1, &element);
      },
      calls);
  const auto add = [&](const char* fault, const char* needle, weft_result_t result,
                       weft_result_t (*bad)(Bench & b, decltype(call))) {
    calls->push_back({function, fault, result, needle, [bad, call](Bench& b) {
                        return bad(b, call);
                      }});
  };
  add("memory_NULL", memory_is_null, WEFT_INVALID_ARGUMENT, [](Bench& b, decltype(call) moves) {
    return moves(b.param, WEFT_SHARD_STATE_VALUE, 0, 1, nullptr);
  });
  add("kind_4", "weft_shard_state_kind_t", WEFT_INVALID_ARGUMENT,
      [](Bench& b, decltype(call) moves) {
        float element = 0;
        return moves(b.param, Unknown<weft_shard_state_kind_t>(4), 0, 1, &element);
      });
  add("too_many_elements", "this rank keeps", WEFT_INVALID_ARGUMENT,
      [](Bench& b, decltype(call) moves) {
        float element = 0;
        return moves(b.param, WEFT_SHARD_STATE_VALUE, 1, SIZE_MAX, &element);
      });
  add("a_state_that_there_is_not", "this rank keeps", WEFT_INVALID_ARGUMENT,
      [](Bench& b, decltype(call) moves) {
        float element = 0;
        return moves(b.param, WEFT_SHARD_STATE_MOMENT1, 0, 1, &element);
      });
  add("a_step_under_way", "between steps or after finish", WEFT_BAD_STATE,
      [](Bench& b, decltype(call) moves) {
        BeginAStep(b);
        float element = 0;
        return moves(b.param, WEFT_SHARD_STATE_VALUE, 0, 1, &element);
      });
}

void AddStatePartFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_param_t>(
      kPart, "param",
      [](Bench&, weft_shard_param_t param) { return PartOf(param, WEFT_SHARD_STATE_VALUE); },
      calls);
  calls->push_back({kPart, "part_NULL", WEFT_INVALID_ARGUMENT, "part is NULL", [](Bench& b) {
                      return weft_shard_state_part(b.param, WEFT_SHARD_STATE_VALUE, nullptr);
                    }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, size_t{56}, SIZE_MAX}) {
    calls->push_back({kPart, "struct_size_" + std::to_string(struct_size), WEFT_INVALID_ARGUMENT,
                      "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_state_part_t>(
                            struct_size, [&b](weft_shard_state_part_t* part) {
                              return weft_shard_state_part(b.param, WEFT_SHARD_STATE_VALUE, part);
                            });
                      }});
  }
  for (const int kind : {-1, 4}) {
    calls->push_back({kPart, "kind_" + std::string(kind < 0 ? "below_0" : "4"),
                      WEFT_INVALID_ARGUMENT, "weft_shard_state_kind_t", [kind](Bench& b) {
                        return PartOf(b.param, Unknown<weft_shard_state_kind_t>(kind));
                      }});
  }
  calls->push_back(
      {kPart, "a_context_not_finalized", WEFT_BAD_STATE, "is not finalized", [](Bench& b) {
         weft_shard_param_t param = nullptr;
         EXPECT_EQ(AddParam(b.open_unit, "x", nullptr, 0, WEFT_FLOAT32, 0, &param), WEFT_SUCCESS);
         return PartOf(param, WEFT_SHARD_STATE_VALUE);
       }});
  calls->push_back(
      {kPart, "a_step_under_way", WEFT_BAD_STATE, "between steps or after finish", [](Bench& b) {
         BeginAStep(b);
         return PartOf(b.param, WEFT_SHARD_STATE_VALUE);
       }});
}

// What is the same for all calls of the context.
void AddStateFaults(const char* function, weft_result_t (*call)(weft_shard_context_t),
                    std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      function, "context", [call](Bench&, weft_shard_context_t context) { return call(context); },
      calls);
  calls->push_back(
      {function, "a_context_not_finalized", WEFT_BAD_STATE, "is not finalized", [call](Bench& b) {
         return call(b.open);
       }});
  calls->push_back({function, "a_step_under_way", WEFT_BAD_STATE, "between steps or after finish",
                    [call](Bench& b) {
                      BeginAStep(b);
                      return call(b.ready);
                    }});
}

void AddScalarFaults(std::vector<BadCall>* calls) {
  calls->push_back({kGet, "scalars_NULL", WEFT_INVALID_ARGUMENT, "scalars is NULL", [](Bench& b) {
                      return weft_shard_state_scalars_get(b.ready, nullptr);
                    }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, size_t{56}, SIZE_MAX}) {
    calls->push_back({kGet, "struct_size_" + std::to_string(struct_size), WEFT_INVALID_ARGUMENT,
                      "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_state_scalars_t>(
                            struct_size, [&b](weft_shard_state_scalars_t* scalars) {
                              return weft_shard_state_scalars_get(b.ready, scalars);
                            });
                      }});
  }
  calls->push_back({kSet, "scalars_NULL", WEFT_INVALID_ARGUMENT, "scalars is NULL", [](Bench& b) {
                      return weft_shard_state_scalars_set(b.ready, nullptr);
                    }});
  AddConfigFaults<weft_shard_state_scalars_t>(
      kSet, calls, [](Bench& b, const weft_shard_state_scalars_t* scalars) {
        return weft_shard_state_scalars_set(b.ready, scalars);
      });
  const auto add = [calls](const char* fault, const char* needle,
                           void (*change)(weft_shard_state_scalars_t*)) {
    calls->push_back({kSet, fault, WEFT_INVALID_ARGUMENT, needle, [change](Bench& b) {
                        weft_shard_state_scalars_t scalars = Scalars();
                        change(&scalars);
                        return weft_shard_state_scalars_set(b.ready, &scalars);
                      }});
  };
  add("steps_below_0", "steps_begun is -1", [](auto* scalars) { scalars->steps_begun = -1; });
  add("training_steps_below_0", "train_steps_begun is -1",
      [](auto* scalars) { scalars->train_steps_begun = -1; });
  add("updates_below_0", "update_count is -1", [](auto* scalars) { scalars->update_count = -1; });
  add("updates_without_an_optimizer", "the context has no optimizer",
      [](auto* scalars) { scalars->update_count = 3; });
  add("a_loss_scale_of_0", "the context has no optimizer",
      [](auto* scalars) { scalars->loss_scale = 0; });
}

void AddWrittenFaults(std::vector<BadCall>* calls) {
  for (const uint32_t kinds : {0u, 16u, std::numeric_limits<uint32_t>::max()}) {
    calls->push_back({kWritten, "kinds_" + std::to_string(kinds), WEFT_INVALID_ARGUMENT,
                      "WEFT_SHARD_STATE_ALL", [kinds](Bench& b) {
                        return weft_shard_state_written(b.ready, kinds, nullptr);
                      }});
  }
}

}  // namespace

std::vector<BadCall> BadShardStateCalls() {
  std::vector<BadCall> calls;
  AddStatePartFaults(&calls);
  AddElementFaults("weft_shard_state_read", weft_shard_state_read, "to is NULL", &calls);
  AddElementFaults(
      "weft_shard_state_write",
      [](weft_shard_param_t param, weft_shard_state_kind_t kind, size_t begin, size_t count,
         void* from) { return weft_shard_state_write(param, kind, begin, count, from); },
      "from is NULL", &calls);
  AddStateFaults(kGet, Get, &calls);
  AddStateFaults(kSet, Set, &calls);
  AddStateFaults(kWritten, Written, &calls);
  AddScalarFaults(&calls);
  AddWrittenFaults(&calls);
  return calls;
}

}  // namespace weft::test
