// Calls of shard_plan.h, shard_units.h and shard_policy.h with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

void AddDryMeshFaults(std::vector<BadCall>* calls) {
  const auto add = [&](const char* fault, const char* needle, int count, const char* name,
                       std::vector<int> sizes, int rank) {
    calls->push_back({"weft_mesh_create_dry", fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& b) {
                        weft_mesh_config_t config = {};
                        config.struct_size = sizeof(config);
                        config.axis_count = count;
                        const char* const names[] = {name, "other", "third"};
                        for (size_t i = 0; i < sizes.size(); ++i) {
                          config.axis_names[i] = names[i];
                          config.axis_sizes[i] = sizes[i];
                        }
                        return weft_mesh_create_dry(&config, rank, &b.out.mesh);
                      }});
  };
  add("no_axes", "there is no axis", 0, "data", {}, 0);
  add("axis_count_minus_1", "axis_count is -1", -1, "data", {2}, 0);
  add("axis_count_7", "axis_count is 7; 0 to 6", 7, "data", {2}, 0);
  add("axis_name_NULL", "axis 0 is NULL", 1, nullptr, {2}, 0);
  add("axis_name_empty", "axis 0 has no name", 1, "", {2}, 0);
  add("axes_of_one_name", "two axes", 2, "other", {2, 2}, 0);
  add("axis_size_0", "size 0", 1, "data", {0}, 0);
  add("axis_size_minus_1", "size -1", 1, "data", {-1}, 0);
  add("axis_size_INT32_MAX", "size 2147483647", 1, "data", {INT32_MAX}, 0);
  add("sizes_that_wrap", "multiply to", 3, "data", {1 << 20, 1 << 20, 1 << 20}, 0);
  add("rank_minus_1", "rank is -1", 1, "data", {2}, -1);
  add("rank_4_of_4", "rank is 4, the mesh has 4", 2, "data", {2, 2}, 4);
  calls->push_back({"weft_mesh_create_dry", "config_NULL", WEFT_INVALID_ARGUMENT,
                    "there is no axis", [](Bench& b) {
                      return weft_mesh_create_dry(nullptr, 0, &b.out.mesh);
                    }});
  calls->push_back(
      {"weft_mesh_create_dry", "mesh_NULL", WEFT_INVALID_ARGUMENT, "mesh is NULL", [](Bench&) {
         const weft_mesh_config_t config = {sizeof(config), 1, {"data"}, {2}};
         return weft_mesh_create_dry(&config, 0, nullptr);
       }});
  AddConfigFaults<weft_mesh_config_t>("weft_mesh_create_dry", calls,
                                      [](Bench& b, const weft_mesh_config_t* config) {
                                        return weft_mesh_create_dry(config, 0, &b.out.mesh);
                                      });
}

void AddPlanFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_context_plan", "context",
      [](Bench&, weft_shard_context_t context) {
        return WithAnswer<weft_shard_plan_t>(
            sizeof(weft_shard_plan_t),
            [context](weft_shard_plan_t* plan) { return weft_shard_context_plan(context, plan); });
      },
      calls);
  calls->push_back(
      {"weft_shard_context_plan", "plan_NULL", WEFT_INVALID_ARGUMENT, "plan is NULL", [](Bench& b) {
         return weft_shard_context_plan(b.ready, nullptr);
       }});
  calls->push_back(
      {"weft_shard_context_plan", "an_open_unit", WEFT_BAD_STATE, "is open", [](Bench& b) {
         return WithAnswer<weft_shard_plan_t>(
             sizeof(weft_shard_plan_t),
             [&b](weft_shard_plan_t* plan) { return weft_shard_context_plan(b.open, plan); });
       }});
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    calls->push_back({"weft_shard_context_plan", "struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_plan_t>(
                            struct_size, [&b](weft_shard_plan_t* plan) {
                              return weft_shard_context_plan(b.ready, plan);
                            });
                      }});
  }
}

void AddIntervalFaults(std::vector<BadCall>* calls) {
  static size_t begin, count;
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_param_interval", "param",
      [](Bench&, weft_shard_param_t param) {
        return weft_shard_param_interval(param, 0, &begin, &count);
      },
      calls);
  for (const int rank : {-1, 1, INT32_MAX}) {
    calls->push_back({"weft_shard_param_interval",
                      rank < 0 ? "rank_minus_1" : "rank_" + std::to_string(rank),
                      WEFT_INVALID_ARGUMENT, "rank is " + std::to_string(rank), [rank](Bench& b) {
                        return weft_shard_param_interval(b.param, rank, &begin, &count);
                      }});
  }
  calls->push_back({"weft_shard_param_interval", "begin_NULL", WEFT_INVALID_ARGUMENT,
                    "begin is NULL", [](Bench& b) {
                      return weft_shard_param_interval(b.param, 0, nullptr, &count);
                    }});
  calls->push_back({"weft_shard_param_interval", "count_NULL", WEFT_INVALID_ARGUMENT,
                    "count is NULL", [](Bench& b) {
                      return weft_shard_param_interval(b.param, 0, &begin, nullptr);
                    }});
}

void AddRunFaults(std::vector<BadCall>* calls) {
  constexpr char kCall[] = "weft_shard_hint_runs";
  AddHandleFaults<weft_shard_context_t>(
      kCall, "context",
      [](Bench&, weft_shard_context_t context) {
        return weft_shard_hint_runs(context, nullptr, 0);
      },
      calls);
  AddHandleFaults<weft_shard_unit_t>(
      kCall, "unit",
      [](Bench& b, weft_shard_unit_t unit) {
        const weft_shard_run_t runs[] = {{b.open_unit, 0}, {unit, 0}};
        return weft_shard_hint_runs(b.open, runs, 2);
      },
      calls);
  calls->push_back({kCall, "runs_NULL", WEFT_INVALID_ARGUMENT, "runs is NULL", [](Bench& b) {
                      return weft_shard_hint_runs(b.open, nullptr, 1);
                    }});
  calls->push_back({kCall, "a_unit_of_another_context", WEFT_INVALID_ARGUMENT,
                    "runs[1].unit is of another context", [](Bench& b) {
                      const weft_shard_run_t runs[] = {{b.open_unit, 0}, {b.unit, 0}};
                      return weft_shard_hint_runs(b.open, runs, 2);
                    }});
  calls->push_back(
      {kCall, "backward_2", WEFT_INVALID_ARGUMENT, "runs[1].backward is 2", [](Bench& b) {
         const weft_shard_run_t runs[] = {{b.open_unit, 0}, {b.open_unit, 2}};
         return weft_shard_hint_runs(b.open, runs, 2);
       }});
  calls->push_back(
      {kCall, "backward_first", WEFT_INVALID_ARGUMENT, "has not run forward before", [](Bench& b) {
         const weft_shard_run_t runs[] = {{b.open_unit, 1}, {b.open_unit, 0}};
         return weft_shard_hint_runs(b.open, runs, 2);
       }});
  calls->push_back({kCall, "a_finalized_context", WEFT_BAD_STATE, "finalized", [](Bench& b) {
                      const weft_shard_run_t run = {b.unit, 0};
                      return weft_shard_hint_runs(b.ready, &run, 1);
                    }});
}

void AddHintFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_hint_order", "context",
      [](Bench&, weft_shard_context_t context) {
        return weft_shard_hint_order(context, nullptr, 0);
      },
      calls);
  AddHandleFaults<weft_shard_unit_t>(
      "weft_shard_hint_order", "unit",
      [](Bench& b, weft_shard_unit_t unit) {
        const weft_shard_unit_t units[] = {b.open_unit, unit};
        return weft_shard_hint_order(b.open, units, 2);
      },
      calls);
  calls->push_back(
      {"weft_shard_hint_order", "units_NULL", WEFT_INVALID_ARGUMENT, "units is NULL", [](Bench& b) {
         return weft_shard_hint_order(b.open, nullptr, 1);
       }});
  calls->push_back({"weft_shard_hint_order", "a_unit_of_another_context", WEFT_INVALID_ARGUMENT,
                    "units[1] is of another context", [](Bench& b) {
                      const weft_shard_unit_t units[] = {b.open_unit, b.unit};
                      return weft_shard_hint_order(b.open, units, 2);
                    }});
  AddRunFaults(calls);
  AddHandleFaults<weft_shard_unit_t>(
      "weft_shard_unit_within", "unit",
      [](Bench& b, weft_shard_unit_t unit) { return weft_shard_unit_within(unit, b.open_unit); },
      calls);
  calls->push_back({"weft_shard_unit_within", "outer_NULL", WEFT_INVALID_ARGUMENT, "outer is NULL",
                    [](Bench& b) {
                      return weft_shard_unit_within(b.open_unit, nullptr);
                    }});
  calls->push_back({"weft_shard_unit_within", "garbage_outer", WEFT_INVALID_ARGUMENT,
                    "not the handle of a unit", [](Bench& b) {
                      return weft_shard_unit_within(b.open_unit, b.Garbage<weft_shard_unit_t>());
                    }});
  calls->push_back({"weft_shard_unit_within", "a_unit_of_another_context", WEFT_INVALID_ARGUMENT,
                    "outer is of another context", [](Bench& b) {
                      return weft_shard_unit_within(b.open_unit, b.unit);
                    }});
  calls->push_back({"weft_shard_unit_within", "itself", WEFT_INVALID_ARGUMENT,
                    "was not added before", [](Bench& b) {
                      return weft_shard_unit_within(b.open_unit, b.open_unit);
                    }});
  calls->push_back(
      {"weft_shard_unit_within", "a_finalized_context", WEFT_BAD_STATE, "finalized", [](Bench& b) {
         return weft_shard_unit_within(b.unit, b.unit);
       }});
  calls->push_back(
      {"weft_shard_hint_order", "a_finalized_context", WEFT_BAD_STATE, "finalized", [](Bench& b) {
         return weft_shard_hint_order(b.ready, &b.unit, 1);
       }});
}

// A right call to spoil.
struct AddUnits {
  const int64_t shape[1] = {4};
  weft_shard_param_config_t params[2] = {
      {sizeof(weft_shard_param_config_t), "b.0.w", shape, 1, WEFT_FLOAT32, 0},
      {sizeof(weft_shard_param_config_t), "b.1.w", shape, 1, WEFT_FLOAT32, 0}};
  weft_shard_grouping_t grouping = {sizeof(weft_shard_grouping_t), "b.*", 0};
  weft_shard_policy_t policy = {};
  weft_shard_param_t handles[2] = {};
  weft_shard_unit_t units[2] = {};
  size_t unit_count = 2;

  weft_result_t Call(weft_shard_context_t context) {
    const weft_result_t result =
        weft_shard_add_units(context, params, 2, &grouping, &policy, handles, units, &unit_count);
    EXPECT_EQ(handles[0], nullptr) << "an output was written";
    EXPECT_EQ(units[0], nullptr) << "an output was written";
    return result;
  }
};

void AddUnitsFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_add_units", "context",
      [](Bench&, weft_shard_context_t context) { return AddUnits().Call(context); }, calls);
  const auto add = [&](const char* fault, weft_result_t expected, const char* needle,
                       const std::function<void(AddUnits&)>& spoil) {
    calls->push_back({"weft_shard_add_units", fault, expected, needle, [spoil, expected](Bench& b) {
                        EXPECT_EQ(weft_shard_unit_seal(b.open_unit), WEFT_SUCCESS);
                        AddUnits right;
                        spoil(right);
                        EXPECT_EQ(right.Call(b.open), expected);
                        weft_shard_plan_t plan = {};
                        plan.struct_size = sizeof(plan);
                        EXPECT_EQ(weft_shard_context_plan(b.open, &plan), WEFT_SUCCESS);
                        EXPECT_EQ(plan.unit_count, 1u) << "something was declared";
                        AddUnits again;  // for the sentence
                        spoil(again);
                        return again.Call(b.open);
                      }});
  };
  constexpr weft_result_t kInvalid = WEFT_INVALID_ARGUMENT;
  add("name_NULL", kInvalid, "name is NULL", [](AddUnits& c) { c.params[1].name = nullptr; });
  add("name_empty", kInvalid, "empty", [](AddUnits& c) {
    c.grouping = {sizeof(c.grouping), nullptr, 1};
    c.params[1].name = "";
  });
  add("name_used_twice", kInvalid, "b.0.w already",
      [](AddUnits& c) { c.params[1].name = "b.0.w"; });
  add("a_used_unit_name", kInvalid, "unit open already", [](AddUnits& c) {
    c.params[1].name = "open";
    c.grouping.by_prefix = "open";
  });
  add("shape_NULL", kInvalid, "shape of b.1.w is NULL",
      [](AddUnits& c) { c.params[1].shape = nullptr; });
  add("ndim_minus_1", kInvalid, "-1 dimensions", [](AddUnits& c) { c.params[1].ndim = -1; });
  add("ndim_INT32_MAX", kInvalid, "2147483647 dimensions",
      [](AddUnits& c) { c.params[1].ndim = INT32_MAX; });
  add("dimension_negative", kInvalid, "dimension 0 = -2", [](AddUnits& c) {
    static constexpr int64_t kNegative[] = {-2};
    c.params[1].shape = kNegative;
  });
  add("dimension_INT64_MAX", kInvalid, "check its shape", [](AddUnits& c) {
    static constexpr int64_t kHuge[] = {INT64_MAX};
    c.params[1].shape = kHuge;
  });
  add("dtype_99", kInvalid, "number 99",
      [](AddUnits& c) { c.params[1].dtype = Unknown<weft_dtype_t>(99); });
  add("unknown_flags", kInvalid, "flags of b.1.w are 16",
      [](AddUnits& c) { c.params[1].flags = 16; });
  add("unknown_preset", kInvalid, "preset is 8", [](AddUnits& c) {
    c.policy.struct_size = sizeof(c.policy);
    c.policy.preset = Unknown<weft_shard_preset_t>(8);
  });
  add("no_grouping", kInvalid, "neither by_prefix nor min_bytes",
      [](AddUnits& c) { c.grouping = {}; });
  add("a_prefix_of_nothing", kInvalid, "\"layers.*\"",
      [](AddUnits& c) { c.grouping.by_prefix = "layers.*"; });
  add("a_malformed_prefix", kInvalid, "empty component",
      [](AddUnits& c) { c.grouping.by_prefix = "b..w"; });
  add("no_room_for_units", kInvalid, "room for 1 units, the parameters make 2",
      [](AddUnits& c) { c.unit_count = 1; });
}

void AddUnitsNullFaults(std::vector<BadCall>* calls) {
  const auto add = [&](const char* fault, const char* needle, size_t n, int which) {
    calls->push_back(
        {"weft_shard_add_units", fault, WEFT_INVALID_ARGUMENT, needle, [n, which](Bench& b) {
           AddUnits c;
           return weft_shard_add_units(b.open, which == 0 ? nullptr : c.params, n, &c.grouping,
                                       nullptr, which == 1 ? nullptr : c.handles,
                                       which == 2 ? nullptr : c.units,
                                       which == 3 ? nullptr : &c.unit_count);
         }});
  };
  add("params_NULL", "params is NULL", 2, 0);
  add("handles_NULL", "handles is NULL", 2, 1);
  add("units_NULL", "units is NULL", 2, 2);
  add("unit_count_NULL", "unit_count is NULL", 2, 3);
  add("n_0", "n is 0", 0, 4);
  calls->push_back(
      {"weft_shard_add_units", "an_open_unit", WEFT_BAD_STATE, "is open", [](Bench& b) {
         return AddUnits().Call(b.open);
       }});
  calls->push_back(
      {"weft_shard_add_units", "a_finalized_context", WEFT_BAD_STATE, "finalized", [](Bench& b) {
         return AddUnits().Call(b.ready);
       }});
  calls->push_back({"weft_shard_add_units", "params_of_two_sizes", WEFT_INVALID_ARGUMENT,
                    "params[1].struct_size is 32, that of params[0] is 40", [](Bench& b) {
                      AddUnits c;
                      c.params[1].struct_size = 32;
                      return c.Call(b.open);
                    }});
  AddConfigFaults<weft_shard_grouping_t>(
      "weft_shard_add_units", calls, [](Bench& b, const weft_shard_grouping_t* grouping) {
        AddUnits c;
        return weft_shard_add_units(b.open, c.params, 2, grouping, nullptr, c.handles, c.units,
                                    &c.unit_count);
      });
}

void AddPresetNameFaults(std::vector<BadCall>* calls) {
  const auto add = [&](const char* fault, const char* needle, const char* name, bool out) {
    calls->push_back(
        {"weft_shard_preset_by_name", fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench&) {
           weft_shard_preset_t preset = WEFT_SHARD_HPZ;
           const weft_result_t result = weft_shard_preset_by_name(name, out ? &preset : nullptr);
           EXPECT_EQ(preset, WEFT_SHARD_HPZ) << "written to on failure";
           return result;
         }});
  };
  add("name_NULL", "name is NULL", nullptr, true);
  add("preset_NULL", "preset is NULL", "ddp", false);
  add("name_empty", "use ddp, zero1", "", true);
  add("name_of_no_preset", "no strategy \"zero4\"", "zero4", true);
}

}  // namespace

std::vector<BadCall> BadShardPlanCalls() {
  std::vector<BadCall> calls;
  AddPresetNameFaults(&calls);
  AddDryMeshFaults(&calls);
  AddPlanFaults(&calls);
  AddIntervalFaults(&calls);
  AddHintFaults(&calls);
  AddUnitsFaults(&calls);
  AddUnitsNullFaults(&calls);
  return calls;
}

}  // namespace weft::test
