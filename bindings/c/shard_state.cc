// The C interface of include/weft/shard_state.h over shard/: what a checkpoint saves and restores.
#include "weft/shard_state.h"

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace calls = weft::shard_calls;
using weft::Guarded;

namespace {

absl::Status CheckKind(const char* call, weft_shard_state_kind_t kind) {
  return calls::CheckEnum(call, "kind", kind, WEFT_SHARD_STATE_MOMENT2, "weft_shard_state_kind_t");
}

// Of a call that reads or writes `count` elements at `memory`, its argument `name`.
absl::Status CheckElements(const char* call, weft_shard_param_t param, weft_shard_state_kind_t kind,
                           const char* name, const void* memory, size_t count) {
  WEFT_RETURN_IF_ERROR(calls::Check(call, param));
  WEFT_RETURN_IF_ERROR(CheckKind(call, kind));
  if (memory != nullptr || count == 0) return absl::OkStatus();
  return calls::Invalid(
      call, weft::StrCat(name, " is NULL; pass memory for ", count, " elements of the state"));
}

}  // namespace

extern "C" {

weft_result_t weft_shard_state_part(weft_shard_param_t param, weft_shard_state_kind_t kind,
                                    weft_shard_state_part_t* part) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_state_part";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, part, "part"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, part));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, param));
    WEFT_RETURN_IF_ERROR(CheckKind(kCall, kind));
    const absl::StatusOr<weft_shard_state_part_t> made =
        param->owner->context->state().Part(param->index, kind);
    if (!made.ok()) return calls::About(*param, made.status());
    weft::WriteAnswer(*made, part);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_state_read(weft_shard_param_t param, weft_shard_state_kind_t kind,
                                    size_t begin, size_t count, void* to) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_state_read";
    WEFT_RETURN_IF_ERROR(CheckElements(kCall, param, kind, "to", to, count));
    return calls::About(
        *param, param->owner->context->state().Read(param->index, kind, {begin, count}, to));
  });
}

weft_result_t weft_shard_state_write(weft_shard_param_t param, weft_shard_state_kind_t kind,
                                     size_t begin, size_t count, const void* from) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_state_write";
    WEFT_RETURN_IF_ERROR(CheckElements(kCall, param, kind, "from", from, count));
    return calls::About(
        *param, param->owner->context->state().Write(param->index, kind, {begin, count}, from));
  });
}

weft_result_t weft_shard_state_scalars_get(weft_shard_context_t context,
                                           weft_shard_state_scalars_t* scalars) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_state_scalars_get";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, scalars, "scalars"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, scalars));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_state_scalars_t made,
                          context->context->state().Scalars());
    weft::WriteAnswer(made, scalars);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_state_scalars_set(weft_shard_context_t context,
                                           const weft_shard_state_scalars_t* scalars) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_state_scalars_set";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    if (scalars == nullptr) {
      return calls::Invalid(kCall, "scalars is NULL; pass what weft_shard_state_scalars_get gave");
    }
    weft_shard_state_scalars_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, scalars, &copy));
    return context->context->state().SetScalars(copy);
  });
}

weft_result_t weft_shard_state_written(weft_shard_context_t context, uint32_t kinds, void* stream) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_state_written";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    if (kinds == 0 || (kinds & ~WEFT_SHARD_STATE_ALL) != 0) {
      return calls::Invalid(
          kCall,
          weft::StrCat("kinds is ", kinds, "; use bits of WEFT_SHARD_STATE_ALL, at least one"));
    }
    WEFT_RETURN_IF_ERROR(calls::CheckStream(kCall, stream));
    return context->context->state().Written(kinds);
  });
}

}  // extern "C"
