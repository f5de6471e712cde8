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

absl::Status StepBegin(weft_shard_context_t context, weft_shard_mode_t mode, uint64_t tag) {
  WEFT_RETURN_IF_ERROR(Check("shard_step_begin", context));
  if (mode != WEFT_SHARD_TRAIN && mode != WEFT_SHARD_EVAL) {
    return Invalid("shard_step_begin", StrCat("mode is ", static_cast<int>(mode),
                                              "; use WEFT_SHARD_TRAIN or WEFT_SHARD_EVAL"));
  }
  return context->context->StepBegin(mode, tag);
}

absl::Status Join(weft_shard_context_t context, int* active_ranks) {
  WEFT_RETURN_IF_ERROR(Check("shard_join", context));
  WEFT_ASSIGN_OR_RETURN(const int active, context->context->Join());
  if (active_ranks != nullptr) *active_ranks = active;
  return absl::OkStatus();
}

absl::Status MicrobatchBegin(weft_shard_context_t context, int index, int last) {
  WEFT_RETURN_IF_ERROR(Check("shard_microbatch_begin", context));
  if (last != 0 && last != 1) {
    return Invalid("shard_microbatch_begin", StrCat("last is ", last, "; use 0 or 1"));
  }
  return context->context->MicrobatchBegin(index, last == 1);
}

using UnitCall = absl::Status (Context::*)(int);

absl::Status CallUnit(const char* name, UnitCall call, weft_shard_unit_t unit, void* stream) {
  WEFT_RETURN_IF_ERROR(Check(name, unit));
  WEFT_RETURN_IF_ERROR(CheckStream(name, stream));
  return (unit->owner->context.get()->*call)(unit->index);
}

absl::Status GradReady(weft_shard_param_t param, const void* grad, void* stream) {
  WEFT_RETURN_IF_ERROR(Check("shard_grad_ready", param));
  WEFT_RETURN_IF_ERROR(CheckStream("shard_grad_ready", stream));
  return param->owner->context->GradReady(param->index, grad);
}

absl::Status MicrobatchEnd(weft_shard_context_t context, void* stream) {
  WEFT_RETURN_IF_ERROR(Check("shard_microbatch_end", context));
  WEFT_RETURN_IF_ERROR(CheckStream("shard_microbatch_end", stream));
  return context->context->MicrobatchEnd();
}

absl::Status Finish(weft_shard_context_t context, void* stream, weft_shard_step_result_t* result) {
  WEFT_RETURN_IF_ERROR(Check("shard_finish", context));
  WEFT_RETURN_IF_ERROR(CheckStream("shard_finish", stream));
  if (result != nullptr) WEFT_RETURN_IF_ERROR(CheckAnswer("shard_finish", result));
  WEFT_ASSIGN_OR_RETURN(const weft_shard_step_result_t found, context->context->Finish());
  if (result != nullptr) WriteAnswer(found, result);
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft::shard_calls

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_step_begin(weft_shard_context_t context, weft_shard_mode_t mode,
                                    uint64_t tag) {
  return Guarded([&] { return calls::StepBegin(context, mode, tag); });
}

weft_result_t weft_shard_join(weft_shard_context_t context, int* active_ranks) {
  return Guarded([&] { return calls::Join(context, active_ranks); });
}

weft_result_t weft_shard_microbatch_begin(weft_shard_context_t context, int index, int last) {
  return Guarded([&] { return calls::MicrobatchBegin(context, index, last); });
}

weft_result_t weft_shard_pre_forward(weft_shard_unit_t unit, void* stream) {
  return Guarded([&] {
    return calls::CallUnit("shard_pre_forward", &weft::Context::PreForward, unit, stream);
  });
}

weft_result_t weft_shard_post_forward(weft_shard_unit_t unit, void* stream) {
  return Guarded([&] {
    return calls::CallUnit("shard_post_forward", &weft::Context::PostForward, unit, stream);
  });
}

weft_result_t weft_shard_pre_backward(weft_shard_unit_t unit, void* stream) {
  return Guarded([&] {
    return calls::CallUnit("shard_pre_backward", &weft::Context::PreBackward, unit, stream);
  });
}

weft_result_t weft_shard_grad_ready(weft_shard_param_t param, const void* grad, void* stream) {
  return Guarded([&] { return calls::GradReady(param, grad, stream); });
}

weft_result_t weft_shard_post_backward(weft_shard_unit_t unit, void* stream) {
  return Guarded([&] {
    return calls::CallUnit("shard_post_backward", &weft::Context::PostBackward, unit, stream);
  });
}

weft_result_t weft_shard_unshard_start(weft_shard_unit_t unit, void* stream) {
  return Guarded([&] {
    return calls::CallUnit("shard_unshard_start", &weft::Context::UnshardStart, unit, stream);
  });
}

weft_result_t weft_shard_unshard_wait(weft_shard_unit_t unit, void* stream) {
  return Guarded([&] {
    return calls::CallUnit("shard_unshard_wait", &weft::Context::UnshardWait, unit, stream);
  });
}

weft_result_t weft_shard_reshard(weft_shard_unit_t unit, void* stream) {
  return Guarded(
      [&] { return calls::CallUnit("shard_reshard", &weft::Context::Reshard, unit, stream); });
}

weft_result_t weft_shard_reduce_wait(weft_shard_unit_t unit, void* stream) {
  return Guarded([&] {
    return calls::CallUnit("shard_reduce_wait", &weft::Context::ReduceWait, unit, stream);
  });
}

weft_result_t weft_shard_microbatch_end(weft_shard_context_t context, void* stream) {
  return Guarded([&] { return calls::MicrobatchEnd(context, stream); });
}

weft_result_t weft_shard_finish(weft_shard_context_t context, void* stream,
                                weft_shard_step_result_t* result) {
  return Guarded([&] { return calls::Finish(context, stream, result); });
}

weft_result_t weft_shard_step_end(weft_shard_context_t context) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_step_end", context));
    return context->context->StepEnd();
  });
}

weft_result_t weft_shard_abort_step(weft_shard_context_t context, const char* reason) {
  return Guarded([&]() -> absl::Status {
    WEFT_RETURN_IF_ERROR(calls::Check("shard_abort_step", context));
    return context->context->AbortStep(reason == nullptr ? "" : reason);
  });
}

}  // extern "C"
