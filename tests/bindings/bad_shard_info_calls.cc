// The calls of shard_info.h with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

void AddInfoFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_param_info", "param",
      [](Bench&, weft_shard_param_t param) {
        weft_shard_param_info_t info = {};
        info.struct_size = sizeof(info);
        return weft_shard_param_info(param, &info);
      },
      calls);
  AddHandleFaults<weft_shard_unit_t>(
      "weft_shard_unit_info", "unit",
      [](Bench&, weft_shard_unit_t unit) {
        weft_shard_unit_info_t info = {};
        info.struct_size = sizeof(info);
        return weft_shard_unit_info(unit, &info);
      },
      calls);
  calls->push_back(
      {"weft_shard_param_info", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL", [](Bench& b) {
         return weft_shard_param_info(b.param, nullptr);
       }});
  calls->push_back(
      {"weft_shard_unit_info", "info_NULL", WEFT_INVALID_ARGUMENT, "info is NULL", [](Bench& b) {
         return weft_shard_unit_info(b.unit, nullptr);
       }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, size_t{72}, SIZE_MAX}) {
    const std::string fault = "struct_size_" + std::to_string(struct_size);
    calls->push_back({"weft_shard_param_info", fault, WEFT_INVALID_ARGUMENT, "struct_size",
                      [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_param_info_t>(
                            struct_size, [&b](weft_shard_param_info_t* info) {
                              return weft_shard_param_info(b.param, info);
                            });
                      }});
    calls->push_back({"weft_shard_unit_info", fault, WEFT_INVALID_ARGUMENT, "struct_size",
                      [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_unit_info_t>(
                            struct_size, [&b](weft_shard_unit_info_t* info) {
                              return weft_shard_unit_info(b.unit, info);
                            });
                      }});
  }
}

void AddIndexFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_context_unit_count", "context",
      [](Bench&, weft_shard_context_t context) {
        size_t count = 0;
        return weft_shard_context_unit_count(context, &count);
      },
      calls);
  calls->push_back({"weft_shard_context_unit_count", "count_NULL", WEFT_INVALID_ARGUMENT,
                    "count is NULL", [](Bench& b) {
                      return weft_shard_context_unit_count(b.ready, nullptr);
                    }});
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_context_unit_at", "context",
      [](Bench& b, weft_shard_context_t context) {
        return weft_shard_context_unit_at(context, 0, &b.out.unit);
      },
      calls);
  AddHandleFaults<weft_shard_unit_t>(
      "weft_shard_unit_param_at", "unit",
      [](Bench& b, weft_shard_unit_t unit) {
        return weft_shard_unit_param_at(unit, 0, &b.out.param);
      },
      calls);
  calls->push_back({"weft_shard_context_unit_at", "unit_NULL", WEFT_INVALID_ARGUMENT,
                    "unit is NULL", [](Bench& b) {
                      return weft_shard_context_unit_at(b.ready, 0, nullptr);
                    }});
  calls->push_back({"weft_shard_unit_param_at", "param_NULL", WEFT_INVALID_ARGUMENT,
                    "param is NULL", [](Bench& b) {
                      return weft_shard_unit_param_at(b.unit, 0, nullptr);
                    }});
  for (const size_t index : {size_t{1}, SIZE_MAX}) {
    const std::string fault = "index_" + std::to_string(index);
    calls->push_back({"weft_shard_context_unit_at", fault, WEFT_INVALID_ARGUMENT,
                      "the number of units is 1", [index](Bench& b) {
                        return weft_shard_context_unit_at(b.ready, index, &b.out.unit);
                      }});
    calls->push_back({"weft_shard_unit_param_at", fault, WEFT_INVALID_ARGUMENT,
                      "number of params is 1", [index](Bench& b) {
                        return weft_shard_unit_param_at(b.unit, index, &b.out.param);
                      }});
  }
  calls->push_back({"weft_shard_unit_param_at", "a_unit_without_params", WEFT_INVALID_ARGUMENT,
                    "number of params is 0", [](Bench& b) {
                      return weft_shard_unit_param_at(b.open_unit, 0, &b.out.param);
                    }});
}

void AddNameFaults(std::vector<BadCall>* calls) {
  constexpr char kUnit[] = "weft_shard_context_unit_by_name";
  constexpr char kParam[] = "weft_shard_context_param_by_name";
  AddHandleFaults<weft_shard_context_t>(
      kUnit, "context",
      [](Bench& b, weft_shard_context_t context) {
        return weft_shard_context_unit_by_name(context, "block", &b.out.unit);
      },
      calls);
  AddHandleFaults<weft_shard_context_t>(
      kParam, "context",
      [](Bench& b, weft_shard_context_t context) {
        return weft_shard_context_param_by_name(context, "weight", &b.out.param);
      },
      calls);
  const auto add = [&](const char* fault, const char* name, const char* unit_needle,
                       const char* param_needle) {
    calls->push_back({kUnit, fault, WEFT_INVALID_ARGUMENT, unit_needle, [=](Bench& b) {
                        return weft_shard_context_unit_by_name(b.ready, name, &b.out.unit);
                      }});
    calls->push_back({kParam, fault, WEFT_INVALID_ARGUMENT, param_needle, [=](Bench& b) {
                        return weft_shard_context_param_by_name(b.ready, name, &b.out.param);
                      }});
  };
  add("name_NULL", nullptr, "name is NULL", "name is NULL");
  add("name_empty", "", "no unit is named \"\"", "no param is named \"\"");
  add("a_name_that_nothing_has", "blocks", "\"block\" is the nearest", "\"weight\" is the nearest");
  calls->push_back({kUnit, "unit_NULL", WEFT_INVALID_ARGUMENT, "unit is NULL", [](Bench& b) {
                      return weft_shard_context_unit_by_name(b.ready, "block", nullptr);
                    }});
  calls->push_back({kParam, "param_NULL", WEFT_INVALID_ARGUMENT, "param is NULL", [](Bench& b) {
                      return weft_shard_context_param_by_name(b.ready, "weight", nullptr);
                    }});
  calls->push_back({kParam, "no_param_declared", WEFT_INVALID_ARGUMENT,
                    "none has been declared yet", [](Bench& b) {
                      return weft_shard_context_param_by_name(b.open, "weight", &b.out.param);
                    }});
}

}  // namespace

std::vector<BadCall> BadShardInfoCalls() {
  std::vector<BadCall> calls;
  AddInfoFaults(&calls);
  AddIndexFaults(&calls);
  AddNameFaults(&calls);
  return calls;
}

}  // namespace weft::test
