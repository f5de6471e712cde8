// What the shard bindings share: the handles of meshes, contexts, units and params, and the checks of arguments.
//
//   WEFT_RETURN_IF_ERROR(Check("shard_unit_seal", unit));
//   return unit->owner->context->SealUnit(unit->index);
//
// Handles carry a mark that says what they are, so that one of another kind, or one that was
// destroyed (handle_pool.h), is an error and not a crash. A context's handle owns the handles of its
// units and params, and a mesh's those of its groups.
//
// Thread-safety: as the context behind it.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/shard.h"

#include "absl/status/status.h"
#include "base/mutex.h"
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
  kDead = 0x44414544,
  kMesh = 0x4853454d,
  kContext = 0x54584354,
  kUnit = 0x54494e55,
  kParam = 0x41524150,
  kCheckpoint = 0x504b4843,
};

// What every handle of a shard manager begins with.
template <ShardMark kMark>
struct MarkedHandle {
  void SetLive(bool live) { mark = live ? kMark : ShardMark::kDead; }

  ShardMark mark = ShardMark::kDead;
};

}  // namespace weft

struct weft_mesh : weft::MarkedHandle<weft::ShardMark::kMesh> {
  weft::Origin origin;
  std::shared_ptr<const weft::Mesh> mesh;
  weft::Mutex mutex;
  std::map<const weft::ProcessGroup*, weft_group*> groups WEFT_GUARDED_BY(mutex);
};

struct weft_shard_unit : weft::MarkedHandle<weft::ShardMark::kUnit> {
  weft_shard_context* owner = nullptr;
  int index = 0;
  std::string name = {};
  std::vector<weft_shard_param*> params = {};  // in the order of declaration, tied ones too
};

struct weft_shard_param : weft::MarkedHandle<weft::ShardMark::kParam> {
  weft_shard_context* owner = nullptr;
  int index = 0;                    // of the param that it is, if it is tied
  std::string name = {};            // its own
  weft_shard_unit* unit = nullptr;  // that uses it under this name
  int index_in_unit = 0;
  weft_shard_param* tied_to = nullptr;  // the param that it is; nullptr if it is not tied
};

struct weft_shard_context : weft::MarkedHandle<weft::ShardMark::kContext> {
  weft::Origin origin;
  weft_shard_allocator_t allocator = {};
  void (*release_product)(void* user) = nullptr;
  void* product_user = nullptr;
  std::unique_ptr<weft::Context> context;
  std::vector<weft_shard_unit*> units;
  std::vector<weft_shard_param*> params;
  // The names are those that the handles keep.
  std::unordered_map<std::string_view, weft_shard_unit*> units_by_name;
  std::unordered_map<std::string_view, weft_shard_param*> params_by_name;
};

namespace weft::shard_calls {

inline absl::Status Invalid(std::string_view call, std::string_view what) {
  return InvalidArgument(call, what);
}

template <typename T>
absl::Status CheckHandle(const char* call, const T* handle, ShardMark mark, const char* kind) {
  if (handle == nullptr) return Invalid(call, StrCat(kind, " is NULL; pass a handle"));
  if (handle->mark == mark) return absl::OkStatus();
  if (handle->mark == ShardMark::kDead) {
    return Invalid(call, StrCat(kind, " was destroyed; pass a live one"));
  }
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

// A failure of a call with this unit, or this param, names it unless the failure is about another one.
inline absl::Status About(const weft_shard_unit& unit, const absl::Status& status) {
  return status.ok() ? status : WithSubject(status, unit.name, {});
}

inline absl::Status About(const weft_shard_param& param, const absl::Status& status) {
  return status.ok() ? status : WithSubject(status, param.unit->name, param.name);
}

// A call of the context that has no more to check than its handle, which may be that of a unit or a param.
template <typename... Parameters, typename... Arguments>
weft_result_t CallContext(const char* name, weft_shard_context_t context,
                          absl::Status (Context::*call)(Parameters...), Arguments... arguments) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check(name, context));
    return (context->context.get()->*call)(arguments...);
  });
}

template <typename Part, typename... Parameters, typename... Arguments>
weft_result_t CallPart(const char* name, Part part, absl::Status (Context::*call)(Parameters...),
                       Arguments... arguments) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check(name, part));
    return About(*part, (part->owner->context.get()->*call)(part->index, arguments...));
  });
}

// The handle of a unit or param that the context has just declared, in shard.cc; `tied_to` is nullptr unless it is tied.
weft_shard_unit* AddUnitHandle(weft_shard_context* context, int index, std::string_view name);
weft_shard_param* AddParamHandle(weft_shard_unit* unit, int index, std::string_view name,
                                 weft_shard_param* tied_to = nullptr);

// What callers describe, in shard.cc: the policy of a unit, a param.
absl::StatusOr<Placement> ReadPolicy(const char* call, const weft_shard_policy_t* policy);
absl::StatusOr<weft_shard_param_config_t> ReadParam(const char* call,
                                                    const weft_shard_param_config_t* config);

// A number of an optimizer, by its name.
using NamedNumber = std::pair<const char*, double>;

// Numbers that an optimizer is given must be finite and not negative, and those that are rates below 1; in shard_optimizer.cc. A 0
// whose bit `fields` does not have stands for `unset`.
absl::Status CheckOptimizerNumbers(const char* call, std::span<const NamedNumber> numbers,
                                   std::initializer_list<double> rates, const char* unset);

// The number in an enum that a caller filled, which need not be one of its values.
template <typename Enum>
int NumberOf(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number = 0;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

// `name` is what has the value, `type` that of the enum, whose values are 0 to `last`.
template <typename Enum>
absl::Status CheckEnum(const char* call, const char* name, const Enum& value, Enum last,
                       const char* type) {
  const int number = NumberOf(value);
  if (number >= 0 && number <= static_cast<int>(last)) return absl::OkStatus();
  return Invalid(call, StrCat(name, " is ", number, "; use a value of ", type));
}

}  // namespace weft::shard_calls
