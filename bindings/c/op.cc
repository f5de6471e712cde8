#include "bindings/c/op.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "weft/op.h"

#include "base/mutex.h"
#include "bindings/c/guard.h"
#include "bindings/c/struct_size.h"

namespace weft {
namespace {

constexpr size_t kNameBytesMax = 63;

struct Registry {
  Mutex mutex;
  int64_t next WEFT_GUARDED_BY(mutex) = WEFT_OP_CUSTOM_FIRST;
  std::map<int64_t, std::shared_ptr<const CustomOp>> ops WEFT_GUARDED_BY(mutex);
};

Registry& OpRegistry() {
  static Registry& registry = *new Registry;  // never destroyed: static destructors may use it
  return registry;
}

// Numbers are not used again: who still has one that was destroyed gets an error, not another's.
absl::StatusOr<weft_op_t> Register(std::string_view call, CustomOp op) {
  auto made = std::make_shared<const CustomOp>(std::move(op));
  Registry& registry = OpRegistry();
  MutexLock lock(registry.mutex);
  if (registry.next > WEFT_OP_CUSTOM_LAST) {
    return CallError(WEFT_OUT_OF_MEMORY, call,
                     "all numbers of reductions have been used; make one and keep it");
  }
  registry.ops[registry.next] = std::move(made);
  return static_cast<weft_op_t>(registry.next++);
}

// The caller's, given back when nothing uses the reduction any more.
struct OwnedUser {
  explicit OwnedUser(void* given) : user(given) {}

  OwnedUser(const OwnedUser&) = delete;
  OwnedUser& operator=(const OwnedUser&) = delete;

  ~OwnedUser() {
    if (release != nullptr) release(user);
  }

  void* const user;
  void (*release)(void* user) = nullptr;
};

std::string WhyNone(weft_op_t op) {
  return StrCat(static_cast<int>(op), " is not a reduction made by weft/op.h, or was destroyed");
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CustomOp>> CustomOpOf(weft_op_t op) {
  Registry& registry = OpRegistry();
  MutexLock lock(registry.mutex);
  const auto found = registry.ops.find(op);
  if (found == registry.ops.end()) return MakeError(WEFT_INVALID_ARGUMENT, WhyNone(op));
  return found->second;
}

}  // namespace weft

using weft::Guarded;

weft_result_t weft_op_create_premul_sum(const void* factor, weft_dtype_t dtype, weft_op_t* op) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_op_create_premul_sum";
    if (factor == nullptr) return weft::InvalidArgument(kCall, "factor is NULL");
    if (op == nullptr) return weft::InvalidArgument(kCall, "op is NULL");
    if (!weft::IsDtype(dtype)) {
      return weft::InvalidArgument(kCall,
                                   weft::StrCat(static_cast<int>(dtype), " is not a data type"));
    }
    if (dtype == WEFT_BOOL) {
      return weft::InvalidArgument(kCall, "booleans have no factors; use a numeric type");
    }
    WEFT_ASSIGN_OR_RETURN(*op, weft::Register(kCall, {.kind = weft::kOpPremulSum,
                                                      .dtype = dtype,
                                                      .factor = weft::FactorBits(dtype, factor)}));
    return absl::OkStatus();
  });
}

weft_result_t weft_op_create_user(const weft_user_op_config_t* config, weft_op_t* op) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_op_create_user";
    if (config == nullptr) return weft::InvalidArgument(kCall, "config is NULL");
    weft_user_op_config_t full{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, config, &full));
    if (full.function == nullptr) return weft::InvalidArgument(kCall, "function is NULL");
    if (full.name == nullptr) return weft::InvalidArgument(kCall, "name is NULL");
    if (op == nullptr) return weft::InvalidArgument(kCall, "op is NULL");
    const size_t bytes = strnlen(full.name, weft::kNameBytesMax + 1);
    if (bytes == 0) {
      return weft::InvalidArgument(kCall, "name is empty; ranks are compared by it");
    }
    if (bytes > weft::kNameBytesMax) {
      return weft::InvalidArgument(
          kCall, weft::StrCat("name is longer than ", weft::kNameBytesMax, " bytes"));
    }
    if (full.element_count > WEFT_USER_ELEMENT_BYTES_MAX) {
      return weft::InvalidArgument(kCall, weft::StrCat("element_count is ", full.element_count,
                                                       ", and an element has at most ",
                                                       WEFT_USER_ELEMENT_BYTES_MAX, " bytes"));
    }
    const auto owner = std::make_shared<weft::OwnedUser>(full.user);
    WEFT_ASSIGN_OR_RETURN(
        *op, weft::Register(kCall, {.kind = weft::kOpUser,
                                    .function = full.function,
                                    .user = full.user,
                                    .element_count = std::max<size_t>(1, full.element_count),
                                    .name = std::string(full.name, bytes),
                                    .owner = owner}));
    owner->release = full.release_user;  // a call that fails releases nothing
    return absl::OkStatus();
  });
}

weft_result_t weft_op_destroy(weft_op_t op) {
  return Guarded([&]() -> absl::Status {
    std::shared_ptr<const weft::CustomOp>
        last;  // freed when the mutex is free again: it may call the program
    weft::Registry& registry = weft::OpRegistry();
    weft::MutexLock lock(registry.mutex);
    const auto found = registry.ops.find(op);
    if (found == registry.ops.end()) {
      return weft::InvalidArgument("weft_op_destroy", weft::WhyNone(op));
    }
    last = std::move(found->second);
    registry.ops.erase(found);
    return absl::OkStatus();
  });
}
