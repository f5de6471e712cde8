// The calls of shard_param_groups.h with one wrong argument each.
#include <initializer_list>
#include <string>

#include "tests/bindings/bad_input.h"
#include "tests/bindings/bad_numbers.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

using Group = weft_shard_param_group_t;

void AddNumberFaults(const char* function,
                     const std::function<weft_result_t(Bench&, const Group*)>& call,
                     std::vector<BadCall>* calls) {
  const auto add = [&](const std::string& fault, const char* needle,
                       const std::function<void(Group&)>& spoil) {
    calls->push_back({function, fault, WEFT_INVALID_ARGUMENT, needle, [spoil, call](Bench& b) {
                        Group group = EmptyGroup();
                        spoil(group);
                        return call(b, &group);
                      }});
  };
  add("unknown_kind", "kind is 99", [](Group& g) { g.kind = Unknown<weft_optimizer_kind_t>(99); });
  add("kind_minus_1", "kind is -1", [](Group& g) { g.kind = Unknown<weft_optimizer_kind_t>(-1); });
  add("unknown_fields", "unknown bits", [](Group& g) { g.fields = 512; });
  add("beta1_1", "below 1", [](Group& g) { g.beta1 = 1; });
  add("momentum_2", "below 1", [](Group& g) { g.momentum = 2; });
  for (const auto& [name, number] : std::initializer_list<Numbered<Group>>{
           {"learning_rate_factor", &Group::learning_rate_factor},
           {"weight_decay_factor", &Group::weight_decay_factor},
           {"beta1", &Group::beta1},
           {"beta2", &Group::beta2},
           {"epsilon", &Group::epsilon},
           {"momentum", &Group::momentum},
           {"trust", &Group::trust}}) {
    for (const auto& [fault, value] : kBadNumbers) {
      add(std::string(name) + fault, name,
          [number = number, value = value](Group& g) { g.*number = value; });
    }
  }
  AddConfigFaults<Group>(function, calls, call);
}

void AddGroupFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_param_group_add", "context",
      [](Bench& b, weft_shard_context_t context) {
        return weft_shard_param_group_add(context, nullptr, &b.out.number);
      },
      calls);
  AddNumberFaults(
      "weft_shard_param_group_add",
      [](Bench& b, const Group* group) {
        return weft_shard_param_group_add(b.open, group, &b.out.number);
      },
      calls);
  calls->push_back({"weft_shard_param_group_add", "group_NULL", WEFT_INVALID_ARGUMENT,
                    "group is NULL", [](Bench& b) {
                      return weft_shard_param_group_add(b.open, nullptr, nullptr);
                    }});
  calls->push_back({"weft_shard_param_group_add", "a_finalized_context", WEFT_BAD_STATE,
                    "is not legal here", [](Bench& b) {
                      return weft_shard_param_group_add(b.ready, nullptr, &b.out.number);
                    }});
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_param_group_set", "context",
      [](Bench&, weft_shard_context_t context) {
        const Group group = EmptyGroup();
        return weft_shard_param_group_set(context, 0, &group);
      },
      calls);
  AddNumberFaults(
      "weft_shard_param_group_set",
      [](Bench& b, const Group* group) { return weft_shard_param_group_set(b.ready, 0, group); },
      calls);
  calls->push_back({"weft_shard_param_group_set", "numbers_NULL", WEFT_INVALID_ARGUMENT,
                    "numbers is NULL", [](Bench& b) {
                      return weft_shard_param_group_set(b.ready, 0, nullptr);
                    }});
  calls->push_back(
      {"weft_shard_param_group_set", "before_finalize", WEFT_BAD_STATE, "finalize", [](Bench& b) {
         const Group group = EmptyGroup();
         return weft_shard_param_group_set(b.open, 0, &group);
       }});
}

void AddGetFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_param_group_get", "context",
      [](Bench&, weft_shard_context_t context) {
        Group group = EmptyGroup();
        return weft_shard_param_group_get(context, 0, &group);
      },
      calls);
  calls->push_back({"weft_shard_param_group_get", "numbers_NULL", WEFT_INVALID_ARGUMENT,
                    "numbers is NULL", [](Bench& b) {
                      return weft_shard_param_group_get(b.ready, 0, nullptr);
                    }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{72}, SIZE_MAX}) {
    calls->push_back({"weft_shard_param_group_get", "struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<Group>(struct_size, [&b](Group* group) {
                          return weft_shard_param_group_get(b.ready, 0, group);
                        });
                      }});
  }
}

void AddAssignmentFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_param_set_group", "param",
      [](Bench&, weft_shard_param_t param) { return weft_shard_param_set_group(param, 0); }, calls);
  calls->push_back({"weft_shard_param_set_group", "a_finalized_context", WEFT_BAD_STATE,
                    "is not legal here", [](Bench& b) {
                      return weft_shard_param_set_group(b.param, 0);
                    }});
}

}  // namespace

std::vector<BadCall> BadParamGroupCalls() {
  std::vector<BadCall> calls;
  AddGroupFaults(&calls);
  AddGetFaults(&calls);
  AddAssignmentFaults(&calls);
  return calls;
}

}  // namespace weft::test
