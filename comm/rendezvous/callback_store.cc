#include "comm/rendezvous/callback_store.h"

#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

// What most values need; a larger one costs a second call.
constexpr size_t kFirstRoomBytes = 4096;

absl::Status Failed(const char* what, std::string_view key, weft_result_t result) {
  const weft_result_t reported = result == WEFT_SUCCESS ? WEFT_REMOTE_ERROR : result;
  return MakeError(reported, StrCat("the store given by callbacks could not ", what, " key ", key,
                                    ": it returned ", static_cast<int>(result)));
}

absl::Status CheckKey(std::string_view key) {
  if (!key.empty() && key.size() <= kStoreKeyBytesMax && key.find('\0') == std::string_view::npos) {
    return absl::OkStatus();
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("a store key has ", key.size(), " bytes or a NUL, allowed are 1 to ",
                          kStoreKeyBytesMax, " bytes"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<CallbackStore>> CallbackStore::Create(
    const weft_store_callbacks_t* callbacks) {
  if (callbacks == nullptr) return MakeError(WEFT_INVALID_ARGUMENT, "the store callbacks are NULL");
  if (callbacks->struct_size != sizeof(weft_store_callbacks_t)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("the store callbacks have struct_size ", callbacks->struct_size,
                            ", expected ", sizeof(weft_store_callbacks_t)));
  }
  if (callbacks->set == nullptr || callbacks->get == nullptr || callbacks->add == nullptr) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     "the store callbacks lack a function: set, get and add are all needed");
  }
  return std::unique_ptr<CallbackStore>(new CallbackStore(*callbacks));
}

absl::Status CallbackStore::Set(std::string_view key, std::string_view value,
                                int64_t /*deadline_ns*/) {
  WEFT_RETURN_IF_ERROR(CheckKey(key));
  if (value.size() > kStoreValueBytesMax) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("the value of store key ", key, " has ", value.size(),
                            " bytes, allowed are ", kStoreValueBytesMax));
  }
  const weft_result_t result =
      callbacks_.set(callbacks_.user, std::string(key).c_str(), value.data(), value.size());
  return result == WEFT_SUCCESS ? absl::OkStatus() : Failed("set", key, result);
}

absl::StatusOr<std::string> CallbackStore::Wait(std::string_view key, int64_t deadline_ns) {
  WEFT_RETURN_IF_ERROR(CheckKey(key));
  const std::string name(key);
  std::string value(kFirstRoomBytes, '\0');
  // Twice: the second time with the room that the first said is needed.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int64_t now_ns = MonotonicNs();
    const int64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 1;
    size_t size = value.size();
    const weft_result_t result =
        callbacks_.get(callbacks_.user, name.c_str(), value.data(), &size, left_ns);
    if (result == WEFT_SUCCESS && size <= value.size()) {
      value.resize(size);
      return value;
    }
    const bool grow = result == WEFT_INVALID_ARGUMENT && size > value.size() &&
                      size <= kStoreValueBytesMax && attempt == 0;
    if (!grow) return Failed("get", key, result);
    value.resize(size);
  }
  return Failed("get", key, WEFT_INVALID_ARGUMENT);
}

absl::StatusOr<int64_t> CallbackStore::Add(std::string_view key, int64_t delta,
                                           int64_t /*deadline_ns*/) {
  WEFT_RETURN_IF_ERROR(CheckKey(key));
  int64_t sum = 0;
  const weft_result_t result =
      callbacks_.add(callbacks_.user, std::string(key).c_str(), delta, &sum);
  if (result != WEFT_SUCCESS) return Failed("add to", key, result);
  return sum;
}

}  // namespace weft
