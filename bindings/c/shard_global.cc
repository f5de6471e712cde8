// The C interface of include/weft/shard_global.h over shard/: which interval of which global tensor a param is.
#include "weft/shard_global.h"

#include "base/status.h"
#include "base/text.h"
#include "bindings/c/guard.h"
#include "bindings/c/shard_handles.h"
#include "shard/context/context.h"

namespace calls = weft::shard_calls;
using weft::Guarded;

extern "C" {

weft_result_t weft_shard_param_global(weft_shard_param_t param, const weft_shard_global_t* global) {
  return Guarded([&]() -> absl::Status {
    constexpr char kCall[] = "shard_param_global";
    WEFT_RETURN_IF_ERROR(calls::Check(kCall, param));
    if (global == nullptr) {
      return calls::Invalid(kCall, "global is NULL; pass a weft_shard_global_t");
    }
    weft_shard_global_t copy{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, global, &copy));
    if (copy.name == nullptr) {
      return calls::Invalid(kCall, "name is NULL; give the name of the global tensor");
    }
    if (copy.shape == nullptr && copy.ndim > 0) {
      return calls::Invalid(kCall, weft::StrCat("shape of ", copy.name, " is NULL; pass its ",
                                                copy.ndim, " dimensions"));
    }
    return calls::About(*param, param->owner->context->builder().SetParamGlobal(
                                    param->index, copy.name, copy.shape, copy.ndim, copy.offset));
  });
}

}  // extern "C"
