#include "comm/rendezvous/callback_store.h"

#include <cstring>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/status.h"
#include "base/wait.h"
#include "tests/comm/rendezvous/store_calls.h"

namespace weft::callback_store_test {
namespace {

struct Foreign {
  std::map<std::string, std::string> data;
  weft_result_t fail = WEFT_SUCCESS;
  int gets = 0;
  int64_t last_timeout_ns = 0;

  static weft_result_t Set(void* user, const char* key, const void* value, size_t size) {
    auto* const self = static_cast<Foreign*>(user);
    self->data[key] = std::string(static_cast<const char*>(value), size);
    return self->fail;
  }

  static weft_result_t Get(void* user, const char* key, void* value, size_t* size,
                           int64_t timeout_ns) {
    auto* const self = static_cast<Foreign*>(user);
    ++self->gets;
    self->last_timeout_ns = timeout_ns;
    if (self->fail != WEFT_SUCCESS) return self->fail;
    const auto found = self->data.find(key);
    if (found == self->data.end()) return WEFT_TIMEOUT;
    const size_t room = *size;
    *size = found->second.size();
    if (room < *size) return WEFT_INVALID_ARGUMENT;
    std::memcpy(value, found->second.data(), *size);
    return WEFT_SUCCESS;
  }

  static weft_result_t Add(void* user, const char* key, int64_t delta, int64_t* result) {
    auto* const self = static_cast<Foreign*>(user);
    std::string& text = self->data[key];
    *result = (text.empty() ? 0 : std::stoll(text)) + delta;
    text = std::to_string(*result);
    return self->fail;
  }

  static weft_result_t Remove(void* user, const char* key) {
    auto* const self = static_cast<Foreign*>(user);
    self->data.erase(key);
    return self->fail;
  }

  weft_store_callbacks_t Callbacks() {
    return {sizeof(weft_store_callbacks_t), this, &Set, &Get, &Add, &Remove};
  }
};

int64_t Soon() {
  return MonotonicNs() + 1'000'000'000;
}

TEST(CallbackStore, PassesEverythingOn) {
  Foreign foreign;
  const weft_store_callbacks_t callbacks = foreign.Callbacks();
  auto store = CallbackStore::Create(&callbacks);
  ASSERT_TRUE(store.ok());
  const std::string value("a\0b", 3);
  ASSERT_TRUE(Set(**store, "key", value, Soon()).ok());
  EXPECT_EQ(*Wait(**store, "key", Soon()), value);
  EXPECT_EQ(*Add(**store, "n", 5, Soon()), 5);
  EXPECT_EQ(*Add(**store, "n", -7, Soon()), -2);
  EXPECT_TRUE(Remove(**store, "n", Soon()).ok());
  EXPECT_TRUE(Remove(**store, "n", Soon()).ok());
  EXPECT_EQ(foreign.data.count("n"), 0u);
  const std::string largest(kStoreValueBytesMax, 'x');
  ASSERT_TRUE(Set(**store, "large", largest, Soon()).ok());
  foreign.gets = 0;
  EXPECT_EQ(*Wait(**store, "large", Soon()), largest);
  EXPECT_EQ(foreign.gets, 2);
}

TEST(CallbackStore, TheDeadlineBecomesATimeoutAlsoWhenItIsLongPast) {
  Foreign foreign;
  const weft_store_callbacks_t callbacks = foreign.Callbacks();
  auto store = CallbackStore::Create(&callbacks);
  EXPECT_EQ(ResultOf(Wait(**store, "none", Soon()).status()), WEFT_TIMEOUT);
  EXPECT_GT(foreign.last_timeout_ns, 0);
  EXPECT_LE(foreign.last_timeout_ns, 1'000'000'000);
  EXPECT_EQ(ResultOf(Wait(**store, "none", INT64_MIN).status()), WEFT_TIMEOUT);
  EXPECT_EQ(foreign.last_timeout_ns, 1);
}

TEST(CallbackStore, WithoutRemoveKeepsItsKeys) {
  Foreign foreign;
  weft_store_callbacks_t callbacks = foreign.Callbacks();
  callbacks.remove = nullptr;
  auto store = CallbackStore::Create(&callbacks);
  ASSERT_TRUE(store.ok());
  ASSERT_TRUE(Set(**store, "key", "value", Soon()).ok());
  EXPECT_TRUE(Remove(**store, "key", Soon()).ok());
  EXPECT_EQ(foreign.data.count("key"), 1u);
}

TEST(CallbackStore, ReportsWhatTheForeignStoreReports) {
  Foreign foreign;
  const weft_store_callbacks_t callbacks = foreign.Callbacks();
  auto store = CallbackStore::Create(&callbacks);
  foreign.fail = WEFT_SYSTEM_ERROR;
  EXPECT_EQ(ResultOf(Set(**store, "key", "", Soon())), WEFT_SYSTEM_ERROR);
  EXPECT_EQ(ResultOf(Wait(**store, "key", Soon()).status()), WEFT_SYSTEM_ERROR);
  EXPECT_EQ(ResultOf(Add(**store, "key", 1, Soon()).status()), WEFT_SYSTEM_ERROR);
  EXPECT_EQ(ResultOf(Remove(**store, "key", Soon())), WEFT_SYSTEM_ERROR);
}

TEST(CallbackStore, BadCallbacksAndKeysAreRefused) {
  EXPECT_EQ(ResultOf(CallbackStore::Create(nullptr).status()), WEFT_INVALID_ARGUMENT);
  Foreign foreign;
  const weft_store_callbacks_t good = foreign.Callbacks();
  for (int i = 0; i < 5; ++i) {
    weft_store_callbacks_t bad = good;
    if (i == 0) bad.struct_size = 0;
    if (i == 1) bad.struct_size += 8;
    if (i == 2) bad.set = nullptr;
    if (i == 3) bad.get = nullptr;
    if (i == 4) bad.add = nullptr;
    EXPECT_EQ(ResultOf(CallbackStore::Create(&bad).status()), WEFT_INVALID_ARGUMENT) << i;
  }
  auto store = CallbackStore::Create(&good);
  EXPECT_EQ(ResultOf(Set(**store, "", "", Soon())), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(Set(**store, std::string("a\0b", 3), "", Soon())), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(ResultOf(Set(**store, "key", std::string(kStoreValueBytesMax + 1, 'x'), Soon())),
            WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(foreign.data.empty());
}

}  // namespace
}  // namespace weft::callback_store_test
