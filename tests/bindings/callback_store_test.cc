// Groups made through a store that the host program brings: a map with a mutex.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include <gmock/gmock.h>

#include "tests/bindings/local_threads.h"

namespace weft::test::callback_store_test {
namespace {

using testing::HasSubstr;
using testing::Not;

class MapStore {
 public:
  // Of a caller that knows `struct_size` bytes of the callbacks.
  explicit MapStore(size_t struct_size = sizeof(weft_store_callbacks_t)) {
    weft_store_callbacks_t callbacks = {};
    callbacks.struct_size = struct_size;
    callbacks.user = this;
    callbacks.set = Set;
    callbacks.get = Get;
    callbacks.add = Add;
    callbacks.remove = Remove;
    EXPECT_EQ(weft_store_create_callbacks(&callbacks, &store_), WEFT_SUCCESS) << weft_last_error();
    std::memset(&callbacks, 0, sizeof(callbacks));  // it was copied
  }

  ~MapStore() { EXPECT_EQ(weft_store_destroy(store_), WEFT_SUCCESS); }

  MapStore(const MapStore&) = delete;
  MapStore& operator=(const MapStore&) = delete;

  weft_store_t get() const { return store_; }

  // From now on every function returns this, and says why unless `reason` is NULL.
  void Break(weft_result_t result, const char* reason = nullptr) {
    const std::lock_guard<std::mutex> lock(mutex_);
    broken_ = result;
    reason_ = reason;
  }

  // From now on keys cannot be removed.
  void BreakRemove() {
    const std::lock_guard<std::mutex> lock(mutex_);
    broken_remove_ = WEFT_SYSTEM_ERROR;
  }

  size_t KeyCount() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return data_.size();
  }

 private:
  weft_result_t Broken() const {
    return reason_ == nullptr ? broken_ : weft_callback_failed(broken_, reason_);
  }

  static weft_result_t Set(void* user, const char* key, const void* value, size_t size) {
    auto& self = *static_cast<MapStore*>(user);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    if (self.broken_ != WEFT_SUCCESS) return self.Broken();
    self.data_[key].assign(static_cast<const char*>(value), size);
    self.changed_.notify_all();
    return WEFT_SUCCESS;
  }

  static weft_result_t Get(void* user, const char* key, void* value, size_t* size,
                           int64_t timeout_ns) {
    auto& self = *static_cast<MapStore*>(user);
    std::unique_lock<std::mutex> lock(self.mutex_);
    if (self.broken_ != WEFT_SUCCESS) return self.Broken();
    const std::string name(key);
    const auto there = [&] {
      return self.data_.count(name) > 0;
    };
    if (!self.changed_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), there)) {
      return WEFT_TIMEOUT;
    }
    const std::string& found = self.data_[name];
    const size_t room = *size;
    *size = found.size();
    if (found.size() > room) return WEFT_INVALID_ARGUMENT;
    std::memcpy(value, found.data(), found.size());
    return WEFT_SUCCESS;
  }

  static weft_result_t Add(void* user, const char* key, int64_t delta, int64_t* result) {
    auto& self = *static_cast<MapStore*>(user);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    if (self.broken_ != WEFT_SUCCESS) return self.Broken();
    std::string& number = self.data_[key];
    *result = (number.empty() ? 0 : std::stoll(number)) + delta;
    number = std::to_string(*result);
    self.changed_.notify_all();
    return WEFT_SUCCESS;
  }

  static weft_result_t Remove(void* user, const char* key) {
    auto& self = *static_cast<MapStore*>(user);
    const std::lock_guard<std::mutex> lock(self.mutex_);
    if (self.broken_remove_ == WEFT_SUCCESS) self.data_.erase(key);
    return self.broken_remove_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> data_;
  weft_result_t broken_ = WEFT_SUCCESS;
  const char* reason_ = nullptr;
  weft_result_t broken_remove_ = WEFT_SUCCESS;
  weft_store_t store_ = nullptr;
};

// One map, one weft_store_t per rank, as ranks in processes would have.
TEST(CallbackStore, MakesGroupsOfSeveralNames) {
  MapStore store;
  for (const char* name : {"first", "second"}) {
    OnThreads(2, [&](int rank) {
      const weft_group_config_t config = ConfigNamed(name);
      weft_group_t group = nullptr;
      ASSERT_EQ(weft_group_create_from_store(store.get(), 2, rank, &config, &group), WEFT_SUCCESS)
          << weft_last_error();
      const char* found = nullptr;
      EXPECT_EQ(weft_group_name(group, &found), WEFT_SUCCESS);
      EXPECT_STREQ(found, name);
      ExpectSumsAndDestroy(group, 2, rank);
    });
  }
}

// Makes a group of `size` ranks as threads, uses and destroys it.
void ExpectAGroup(const MapStore& store, const std::string& name, int size) {
  OnThreads(size, [&](int rank) {
    const weft_group_config_t config = ConfigNamed(name.c_str());
    weft_group_t group = nullptr;
    ASSERT_EQ(weft_group_create_from_store(store.get(), size, rank, &config, &group), WEFT_SUCCESS)
        << weft_last_error();
    ExpectSumsAndDestroy(group, size, rank);
  });
}

TEST(CallbackStore, DoesNotGrowWithTheGroups) {
  MapStore store;
  for (int round = 0; round < 10; ++round) {
    for (const int size : {1, 2, 3, 4, 5, 8}) {
      ExpectAGroup(store, std::to_string(round) + " of " + std::to_string(size), size);
      EXPECT_EQ(store.KeyCount(), 0u);
    }
  }
}

// The ranks of one group are not through with it when those of the next one begin.
TEST(CallbackStore, ServesTheSameNameAgainAndAgain) {
  MapStore store;
  OnThreads(3, [&](int rank) {
    for (int round = 0; round < 30; ++round) {
      const weft_group_config_t config = ConfigNamed("again");
      weft_group_t group = nullptr;
      ASSERT_EQ(weft_group_create_from_store(store.get(), 3, rank, &config, &group), WEFT_SUCCESS)
          << round << ": " << weft_last_error();
      ExpectSumsAndDestroy(group, 3, rank);
    }
  });
  EXPECT_EQ(store.KeyCount(), 0u);
}

// Two ranks look who would join, and take them in; a rank goes and comes again.
TEST(CallbackStore, IsWhereNewcomersAreMet) {
  MapStore store;
  OnThreads(3, [&](int thread) {
    weft_group_config_t config = ConfigNamed("growing");
    config.store = store.get();
    weft_group_t group = nullptr;
    uint32_t epoch = 0;
    if (thread == 2) {
      ASSERT_EQ(weft_group_join(store.get(), &config, &group), WEFT_SUCCESS) << weft_last_error();
    } else {
      ASSERT_EQ(weft_group_create_from_store(store.get(), 2, thread, &config, &group), WEFT_SUCCESS)
          << weft_last_error();
      EXPECT_EQ(weft_group_epoch(group, &epoch), WEFT_SUCCESS);
      EXPECT_EQ(epoch, 1U);
      int waiting = 0;
      while (waiting == 0) {
        ASSERT_EQ(weft_group_newcomers(group, store.get(), &waiting), WEFT_SUCCESS)
            << weft_last_error();
      }
      // The other may still have to ask.
      ASSERT_EQ(weft_barrier(group, nullptr, nullptr), WEFT_SUCCESS) << weft_last_error();
      const int members[] = {0, 1, WEFT_NEW_RANK};
      ASSERT_EQ(weft_group_reconfigure(group, members, 3, &config), WEFT_SUCCESS)
          << weft_last_error();
    }
    int rank = -1;
    EXPECT_EQ(weft_group_rank(group, &rank), WEFT_SUCCESS);
    EXPECT_EQ(rank, thread);
    EXPECT_EQ(weft_group_epoch(group, &epoch), WEFT_SUCCESS);
    EXPECT_EQ(epoch, 2U);
    const char* name = nullptr;
    EXPECT_EQ(weft_group_name(group, &name), WEFT_SUCCESS);
    EXPECT_STREQ(name, "growing");
    ExpectSumsAndDestroy(group, 3, rank);
  });
}

TEST(CallbackStore, OfACallerThatKnowsNoRemoveKeepsTheKeys) {
  MapStore store(offsetof(weft_store_callbacks_t, remove));
  ExpectAGroup(store, "old", 2);
  EXPECT_EQ(store.KeyCount(), 5u);
  const weft_group_config_t config = ConfigNamed("old");
  weft_group_t group = nullptr;
  EXPECT_EQ(weft_group_create_from_store(store.get(), 2, 0, &config, &group), WEFT_INVALID_USAGE)
      << "the name is taken";
}

TEST(CallbackStore, ThatFailsToRemoveDoesNoHarm) {
  MapStore store;
  store.BreakRemove();
  ExpectAGroup(store, "first", 3);
  ExpectAGroup(store, "second", 3);
  EXPECT_EQ(store.KeyCount(), 14u);
}

TEST(CallbackStore, GroupsOutliveTheirStore) {
  weft_group_t groups[2] = {};
  {
    MapStore store;
    OnThreads(2, [&](int rank) {
      const weft_group_config_t config = ConfigNamed("survivors");
      EXPECT_EQ(weft_group_create_from_store(store.get(), 2, rank, &config, &groups[rank]),
                WEFT_SUCCESS)
          << weft_last_error();
    });
  }
  OnThreads(2, [&](int rank) { ExpectSumsAndDestroy(groups[rank], 2, rank); });
}

TEST(CallbackStore, WhatTheStoreReportsIsReported) {
  MapStore store;
  store.Break(WEFT_SYSTEM_ERROR);
  const weft_group_config_t config = ConfigNamed("broken");
  weft_group_t group = nullptr;
  EXPECT_EQ(weft_group_create_from_store(store.get(), 2, 0, &config, &group), WEFT_SYSTEM_ERROR);
  EXPECT_THAT(weft_last_error(), HasSubstr("store given by callbacks"));
  EXPECT_THAT(weft_last_error(), Not(HasSubstr("server is away")));
  EXPECT_EQ(group, nullptr);
  store.Break(WEFT_SYSTEM_ERROR, "the server is away");
  EXPECT_EQ(weft_group_create_from_store(store.get(), 2, 0, &config, &group), WEFT_SYSTEM_ERROR);
  EXPECT_THAT(weft_last_error(), HasSubstr("it returned 2: the server is away"));
  // A sentence that was left behind without a failure is not that of the next one.
  weft_callback_failed(WEFT_TIMEOUT, "said in passing");
  store.Break(WEFT_SYSTEM_ERROR);
  EXPECT_EQ(weft_group_create_from_store(store.get(), 2, 0, &config, &group), WEFT_SYSTEM_ERROR);
  EXPECT_THAT(weft_last_error(), Not(HasSubstr("in passing")));
}

TEST(CallbackStore, ARankThatDoesNotComeIsATimeoutThatNamesIt) {
  MapStore store;
  const weft_group_config_t config = ConfigNamed("lonely", 50'000'000);
  weft_group_t group = nullptr;
  EXPECT_EQ(weft_group_create_from_store(store.get(), 2, 0, &config, &group), WEFT_TIMEOUT);
  EXPECT_THAT(weft_last_error(), HasSubstr("1"));
  EXPECT_EQ(group, nullptr);
}

}  // namespace
}  // namespace weft::test::callback_store_test
