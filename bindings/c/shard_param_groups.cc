// The C interface of include/weft/shard_param_groups.h over shard/. What a number may be is said here; what numbers mean together, and
// which are inherited, in shard/optimizer/param_groups.
#include "weft/shard_param_groups.h"

#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace weft::shard_calls {
namespace {

absl::StatusOr<weft_shard_param_group_t> ReadGroup(const char* call,
                                                   const weft_shard_param_group_t* given) {
  weft_shard_param_group_t copy{};
  WEFT_RETURN_IF_ERROR(ReadConfig(call, given, &copy));
  constexpr uint32_t kFieldsEnd = WEFT_OPTIMIZER_NESTEROV << 1;
  if (copy.fields >= kFieldsEnd) {
    return Invalid(call, StrCat("fields has unknown bits: ", copy.fields));
  }
  WEFT_RETURN_IF_ERROR(
      CheckEnum(call, "kind", copy.kind, WEFT_OPTIMIZER_MUON, "weft_optimizer_kind_t"));
  const NamedNumber numbers[] = {{"learning_rate_factor", copy.learning_rate_factor},
                                 {"weight_decay_factor", copy.weight_decay_factor},
                                 {"beta1", copy.beta1},
                                 {"beta2", copy.beta2},
                                 {"epsilon", copy.epsilon},
                                 {"momentum", copy.momentum},
                                 {"trust", copy.trust}};
  WEFT_RETURN_IF_ERROR(CheckOptimizerNumbers(call, numbers, {copy.beta1, copy.beta2, copy.momentum},
                                             "what is inherited"));
  return copy;
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_param_group_add(weft_shard_context_t context,
                                         const weft_shard_param_group_t* numbers, int* group) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_param_group_add";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, group, "group"));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_param_group_t read, calls::ReadGroup(kCall, numbers));
    WEFT_ASSIGN_OR_RETURN(*group, context->context->builder().AddGroup(read));
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_param_group_set(weft_shard_context_t context, int group,
                                         const weft_shard_param_group_t* numbers) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_param_group_set";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    if (numbers == nullptr) {
      return calls::Invalid(kCall, "numbers is NULL; pass a weft_shard_param_group_t");
    }
    WEFT_ASSIGN_OR_RETURN(const weft_shard_param_group_t read, calls::ReadGroup(kCall, numbers));
    return context->context->optimizer().SetGroup(group, read);
  });
}

weft_result_t weft_shard_param_group_get(weft_shard_context_t context, int group,
                                         weft_shard_param_group_t* numbers) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_param_group_get";
    WEFT_RETURN_IF_ERROR(calls::CheckOut(kCall, numbers, "numbers"));
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, numbers));
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    WEFT_ASSIGN_OR_RETURN(const weft::OptimizerGroup found,
                          context->context->optimizer().Group(group));
    weft::WriteAnswer(weft::NumbersOf(found), numbers);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_param_set_group(weft_shard_param_t param, int group) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_param_set_group", param));
    return calls::About(*param,
                        param->owner->context->builder().SetParamGroup(param->index, group));
  });
}

}  // extern "C"
