// Log, options, version and the names of types: the parts of the C interface that have no handle.
#include "weft/log.h"
#include "weft/options.h"
#include "weft/version.h"

#include "base/log.h"
#include "base/options.h"
#include "bindings/c/guard.h"
#include "bindings/c/op.h"
#include "bindings/c/struct_size.h"
#include "comm/kernels/dtype.h"

using weft::Guarded;

weft_result_t weft_log_set_callback(weft_log_callback_t callback, void* user) {
  weft::SetLogCallback(callback, user);
  return WEFT_SUCCESS;
}

weft_result_t weft_log_set_level(weft_log_level_t level) {
  return Guarded([&]() -> absl::Status {
    if (level < WEFT_LOG_ERROR || level > WEFT_LOG_DEBUG) {
      return weft::InvalidArgument("weft_log_set_level",
                                   weft::StrCat(static_cast<int>(level), " is not a log level"));
    }
    weft::SetLogLevel(level);
    return absl::OkStatus();
  });
}

size_t weft_option_count(void) {
  return weft::OptionCount();
}

weft_result_t weft_option_at(size_t index, weft_option_info_t* info) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_option_at";
    if (info == nullptr) return weft::InvalidArgument(kCall, "info is NULL");
    WEFT_RETURN_IF_ERROR(weft::CheckAnswer(kCall, info));
    if (index >= weft::OptionCount()) {
      return weft::InvalidArgument(
          kCall, weft::StrCat("index ", index, " is not below ", weft::OptionCount()));
    }
    const weft::OptionRow& row = weft::OptionAt(index);
    const weft_option_info_t made = {.environment = row.environment,
                                     .type = row.type,
                                     .default_value = row.default_value,
                                     .meaning = row.meaning};
    weft::WriteAnswer(made, info);
    return absl::OkStatus();
  });
}

int weft_version(void) {
  return WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH;
}

size_t weft_dtype_size(weft_dtype_t dtype) {
  return weft::DtypeSize(dtype);
}

const char* weft_dtype_name(weft_dtype_t dtype) {
  return weft::DtypeName(dtype);
}

const char* weft_op_name(weft_op_t op) {
  if (op < WEFT_OP_CUSTOM_FIRST) {
    const bool internal = op == weft::kOpPremulSum || op == weft::kOpUser;
    return internal ? "unknown" : weft::OpName(op);
  }
  const auto made = weft::CustomOpOf(op);
  return made.ok() ? weft::OpName((*made)->kind) : "unknown";
}
