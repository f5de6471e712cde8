// Calls of mesh.h and shard.h with one wrong argument each. Which orders of right calls are refused
// is tested with the shard managers themselves.
#include "tests/bindings/bad_input.h"
#include "tests/bindings/shard_calls.h"

namespace weft::test {
namespace {

void AddMeshFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_mesh_t>(
      "weft_mesh_destroy", "mesh", [](Bench&, weft_mesh_t mesh) { return weft_mesh_destroy(mesh); },
      calls);
  calls->push_back({"weft_mesh_destroy", "contexts_that_use_it", WEFT_INVALID_USAGE,
                    "2 shard contexts", [](Bench& b) {
                      return weft_mesh_destroy(b.mesh);
                    }});
  calls->push_back(
      {"weft_mesh_create", "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL", [](Bench& b) {
         return weft_mesh_create(nullptr, nullptr, &b.out.mesh);
       }});
  calls->push_back(
      {"weft_mesh_create", "garbage_group", WEFT_INVALID_ARGUMENT, "not a group", [](Bench& b) {
         return weft_mesh_create(b.Garbage<weft_group_t>(), nullptr, &b.out.mesh);
       }});
  calls->push_back(
      {"weft_mesh_create", "mesh_NULL", WEFT_INVALID_ARGUMENT, "mesh is NULL", [](Bench& b) {
         return weft_mesh_create(b.solo, nullptr, nullptr);
       }});
  const auto add = [&](const char* fault, weft_result_t expected, const char* needle, int count,
                       const char* name, int size) {
    calls->push_back({"weft_mesh_create", fault, expected, needle, [=](Bench& b) {
                        weft_mesh_config_t config = {};
                        config.struct_size = sizeof(config);
                        config.axis_count = count;
                        config.axis_names[0] = name;
                        config.axis_names[1] = "other";
                        config.axis_sizes[0] = size;
                        config.axis_sizes[1] = 1;
                        return weft_mesh_create(b.solo, &config, &b.out.mesh);
                      }});
  };
  add("axis_count_minus_1", WEFT_INVALID_ARGUMENT, "axis_count is -1", -1, "data", 1);
  add("axis_count_7", WEFT_INVALID_ARGUMENT, "axis_count is 7; 0 to 6", 7, "data", 1);
  add("axis_name_NULL", WEFT_INVALID_ARGUMENT, "axis 0 is NULL", 1, nullptr, 1);
  add("axis_name_empty", WEFT_INVALID_ARGUMENT, "axis 0 has no name", 1, "", 1);
  add("axis_size_0", WEFT_INVALID_ARGUMENT, "size 0", 1, "data", 0);
  add("axis_size_minus_1", WEFT_INVALID_ARGUMENT, "size -1", 1, "data", -1);
  add("axis_size_INT32_MAX", WEFT_INVALID_ARGUMENT, "size 2147483647", 1, "data", INT32_MAX);
  add("axes_of_one_name", WEFT_INVALID_ARGUMENT, "two axes", 2, "other", 1);
  for (const int axis : {-1, 1, INT32_MAX}) {
    calls->push_back({"weft_mesh_axis_group",
                      axis < 0 ? "axis_minus_1" : "axis_" + std::to_string(axis),
                      WEFT_INVALID_ARGUMENT, "axis is " + std::to_string(axis), [axis](Bench& b) {
                        weft_group_t group = nullptr;
                        return weft_mesh_axis_group(b.mesh, axis, &group);
                      }});
  }
  calls->push_back(
      {"weft_mesh_axis_group", "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL", [](Bench& b) {
         return weft_mesh_axis_group(b.mesh, 0, nullptr);
       }});
  AddHandleFaults<weft_mesh_t>(
      "weft_mesh_axis_group", "mesh",
      [](Bench&, weft_mesh_t mesh) {
        weft_group_t group = nullptr;
        return weft_mesh_axis_group(mesh, 0, &group);
      },
      calls);
  const auto add_names = [&](const char* fault, const char* needle, std::vector<const char*> names,
                             int n) {
    calls->push_back({"weft_mesh_group", fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& b) {
                        return weft_mesh_group(b.mesh, names.data(), n, &b.out.group);
                      }});
  };
  add_names("n_0", "n is 0, the mesh has 1 axis", {"data"}, 0);
  add_names("n_minus_1", "n is -1", {"data"}, -1);
  add_names("n_2", "n is 2, the mesh has 1 axis", {"data", "data"}, 2);
  add_names("n_INT32_MAX", "n is 2147483647", {"data"}, INT32_MAX);
  add_names("axes_NULL", "axes is NULL", {}, 1);
  add_names("name_NULL", "axes[0] is NULL", {nullptr}, 1);
  add_names("name_empty", "no axis \"\"; its axes are data", {""}, 1);
  add_names("name_unknown", "no axis \"tp\"; its axes are data", {"tp"}, 1);
  calls->push_back(
      {"weft_mesh_group", "group_NULL", WEFT_INVALID_ARGUMENT, "group is NULL", [](Bench& b) {
         const char* const name = "data";
         return weft_mesh_group(b.mesh, &name, 1, nullptr);
       }});
  AddHandleFaults<weft_mesh_t>(
      "weft_mesh_group", "mesh",
      [](Bench& b, weft_mesh_t mesh) {
        const char* const name = "data";
        return weft_mesh_group(mesh, &name, 1, &b.out.group);
      },
      calls);
  AddConfigFaults<weft_mesh_config_t>("weft_mesh_create", calls,
                                      [](Bench& b, const weft_mesh_config_t* config) {
                                        return weft_mesh_create(b.solo, config, &b.out.mesh);
                                      });
}

void AddContextFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_mesh_t>(
      "weft_shard_context_create", "mesh",
      [](Bench& b, weft_mesh_t mesh) {
        return weft_shard_context_create(mesh, nullptr, &b.out.context);
      },
      calls);
  calls->push_back({"weft_shard_context_create", "context_NULL", WEFT_INVALID_ARGUMENT,
                    "context is NULL", [](Bench& b) {
                      return weft_shard_context_create(b.mesh, nullptr, nullptr);
                    }});
  const auto add = [&](const char* fault, const char* needle, int accumulation, int64_t timeout) {
    calls->push_back(
        {"weft_shard_context_create", fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& b) {
           weft_shard_config_t config = {};
           config.struct_size = sizeof(config);
           config.accumulation = Unknown<weft_shard_accumulation_t>(accumulation);
           config.timeout_ns = timeout;
           return weft_shard_context_create(b.mesh, &config, &b.out.context);
         }});
  };
  const auto add_config = [&](const char* fault, const char* needle, int prefetch,
                              int microbatches) {
    calls->push_back(
        {"weft_shard_context_create", fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& b) {
           weft_shard_config_t config = {};
           config.struct_size = sizeof(config);
           config.prefetch = prefetch;
           config.microbatches = microbatches;
           return weft_shard_context_create(b.mesh, &config, &b.out.context);
         }});
  };
  const auto add_allocator = [&](const char* fault, const char* needle, size_t struct_size,
                                 bool allocates, bool releases) {
    calls->push_back(
        {"weft_shard_context_create", fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& b) {
           weft_shard_allocator_t allocator = {};
           allocator.struct_size = struct_size;
           if (allocates) {
             allocator.allocate = [](size_t, size_t, weft_shard_tier_t, void*) -> void* {
               return nullptr;
             };
           }
           if (releases)
             allocator.release = [](void*, size_t, weft_shard_tier_t, void*) {
             };
           weft_shard_config_t config = {};
           config.struct_size = sizeof(config);
           config.allocator = &allocator;
           return weft_shard_context_create(b.mesh, &config, &b.out.context);
         }});
  };
  constexpr size_t kWhole = sizeof(weft_shard_allocator_t);
  add_allocator("allocate_NULL", "allocate of the allocator is NULL", kWhole, false, true);
  add_allocator("release_NULL", "release of the allocator is NULL", kWhole, true, false);
  add_allocator("allocator_all_zero", "allocate of the allocator is NULL", 0, false, false);
  add_allocator("allocator_struct_size_0", "struct_size", 0, true, true);
  add_allocator("allocator_struct_size_1", "struct_size", 1, true, true);
  for (const char* const directory : {static_cast<const char*>(nullptr), ""}) {
    calls->push_back(
        {"weft_shard_context_create",
         directory == nullptr ? "offload_directory_NULL" : "offload_directory_empty",
         WEFT_INVALID_ARGUMENT, "directory of offload is NULL or empty", [directory](Bench& b) {
           const weft_shard_offload_t offload = {
               .struct_size = sizeof(offload), .directory = directory, .buffer_bytes = 0};
           weft_shard_config_t config = {};
           config.struct_size = sizeof(config);
           config.offload = &offload;
           return weft_shard_context_create(b.mesh, &config, &b.out.context);
         }});
  }
  calls->push_back({"weft_shard_context_create", "offload_buffer_bytes_1", WEFT_INVALID_ARGUMENT,
                    "buffer_bytes of offload is 1", [](Bench& b) {
                      const weft_shard_offload_t offload = {
                          .struct_size = sizeof(offload), .directory = "/tmp", .buffer_bytes = 1};
                      weft_shard_config_t config = {};
                      config.struct_size = sizeof(config);
                      config.offload = &offload;
                      return weft_shard_context_create(b.mesh, &config, &b.out.context);
                    }});
  calls->push_back({"weft_shard_context_create", "offload_params_2", WEFT_INVALID_ARGUMENT,
                    "params of offload is 2", [](Bench& b) {
                      weft_shard_offload_t offload = {};
                      offload.struct_size = sizeof(offload);
                      offload.directory = "/tmp";
                      offload.params = 2;
                      weft_shard_config_t config = {};
                      config.struct_size = sizeof(config);
                      config.offload = &offload;
                      return weft_shard_context_create(b.mesh, &config, &b.out.context);
                    }});
  calls->push_back({"weft_shard_context_create", "offload_struct_size_0", WEFT_INVALID_ARGUMENT,
                    "struct_size", [](Bench& b) {
                      const weft_shard_offload_t offload = {
                          .struct_size = 0, .directory = "/tmp", .buffer_bytes = 0};
                      weft_shard_config_t config = {};
                      config.struct_size = sizeof(config);
                      config.offload = &offload;
                      return weft_shard_context_create(b.mesh, &config, &b.out.context);
                    }});
  add_config("prefetch_minus_1", "prefetch is -1", -1, 0);
  add_config("microbatches_minus_1", "microbatches is -1", 0, -1);
  add_config("microbatches_4097", "up to 4096", 0, 4097);
  for (const int views : {3, -1}) {
    calls->push_back({"weft_shard_context_create", views < 0 ? "views_minus_1" : "views_3",
                      WEFT_INVALID_ARGUMENT, "stable_views is " + std::to_string(views),
                      [views](Bench& b) {
                        weft_shard_config_t config = {};
                        config.struct_size = sizeof(config);
                        config.stable_views = Unknown<weft_shard_views_t>(views);
                        return weft_shard_context_create(b.mesh, &config, &b.out.context);
                      }});
  }
  add("unknown_accumulation", "accumulation is 3", 3, 0);
  add("timeout_negative", "timeout_ns is -1", 0, -1);
  AddConfigFaults<weft_shard_config_t>(
      "weft_shard_context_create", calls, [](Bench& b, const weft_shard_config_t* config) {
        return weft_shard_context_create(b.mesh, config, &b.out.context);
      });
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    calls->push_back({"weft_shard_context_finalize", "struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_plan_t>(
                            struct_size, [&b](weft_shard_plan_t* plan) {
                              return weft_shard_context_finalize(b.open, plan);
                            });
                      }});
  }
  for (const int root : {1, 65, INT32_MAX}) {
    calls->push_back({"weft_shard_context_broadcast", "root_" + std::to_string(root),
                      WEFT_INVALID_ARGUMENT, "root is " + std::to_string(root), [root](Bench& b) {
                        return weft_shard_context_broadcast(b.ready, root);
                      }});
  }
  calls->push_back({"weft_shard_context_broadcast", "root_minus_1", WEFT_INVALID_ARGUMENT,
                    "root is -1", [](Bench& b) {
                      return weft_shard_context_broadcast(b.ready, -1);
                    }});
}

void AddUnitFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_context_t>(
      "weft_shard_unit_begin", "context",
      [](Bench& b, weft_shard_context_t context) {
        return weft_shard_unit_begin(context, "unit", nullptr, &b.out.unit);
      },
      calls);
  const auto add = [&](const char* fault, const char* needle,
                       const std::function<weft_result_t(Bench&)>& call) {
    calls->push_back({"weft_shard_unit_begin", fault, WEFT_INVALID_ARGUMENT, needle, call});
  };
  add("name_NULL", "name is NULL",
      [](Bench& b) { return weft_shard_unit_begin(b.open, nullptr, nullptr, &b.out.unit); });
  add("name_empty", "is empty",
      [](Bench& b) { return weft_shard_unit_begin(b.open, "", nullptr, &b.out.unit); });
  add("name_used_twice", "unit open already", [](Bench& b) {
    EXPECT_EQ(weft_shard_unit_seal(b.open_unit), WEFT_SUCCESS);
    return weft_shard_unit_begin(b.open, "open", nullptr, &b.out.unit);
  });
  add("unit_NULL", "unit is NULL",
      [](Bench& b) { return weft_shard_unit_begin(b.open, "unit", nullptr, nullptr); });
  const auto add_policy = [&](const char* fault, const char* needle, int preset, int cut,
                              int64_t rows) {
    add(fault, needle, [=](Bench& b) {
      weft_shard_policy_t policy = {};
      policy.struct_size = sizeof(policy);
      policy.preset = Unknown<weft_shard_preset_t>(preset);
      policy.cut = Unknown<weft_shard_cut_t>(cut);
      policy.cut_rows = rows;
      return weft_shard_unit_begin(b.open, "unit", &policy, &b.out.unit);
    });
  };
  add_policy("unknown_preset", "preset is 8", 8, 0, 0);
  add_policy("preset_minus_1", "preset is -1", -1, 0, 0);
  add_policy("unknown_cut", "cut is 3", 1, 3, 0);
  add_policy("cut_minus_1", "cut is -1", 1, -1, 0);
  add_policy("cut_rows_negative", "cut_rows is -5", 1, 1, -5);
  const auto add_places = [&](const char* fault, const char* needle, int wire, int params,
                              int between, int gradients, int optimizer) {
    add(fault, needle, [=](Bench& b) {
      weft_shard_policy_t policy = {};
      policy.struct_size = sizeof(policy);
      policy.preset = WEFT_SHARD_FULL_SHARD;
      policy.wire = Unknown<weft_shard_wire_t>(wire);
      policy.params = Unknown<weft_shard_place_t>(params);
      policy.between = Unknown<weft_shard_place_t>(between);
      policy.gradients = Unknown<weft_shard_place_t>(gradients);
      policy.optimizer = Unknown<weft_shard_place_t>(optimizer);
      return weft_shard_unit_begin(b.open, "unit", &policy, &b.out.unit);
    });
  };
  add_places("unknown_wire", "wire is 3", 3, 0, 0, 0, 0);
  add_places("wire_minus_1", "wire is -1", -1, 0, 0, 0, 0);
  add_places("unknown_place", "place is 4", 0, 0, 4, 0, 0);
  add_places("place_minus_1", "place is -1", 0, 0, 0, -1, 0);
  add_places("gradients_cut_optimizer_whole", "gradients are to be SHARDED and the optimizer WHOLE",
             0, 0, 0, 0, 1);
  add_places("params_cut_gradients_whole", "params are to be SHARDED and gradients WHOLE", 0, 0, 0,
             1, 0);
  AddConfigFaults<weft_shard_policy_t>(
      "weft_shard_unit_begin", calls, [](Bench& b, const weft_shard_policy_t* policy) {
        return weft_shard_unit_begin(b.open, "unit", policy, &b.out.unit);
      });
}

// A param of the unit that is open, and a call that ties it or another one to a unit.
void AddTieFaults(std::vector<BadCall>* calls) {
  constexpr char kCall[] = "weft_shard_unit_tie_param";
  AddHandleFaults<weft_shard_unit_t>(
      kCall, "unit",
      [](Bench& b, weft_shard_unit_t unit) {
        return weft_shard_unit_tie_param(unit, "t", b.param, &b.out.param);
      },
      calls);
  AddHandleFaults<weft_shard_param_t>(
      kCall, "param",
      [](Bench& b, weft_shard_param_t param) {
        return weft_shard_unit_tie_param(b.open_unit, "t", param, &b.out.param);
      },
      calls);
  const auto add = [&](const char* fault, const char* needle, const char* name, bool own,
                       bool has_out) {
    calls->push_back({kCall, fault, WEFT_INVALID_ARGUMENT, needle, [=](Bench& b) {
                        weft_shard_param_t param = b.param;
                        if (own) {
                          EXPECT_EQ(AddParam(b.open_unit, "w", nullptr, 0, WEFT_FLOAT32, 0, &param),
                                    WEFT_SUCCESS);
                        }
                        return weft_shard_unit_tie_param(b.open_unit, name, param,
                                                         has_out ? &b.out.param : nullptr);
                      }});
  };
  add("name_NULL", "name is NULL", nullptr, true, true);
  add("name_empty", "is empty", "", true, true);
  add("tied_NULL", "tied is NULL", "t", true, false);
  add("a_param_of_the_unit", "one of this unit", "t", true, true);
  add("a_param_of_another_context", "another context", "t", false, true);
}

void AddParamFaults(std::vector<BadCall>* calls) {
  AddHandleFaults<weft_shard_unit_t>(
      "weft_shard_unit_add_param", "unit",
      [](Bench& b, weft_shard_unit_t unit) {
        return AddParam(unit, "w", nullptr, 0, WEFT_FLOAT32, 0, &b.out.param);
      },
      calls);
  calls->push_back({"weft_shard_unit_add_param", "config_NULL", WEFT_INVALID_ARGUMENT,
                    "config is NULL", [](Bench& b) {
                      return weft_shard_unit_add_param(b.open_unit, nullptr, &b.out.param);
                    }});
  AddConfigFaults<weft_shard_param_config_t>(
      "weft_shard_unit_add_param", calls, [](Bench& b, const weft_shard_param_config_t* config) {
        return weft_shard_unit_add_param(b.open_unit, config, &b.out.param);
      });
  calls->push_back({"weft_shard_unit_add_param", "param_NULL", WEFT_INVALID_ARGUMENT,
                    "param is NULL", [](Bench& b) {
                      return AddParam(b.open_unit, "w", nullptr, 0, WEFT_FLOAT32, 0, nullptr);
                    }});

  struct Fault {
    const char* fault;
    const char* needle;
    const char* name;
    std::vector<int64_t> shape;
    int ndim;
    int dtype;
    uint32_t flags;
  };

  const int f32 = WEFT_FLOAT32;
  const Fault faults[] = {
      {"name_NULL", "name is NULL", nullptr, {4}, 1, f32, 0},
      {"name_empty", "is empty", "", {4}, 1, f32, 0},
      {"shape_NULL", "shape of w is NULL", "w", {}, 1, f32, 0},
      {"ndim_minus_1", "-1 dimensions", "w", {4}, -1, f32, 0},
      {"ndim_33", "33 dimensions", "w", {4}, 33, f32, 0},
      {"ndim_INT32_MAX", "2147483647 dimensions", "w", {4}, INT32_MAX, f32, 0},
      {"dimension_negative", "dimension 1 = -3", "w", {4, -3}, 2, f32, 0},
      {"dimension_INT64_MIN", "dimension 0", "w", {INT64_MIN}, 1, f32, 0},
      {"dimension_INT64_MAX", "check its shape", "w", {INT64_MAX}, 1, f32, 0},
      {"dimensions_that_wrap", "check its shape", "w", {1LL << 32, 1LL << 32, 4}, 3, f32, 0},
      {"dtype_99", "number 99", "w", {4}, 1, 99, 0},
      {"dtype_minus_1", "number -1", "w", {4}, 1, -1, 0},
      {"dtype_int32", "int32", "w", {4}, 1, WEFT_INT32, 0},
      {"frozen_dtype_99", "number 99", "w", {4}, 1, 99, WEFT_SHARD_PARAM_FROZEN},
      {"unknown_flags", "flags of w are 66", "w", {4}, 1, f32, 66},
      {"every_flag", "flags of w are 4294967295", "w", {4}, 1, f32, UINT32_MAX},
  };
  for (const Fault& f : faults) {
    calls->push_back(
        {"weft_shard_unit_add_param", f.fault, WEFT_INVALID_ARGUMENT, f.needle, [f](Bench& b) {
           return AddParam(b.open_unit, f.name, f.shape.empty() ? nullptr : f.shape.data(), f.ndim,
                           Unknown<weft_dtype_t>(f.dtype), f.flags, &b.out.param);
         }});
  }
  calls->push_back({"weft_shard_unit_add_param", "name_used_twice", WEFT_INVALID_ARGUMENT,
                    "parameter w already", [](Bench& b) {
                      weft_shard_param_t first = nullptr;
                      EXPECT_EQ(AddParam(b.open_unit, "w", nullptr, 0, WEFT_FLOAT32, 0, &first),
                                WEFT_SUCCESS);
                      return AddParam(b.open_unit, "w", nullptr, 0, WEFT_FLOAT32, 0, &b.out.param);
                    }});
}

void AddViewFaults(std::vector<BadCall>* calls) {
  calls->push_back(
      {"weft_shard_param_view", "view_NULL", WEFT_INVALID_ARGUMENT, "view is NULL", [](Bench& b) {
         return weft_shard_param_view(b.param, nullptr);
       }});
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_param_view", "param",
      [](Bench&, weft_shard_param_t param) {
        return WithAnswer<weft_shard_view_t>(
            sizeof(weft_shard_view_t),
            [param](weft_shard_view_t* view) { return weft_shard_param_view(param, view); });
      },
      calls);
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    calls->push_back({"weft_shard_param_view", "struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_view_t>(
                            struct_size, [&b](weft_shard_view_t* view) {
                              return weft_shard_param_view(b.param, view);
                            });
                      }});
  }
}

void AddPartFaults(std::vector<BadCall>* calls) {
  calls->push_back(
      {"weft_shard_param_part", "part_NULL", WEFT_INVALID_ARGUMENT, "part is NULL", [](Bench& b) {
         return weft_shard_param_part(b.param, nullptr);
       }});
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_param_part", "param",
      [](Bench&, weft_shard_param_t param) {
        return WithAnswer<weft_shard_part_t>(
            sizeof(weft_shard_part_t),
            [param](weft_shard_part_t* part) { return weft_shard_param_part(param, part); });
      },
      calls);
  for (const size_t struct_size : {size_t{0}, size_t{1}, size_t{4}, SIZE_MAX}) {
    calls->push_back({"weft_shard_param_part", "struct_size_" + std::to_string(struct_size),
                      WEFT_INVALID_ARGUMENT, "struct_size", [struct_size](Bench& b) {
                        return WithAnswer<weft_shard_part_t>(
                            struct_size, [&b](weft_shard_part_t* part) {
                              return weft_shard_param_part(b.param, part);
                            });
                      }});
  }
}

void AddValueFaults(std::vector<BadCall>* calls) {
  static const float kValues[4096] = {};
  for (const int root : {-2, 1, INT32_MAX}) {
    calls->push_back({"weft_shard_param_load",
                      root < 0 ? "root_minus_2" : "root_" + std::to_string(root),
                      WEFT_INVALID_ARGUMENT, "root is " + std::to_string(root), [root](Bench& b) {
                        return LoadValues(b.param, kValues, root);
                      }});
  }
  for (const int root : {0, WEFT_SHARD_EVERY_RANK}) {
    calls->push_back({"weft_shard_param_load",
                      root == 0 ? "values_NULL_on_the_root" : "values_NULL_on_every_rank",
                      WEFT_INVALID_ARGUMENT, "values is NULL", [root](Bench& b) {
                        return LoadValues(b.param, nullptr, root);
                      }});
  }
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_param_load", "param",
      [](Bench&, weft_shard_param_t param) { return LoadValues(param, kValues, 0); }, calls);
  calls->push_back({"weft_shard_param_read", "values_NULL", WEFT_INVALID_ARGUMENT, "values is NULL",
                    [](Bench& b) {
                      return ReadValues(b.param, nullptr);
                    }});
  calls->push_back(
      {"weft_shard_param_load", "load_NULL", WEFT_INVALID_ARGUMENT, "load is NULL", [](Bench& b) {
         return weft_shard_param_load(b.param, nullptr);
       }});
  calls->push_back(
      {"weft_shard_param_read", "read_NULL", WEFT_INVALID_ARGUMENT, "read is NULL", [](Bench& b) {
         return weft_shard_param_read(b.param, nullptr);
       }});
  for (const int root : {-2, 1, 5}) {
    calls->push_back({"weft_shard_param_read",
                      root < 0 ? "root_minus_2" : "root_" + std::to_string(root),
                      WEFT_INVALID_ARGUMENT, "root is " + std::to_string(root), [root](Bench& b) {
                        float values[4096];
                        return ReadValues(b.param, values, root);
                      }});
  }
  AddConfigFaults<weft_shard_load_t>(
      "weft_shard_param_load", calls,
      [](Bench& b, const weft_shard_load_t* load) { return weft_shard_param_load(b.param, load); });
  AddConfigFaults<weft_shard_read_t>(
      "weft_shard_param_read", calls,
      [](Bench& b, const weft_shard_read_t* read) { return weft_shard_param_read(b.param, read); });
  AddHandleFaults<weft_shard_param_t>(
      "weft_shard_param_read", "param",
      [](Bench&, weft_shard_param_t param) {
        float values[4096];
        return ReadValues(param, values);
      },
      calls);
}

}  // namespace

std::vector<BadCall> BadShardCalls() {
  std::vector<BadCall> calls;
  AddMeshFaults(&calls);
  AddContextFaults(&calls);
  AddUnitFaults(&calls);
  AddTieFaults(&calls);
  AddParamFaults(&calls);
  AddViewFaults(&calls);
  AddPartFaults(&calls);
  AddValueFaults(&calls);
  return calls;
}

}  // namespace weft::test
