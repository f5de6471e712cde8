// The C interface of include/weft/mesh.h over shard/layout/mesh.h. A mesh has one handle for each
// of its groups, made when it is first asked for, whether by one axis or by several.
#include "weft/mesh.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/handle_pool.h"
#include "bindings/c/shard_handles.h"
#include "shard/layout/mesh.h"

namespace calls = weft::shard_calls;
using weft::Guarded;

namespace {

absl::StatusOr<std::vector<weft::MeshAxis>> ReadAxes(const char* call,
                                                     const weft_mesh_config_t* config) {
  weft_mesh_config_t copy{};
  WEFT_RETURN_IF_ERROR(weft::ReadConfig(call, config, &copy));
  if (copy.axis_count < 0 || copy.axis_count > WEFT_MESH_AXES_MAX) {
    return calls::Invalid(call, weft::StrCat("axis_count is ", copy.axis_count, "; 0 to ",
                                             WEFT_MESH_AXES_MAX, " are possible"));
  }
  std::vector<weft::MeshAxis> axes;
  for (int i = 0; i < copy.axis_count; ++i) {
    if (copy.axis_names[i] == nullptr) {
      return calls::Invalid(call, weft::StrCat("the name of axis ", i, " is NULL; give it one"));
    }
    axes.push_back({copy.axis_names[i], copy.axis_sizes[i]});
  }
  return axes;
}

weft_mesh_t MakeHandle(std::shared_ptr<const weft::Mesh> mesh) {
  weft_mesh_t handle = weft::HandlePool<weft_mesh>::Get().Make();
  handle->mesh = std::move(mesh);
  return handle;
}

weft_group_t HandleOf(weft_mesh_t mesh, const std::shared_ptr<weft::ProcessGroup>& group) {
  weft::MutexLock lock(mesh->mutex);
  weft_group_t& handle = mesh->groups[group.get()];
  if (handle != nullptr) return handle;
  handle = weft::HandlePool<weft_group>::Get().Make();
  handle->of_mesh = true;
  handle->group.Set(group);
  return handle;
}

absl::Status CheckHasGroups(const char* call, weft_mesh_t mesh) {
  WEFT_RETURN_IF_ERROR(calls::Check(call, mesh));
  if (!mesh->mesh->dry()) return absl::OkStatus();
  return weft::MakeError(
      WEFT_INVALID_USAGE, {.operation = call},
      weft::StrCat(call,
                   ": the mesh is dry: its ranks do not exist, so there is no group; make it with "
                   "weft_mesh_create"));
}

absl::StatusOr<std::vector<std::string>> ReadNames(const char* call, const char* const axes[],
                                                   int n, size_t known) {
  if (n < 1 || static_cast<size_t>(n) > known) {
    return calls::Invalid(
        call, weft::StrCat("n is ", n, ", the mesh has ", known, known == 1 ? " axis" : " axes",
                           "; name each that is wanted once"));
  }
  if (axes == nullptr) return calls::Invalid(call, "axes is NULL; pass the names of axes");
  std::vector<std::string> names;
  for (int i = 0; i < n; ++i) {
    if (axes[i] == nullptr) {
      return calls::Invalid(call, weft::StrCat("axes[", i, "] is NULL; pass the name of an axis"));
    }
    names.emplace_back(axes[i]);
  }
  return names;
}

}  // namespace

extern "C" {

weft_result_t weft_mesh_create(weft_group_t group, const weft_mesh_config_t* config,
                               weft_mesh_t* mesh) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "mesh_create";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, mesh, "mesh"));
    if (group == nullptr) return calls::Invalid(kCall, "group is NULL; pass a weft_group_t");
    WEFT_RETURN_IF_ERROR(weft::CheckGroup(kCall, group));
    std::shared_ptr<weft::ProcessGroup> ranks = group->group.shared();
    WEFT_ASSIGN_OR_RETURN(std::vector<weft::MeshAxis> axes, ReadAxes(kCall, config));
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const weft::Mesh> made,
                          weft::Mesh::Create(std::move(ranks), std::move(axes)));
    *mesh = MakeHandle(std::move(made));
    return absl::OkStatus();
  });
}

weft_result_t weft_mesh_create_dry(const weft_mesh_config_t* config, int rank, weft_mesh_t* mesh) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "mesh_create_dry";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, mesh, "mesh"));
    WEFT_ASSIGN_OR_RETURN(std::vector<weft::MeshAxis> axes, ReadAxes(kCall, config));
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const weft::Mesh> made,
                          weft::Mesh::CreateDry(std::move(axes), rank));
    *mesh = MakeHandle(std::move(made));
    return absl::OkStatus();
  });
}

weft_result_t weft_mesh_axis_group(weft_mesh_t mesh, int axis, weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "mesh_axis_group";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, group, "group"));
    WEFT_RETURN_IF_ERROR(CheckHasGroups(kCall, mesh));
    const size_t count = mesh->mesh->axes().size();
    if (axis < 0 || static_cast<size_t>(axis) >= count) {
      return calls::Invalid(
          kCall, weft::StrCat("axis is ", axis, ", the mesh has ", count, "; count from 0"));
    }
    *group = HandleOf(mesh, mesh->mesh->axis_group(static_cast<size_t>(axis)));
    return absl::OkStatus();
  });
}

weft_result_t weft_mesh_group(weft_mesh_t mesh, const char* const axes[], int n,
                              weft_group_t* group) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "mesh_group";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, group, "group"));
    WEFT_RETURN_IF_ERROR(CheckHasGroups(kCall, mesh));
    WEFT_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                          ReadNames(kCall, axes, n, mesh->mesh->axes().size()));
    WEFT_ASSIGN_OR_RETURN(const std::shared_ptr<weft::ProcessGroup> made, mesh->mesh->Group(names));
    *group = HandleOf(mesh, made);
    return absl::OkStatus();
  });
}

weft_result_t weft_mesh_destroy(weft_mesh_t mesh) {
  return Guarded([&]() -> absl::Status {
    if (mesh == nullptr) return absl::OkStatus();
    constexpr char kCall[] = "mesh_destroy";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, mesh));
    if (const long users = mesh->mesh.use_count() - 1; users > 0) {
      return weft::MakeError(
          WEFT_INVALID_USAGE, {.operation = kCall},
          weft::StrCat(kCall, ": ", users, " shard contexts use the mesh; destroy them first"));
    }
    {
      weft::MutexLock lock(mesh->mutex);
      for (const auto& [made, handle] : mesh->groups) {
        if (weft::IsGroup(handle)) weft::HandlePool<weft_group>::Get().Retire(handle);
      }
    }
    weft::HandlePool<weft_mesh>::Get().Retire(mesh);
    return absl::OkStatus();
  });
}

}  // extern "C"
