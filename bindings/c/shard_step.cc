// The C interface of include/weft/shard_step.h over shard/: the calls of a step.
#include "weft/shard_step.h"

#include <cstddef>

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace weft::shard_calls {
namespace {

using UnitCall = absl::Status (Context::*)(int);

weft_result_t CallUnit(const char* name, UnitCall call, weft_shard_unit_t unit, void* stream) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(Check(name, unit));
    WEFT_RETURN_IF_ERROR(About(*unit, CheckStream(name, stream)));
    return About(*unit, (unit->owner->context.get()->*call)(unit->index));
  });
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_step_begin(weft_shard_context_t context, const weft_shard_step_t* step) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_step_begin";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    weft_shard_step_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, step, &copy));
    if (copy.mode != WEFT_SHARD_TRAIN && copy.mode != WEFT_SHARD_EVAL) {
      return calls::Invalid(kCall, weft::StrCat("mode is ", calls::NumberOf(copy.mode),
                                                "; use WEFT_SHARD_TRAIN or WEFT_SHARD_EVAL"));
    }
    WEFT_RETURN_IF_ERROR(calls::CheckStream(kCall, copy.stream));
    return context->context->StepBegin(copy.mode, copy.tag);
  });
}

weft_result_t weft_shard_join(weft_shard_context_t context, void* stream, int* active_ranks) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_join", context));
    WEFT_RETURN_IF_ERROR(calls::CheckStream("shard_join", stream));
    WEFT_ASSIGN_OR_RETURN(const int active, context->context->Join());
    if (active_ranks != nullptr) *active_ranks = active;
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_microbatch_begin(weft_shard_context_t context,
                                          const weft_shard_microbatch_t* microbatch) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_microbatch_begin";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, context));
    weft_shard_microbatch_t copy{};
    copy.last = microbatch == nullptr ? 1 : 0;
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, microbatch, &copy));
    if (copy.last != 0 && copy.last != 1) {
      return calls::Invalid(kCall, weft::StrCat("last is ", copy.last, "; use 0 or 1"));
    }
    WEFT_RETURN_IF_ERROR(calls::CheckStream(kCall, copy.stream));
    return context->context->MicrobatchBegin(copy.index, copy.last == 1);
  });
}

weft_result_t weft_shard_pre_forward(weft_shard_unit_t unit, void* stream) {
  return calls::CallUnit("shard_pre_forward", &weft::Context::PreForward, unit, stream);
}

weft_result_t weft_shard_post_forward(weft_shard_unit_t unit, void* stream) {
  return calls::CallUnit("shard_post_forward", &weft::Context::PostForward, unit, stream);
}

weft_result_t weft_shard_pre_backward(weft_shard_unit_t unit, void* stream) {
  return calls::CallUnit("shard_pre_backward", &weft::Context::PreBackward, unit, stream);
}

weft_result_t weft_shard_grad_ready(weft_shard_param_t param, const void* grad, void* stream) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_grad_ready", param));
    WEFT_RETURN_IF_ERROR(calls::About(*param, calls::CheckStream("shard_grad_ready", stream)));
    return calls::About(*param, param->owner->context->GradReady(param->index, grad));
  });
}

weft_result_t weft_shard_post_backward(weft_shard_unit_t unit, void* stream) {
  return calls::CallUnit("shard_post_backward", &weft::Context::PostBackward, unit, stream);
}

weft_result_t weft_shard_unshard_start(weft_shard_unit_t unit,
                                       const weft_shard_unshard_t* options) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_unshard_start";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, unit));
    weft_shard_unshard_t copy{};
    WEFT_RETURN_IF_ERROR(calls::About(*unit, weft::ReadConfig(kCall, options, &copy)));
    WEFT_RETURN_IF_ERROR(calls::About(*unit, calls::CheckStream(kCall, copy.stream)));
    return calls::About(*unit, unit->owner->context->UnshardStart(
                                   unit->index, {.data = copy.destination, .bytes = copy.bytes}));
  });
}

weft_result_t weft_shard_unshard_wait(weft_shard_unit_t unit, void* stream) {
  return calls::CallUnit("shard_unshard_wait", &weft::Context::UnshardWait, unit, stream);
}

weft_result_t weft_shard_reshard(weft_shard_unit_t unit, void* stream) {
  return calls::CallUnit("shard_reshard", &weft::Context::Reshard, unit, stream);
}

weft_result_t weft_shard_reduce_wait(weft_shard_unit_t unit, void* stream) {
  return calls::CallUnit("shard_reduce_wait", &weft::Context::ReduceWait, unit, stream);
}

weft_result_t weft_shard_microbatch_end(weft_shard_context_t context, void* stream) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_microbatch_end", context));
    WEFT_RETURN_IF_ERROR(calls::CheckStream("shard_microbatch_end", stream));
    return context->context->MicrobatchEnd();
  });
}

weft_result_t weft_shard_finish(weft_shard_context_t context, void* stream,
                                weft_shard_step_result_t* result) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_finish", context));
    WEFT_RETURN_IF_ERROR(calls::CheckStream("shard_finish", stream));
    if (result != nullptr) WEFT_RETURN_IF_ERROR(weft::CheckAnswer("shard_finish", result));
    WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t found, context->context->Finish());
    if (result != nullptr) weft::WriteAnswer(found, result);
    return absl::OkStatus();
  });
}

weft_result_t weft_shard_step_end(weft_shard_context_t context) {
  return calls::CallContext("shard_step_end", context, &weft::Context::StepEnd);
}

weft_result_t weft_shard_abort_step(weft_shard_context_t context, const char* reason) {
  return calls::CallContext("shard_abort_step", context, &weft::Context::AbortStep,
                            reason == nullptr ? "" : reason);
}

}  // extern "C"
