#include "comm/rendezvous/store_data.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "base/text.h"
#include "base/wire.h"

namespace weft {
namespace {

StoreData::Answer ToAnswer(int client, uint64_t request, FrameType type, std::string body) {
  return {client, {.type = type, .request = request, .body = std::move(body)}};
}

StoreData::Answer Refused(int client, uint64_t request, weft_result_t result,
                          std::string_view sentence) {
  WireWriter writer;
  writer.I32(static_cast<int32_t>(result));
  writer.Text(sentence);
  return ToAnswer(client, request, FrameType::kRefused, writer.Take());
}

}  // namespace

bool StoreData::Serve(int client, const Frame& frame, std::vector<Answer>* answers) {
  // One request at a time: a new one ends the wait before it.
  Forget(client);
  switch (frame.type) {
    case FrameType::kSet:
      return Set(client, frame, answers);
    case FrameType::kWait:
      return Wait(client, frame, answers);
    case FrameType::kAdd:
      return Add(client, frame, answers);
    case FrameType::kRemove:
      return Remove(client, frame, answers);
    case FrameType::kCancel:
      return frame.body.empty();
    default:
      return false;
  }
}

void StoreData::Forget(int client) {
  const auto waiter = waiters_.find(client);
  if (waiter == waiters_.end()) return;
  const auto clients = waiting_.find(waiter->second.key);
  clients->second.erase(client);
  if (clients->second.empty()) waiting_.erase(clients);
  waiters_.erase(waiter);
}

bool StoreData::Set(int client, const Frame& frame, std::vector<Answer>* answers) {
  WireReader reader(frame.body);
  const std::string_view key = reader.Text(kStoreKeyBytesMax);
  const std::string_view value = reader.Text(kStoreValueBytesMax);
  if (!reader.Finished() || key.empty()) return false;
  if (Keep(key, std::string(value), answers)) {
    answers->push_back(ToAnswer(client, frame.request, FrameType::kDone, ""));
  } else {
    answers->push_back(Refused(
        client, frame.request, WEFT_OUT_OF_MEMORY,
        StrCat("the store is full: it holds at most ", kBytesMax, " bytes of keys and values")));
  }
  return true;
}

bool StoreData::Wait(int client, const Frame& frame, std::vector<Answer>* answers) {
  WireReader reader(frame.body);
  const std::string_view key = reader.Text(kStoreKeyBytesMax);
  const bool may_wait = reader.U8() != 0;
  if (!reader.Finished() || key.empty()) return false;
  const auto value = values_.find(key);
  if (value != values_.end()) {
    answers->push_back(ToAnswer(client, frame.request, FrameType::kValue, value->second));
  } else if (may_wait) {
    waiters_[client] = {std::string(key), frame.request};
    waiting_[std::string(key)].insert(client);
  } else {
    answers->push_back(ToAnswer(client, frame.request, FrameType::kAbsent, ""));
  }
  return true;
}

bool StoreData::Add(int client, const Frame& frame, std::vector<Answer>* answers) {
  WireReader reader(frame.body);
  const std::string_view key = reader.Text(kStoreKeyBytesMax);
  const int64_t delta = reader.I64();
  if (!reader.Finished() || key.empty()) return false;
  int64_t number = 0;
  const auto value = values_.find(key);
  if (value != values_.end() && !absl::SimpleAtoi(value->second, &number)) {
    answers->push_back(Refused(client, frame.request, WEFT_INVALID_USAGE,
                               StrCat("the value of store key ", key, " is not a number")));
    return true;
  }
  int64_t sum = 0;
  if (__builtin_add_overflow(number, delta, &sum) || !Keep(key, StrCat(sum), answers)) {
    answers->push_back(
        Refused(client, frame.request, WEFT_INVALID_USAGE,
                StrCat("the number under store key ", key, " cannot hold ", number, " + ", delta)));
    return true;
  }
  WireWriter writer;
  writer.I64(sum);
  answers->push_back(ToAnswer(client, frame.request, FrameType::kNumber, writer.Take()));
  return true;
}

// Who waits for the key goes on: it may be written again.
bool StoreData::Remove(int client, const Frame& frame, std::vector<Answer>* answers) {
  WireReader reader(frame.body);
  const std::string_view key = reader.Text(kStoreKeyBytesMax);
  if (!reader.Finished() || key.empty()) return false;
  const auto value = values_.find(key);
  if (value != values_.end()) {
    bytes_ -= value->first.size() + value->second.size();
    values_.erase(value);
  }
  answers->push_back(ToAnswer(client, frame.request, FrameType::kDone, ""));
  return true;
}

bool StoreData::Keep(std::string_view key, std::string value, std::vector<Answer>* answers) {
  const auto found = values_.find(key);
  const size_t former = found == values_.end() ? 0 : key.size() + found->second.size();
  const size_t bytes = bytes_ - former + key.size() + value.size();
  if (bytes > kBytesMax) return false;
  bytes_ = bytes;
  const auto waiting = waiting_.find(key);
  if (waiting != waiting_.end()) {
    for (const int client : waiting->second) {
      answers->push_back(ToAnswer(client, waiters_[client].request, FrameType::kValue, value));
      waiters_.erase(client);
    }
    waiting_.erase(waiting);
  }
  values_.insert_or_assign(std::string(key), std::move(value));
  return true;
}

}  // namespace weft
