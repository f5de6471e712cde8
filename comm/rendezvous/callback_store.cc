#include "comm/rendezvous/callback_store.h"

#include "base/callback_reason.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

// What most values need; a larger one costs a second call.
constexpr size_t kFirstRoomBytes = 4096;

absl::Status Failed(const char* what, std::string_view key, const CallbackAnswer& answer) {
  const weft_result_t reported =
      answer.result == WEFT_SUCCESS ? WEFT_REMOTE_ERROR : answer.result;
  return MakeError(reported, StrCat("the store given by callbacks could not ", what, " key ", key,
                                    ": it returned ", static_cast<int>(answer.result),
                                    BehindColon(answer)));
}

absl::Status CheckForCallbacks(const StoreRequest& request) {
  const std::string& key = request.key;
  if (key.empty() || key.size() > kStoreKeyBytesMax || key.find('\0') != std::string::npos) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("a store key has ", key.size(), " bytes or a NUL, allowed are 1 to ",
                            kStoreKeyBytesMax, " bytes"));
  }
  return CheckRequest(request);
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

CallbackStore::~CallbackStore() {
  if (callbacks_.release_user != nullptr) callbacks_.release_user(callbacks_.user);
}

StoreReply CallbackStore::Ask(StoreRequest request) {
  StoreReply reply{.status = CheckForCallbacks(request)};
  if (!reply.status.ok()) return reply;
  const char* const key = request.key.c_str();
  if (request.kind == StoreRequest::Kind::kSet) {
    const CallbackAnswer answer = AskCallback([&] {
      return callbacks_.set(callbacks_.user, key, request.value.data(), request.value.size());
    });
    if (answer.result != WEFT_SUCCESS) reply.status = Failed("set", key, answer);
  } else if (request.kind == StoreRequest::Kind::kAdd) {
    const CallbackAnswer answer = AskCallback(
        [&] { return callbacks_.add(callbacks_.user, key, request.delta, &reply.number); });
    if (answer.result != WEFT_SUCCESS) reply.status = Failed("add to", key, answer);
  } else if (request.kind == StoreRequest::Kind::kRemove) {
    const CallbackAnswer answer = AskCallback([&] {
      return callbacks_.remove == nullptr ? WEFT_SUCCESS : callbacks_.remove(callbacks_.user, key);
    });
    if (answer.result != WEFT_SUCCESS) reply.status = Failed("remove", key, answer);
  } else {
    absl::StatusOr<std::string> value = Get(request);
    reply.status = value.status();
    if (value.ok()) reply.value = *std::move(value);
  }
  return reply;
}

absl::StatusOr<std::string> CallbackStore::Get(const StoreRequest& request) const {
  std::string value(kFirstRoomBytes, '\0');
  // Twice: the second time with the room that the first said is needed.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const int64_t now_ns = MonotonicNs();
    const int64_t left_ns = request.deadline_ns > now_ns ? request.deadline_ns - now_ns : 1;
    size_t size = value.size();
    const CallbackAnswer answer = AskCallback([&] {
      return callbacks_.get(callbacks_.user, request.key.c_str(), value.data(), &size, left_ns);
    });
    if (answer.result == WEFT_SUCCESS && size <= value.size()) {
      value.resize(size);
      return value;
    }
    const bool grow = answer.result == WEFT_INVALID_ARGUMENT && size > value.size() &&
                      size <= kStoreValueBytesMax && attempt == 0;
    if (!grow) return Failed("get", request.key, answer);
    value.resize(size);
  }
  return Failed("get", request.key, {.result = WEFT_INVALID_ARGUMENT});
}

}  // namespace weft
