// What the shard bindings share: the handles of meshes, contexts, units and params, and the checks of arguments.
//
//   WEFT_RETURN_IF_ERROR(Check("shard_unit_seal", unit));
//   return unit->owner->context->SealUnit(unit->index);
//
// Handles carry a mark that says what they are, so that one of another kind is an error and not a
// crash. A context's handle owns the handles of its units and params; pointers to those stay valid
// until the context is destroyed.
//
// Thread-safety: as the context behind it.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/struct_size.h"
#include "comm/group/fork.h"
#include "shard/context/context.h"
#include "shard/layout/mesh.h"

namespace weft {

enum class ShardMark : uint32_t {
  kMesh = 0x4853454d,
  kContext = 0x54584354,
  kUnit = 0x54494e55,
  kParam = 0x41524150,
};

}  // namespace weft

struct weft_mesh {
  weft::ShardMark mark = weft::ShardMark::kMesh;
  weft::Origin origin;
  std::shared_ptr<const weft::Mesh> mesh;
  std::deque<weft_group> axis_groups;  // handles
};

struct weft_shard_unit {
  weft::ShardMark mark = weft::ShardMark::kUnit;
  weft_shard_context* owner = nullptr;
  int index = 0;
};

struct weft_shard_param {
  weft::ShardMark mark = weft::ShardMark::kParam;
  weft_shard_context* owner = nullptr;
  int index = 0;
};

struct weft_shard_context {
  weft::ShardMark mark = weft::ShardMark::kContext;
  weft::Origin origin;
  std::unique_ptr<weft::Context> context;
  std::deque<weft_shard_unit> units;
  std::deque<weft_shard_param> params;
};

namespace weft::shard_calls {

inline absl::Status Invalid(std::string_view call, std::string_view what) {
  return InvalidArgument(call, what);
}

template <typename T>
absl::Status CheckHandle(const char* call, const T* handle, ShardMark mark, const char* kind) {
  if (handle == nullptr) return Invalid(call, StrCat(kind, " is NULL; pass a handle"));
  if (handle->mark == mark) return absl::OkStatus();
  return Invalid(call, StrCat(kind, " is not the handle of a ", kind, "; pass one"));
}

// What a forked child has of its parent's is no use to it, nor is what has no ranks.
inline absl::Status CheckOrigin(const char* call, const Origin& origin, const char* kind) {
  return origin.here() ? absl::OkStatus() : ForkedError(call, kind);
}

inline absl::Status Check(const char* call, weft_mesh_t mesh) {
  WEFT_RETURN_IF_ERROR(CheckHandle(call, mesh, ShardMark::kMesh, "mesh"));
  return CheckOrigin(call, mesh->origin, "mesh");
}

inline absl::Status Check(const char* call, weft_shard_context_t context) {
  WEFT_RETURN_IF_ERROR(CheckHandle(call, context, ShardMark::kContext, "context"));
  return CheckOrigin(call, context->origin, "context");
}

inline absl::Status Check(const char* call, weft_shard_unit_t unit) {
  WEFT_RETURN_IF_ERROR(CheckHandle(call, unit, ShardMark::kUnit, "unit"));
  return CheckOrigin(call, unit->owner->origin, "unit");
}

inline absl::Status Check(const char* call, weft_shard_param_t param) {
  WEFT_RETURN_IF_ERROR(CheckHandle(call, param, ShardMark::kParam, "param"));
  return CheckOrigin(call, param->owner->origin, "param");
}

// `out` is where the call puts its answer.
inline absl::Status CheckOut(const char* call, const void* out, const char* name) {
  if (out != nullptr) return absl::OkStatus();
  return Invalid(call, StrCat(name, " is NULL; pass where the answer goes"));
}

// The stream of device memory, which this version has none of.
inline absl::Status CheckStream(const char* call, const void* stream) {
  if (stream == nullptr) return absl::OkStatus();
  return MakeError(WEFT_UNSUPPORTED, {.operation = call},
                   StrCat(call,
                          ": a stream was passed, but parameters live in host memory; pass "
                          "NULL"));
}

// What callers describe, in shard.cc: the axes of a mesh, the policy of a unit; and whether a param's description
// can be read.
absl::StatusOr<std::vector<MeshAxis>> ReadAxes(const char* call, const weft_mesh_config_t& config);
absl::StatusOr<Placement> ReadPolicy(const char* call, const weft_shard_policy_t* policy);
absl::Status CheckParam(const char* call, const char* name, const int64_t* shape, int ndim,
                        uint32_t flags);

// The number in an enum that a caller filled, which need not be one of its values.
template <typename Enum>
int NumberOf(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

}  // namespace weft::shard_calls
