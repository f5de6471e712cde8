// Making a group that somebody does not come to: while it waits it says for whom, and where, long before its deadline.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/bindings/local_threads.h"
#include "tests/support/forked_ranks.h"

namespace weft::test::long_making_test {
namespace {

constexpr int64_t kMakingNs = 4'000'000'000;

// What weft logs while it lives.
class Log {
 public:
  Log() { EXPECT_EQ(weft_log_set_callback(Take, this), WEFT_SUCCESS); }

  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  ~Log() { weft_log_set_callback(nullptr, nullptr); }

  // Waits for a line that the pattern is found in; false if there is none in time.
  bool Has(const std::string& pattern) {
    const std::regex wanted(pattern);
    std::unique_lock<std::mutex> lock(mutex_);
    return more_.wait_for(lock, std::chrono::seconds(30), [&] {
      for (const std::string& line : lines_)
        if (std::regex_search(line, wanted)) return true;
      return false;
    });
  }

  std::string text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string all;
    for (const std::string& line : lines_)
      all += line + "\n";
    return all;
  }

 private:
  static void Take(weft_log_level_t, const char* message, void* self) {
    auto* const log = static_cast<Log*>(self);
    const std::lock_guard<std::mutex> lock(log->mutex_);
    log->lines_.emplace_back(message);
    log->more_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> lines_;
};

weft_group_config_t Config(const char* name) {
  weft_group_config_t config = ConfigNamed(name);
  config.init_timeout_ns = kMakingNs;
  return config;
}

// A port of 127.0.0.1 that nobody else has while it lives; `listens`: and that is taken.
class Port {
 public:
  explicit Port(bool listens) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), bytes), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &bytes), 0);
    if (listens) {
      EXPECT_EQ(listen(socket_, 1), 0);
    }
    number_ = ntohs(address.sin_port);
  }

  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  ~Port() { close(socket_); }

  std::string number() const { return std::to_string(number_); }

 private:
  const int socket_;
  int number_ = 0;
};

// One rank of two under torchrun, each on a node of its own; "" if what it logs has the pattern.
std::string LogsFromEnvironment(int rank, const std::string& port, const std::string& pattern) {
  Log log;
  char secret[] = "/tmp/weft-secret-XXXXXX";
  const int file = mkstemp(secret);
  const std::string text(64, 'a');
  if (file < 0 || write(file, text.data(), text.size()) < 0) return "no file";
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"RANK", std::to_string(rank)},
                                          {"WORLD_SIZE", "2"},
                                          {"LOCAL_RANK", "0"},
                                          {"LOCAL_WORLD_SIZE", "1"},
                                          {"MASTER_ADDR", "127.0.0.1"},
                                          {"MASTER_PORT", port},
                                          {"WEFT_JOB_SECRET_FILE", secret}}) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  weft_group_t group = nullptr;
  const weft_group_config_t config = Config("env");
  const weft_result_t made = weft_group_create_from_env(&config, &group);
  unlink(secret);
  if (made == WEFT_SUCCESS) return "there is a group";
  return log.Has(pattern) ? "" : log.text() + weft_last_error();
}

// The first test, since a forked process takes memory of threads that it has not for lost.
TEST(LongMaking, FromTheEnvironmentSaysWhatCallingRank0WasAnswered) {
  const Port free(false);
  const Port taken(true);
  const std::vector<RankEnd> ends = RunForkedRanks(2, 60, [&](int rank) {
    return rank == 1
               ? LogsFromEnvironment(
                     1, free.number(),
                     "rank 1 of 2 has waited [234] s for the store at tcp:127.0.0.1:" +
                         free.number() +
                         " of rank 0 \\(by MASTER_ADDR=127.0.0.1, or the launcher's word\\): "
                         "Connection refused [0-9]+ times; check that rank 0 was "
                         "started")
               : LogsFromEnvironment(0, taken.number(),
                                     "this process has waited [234] s to host the store: could not "
                                     "listen on tcp:127.0.0.1:" +
                                         taken.number() + ": (bind: )?Address already in use");
  });
  for (const RankEnd& end : ends)
    EXPECT_EQ(end.Problem(), "");
}

void JoinInVain(const weft_unique_id_t& id, int size, int rank, const char* name) {
  const weft_group_config_t config = Config(name);
  weft_group_t group = nullptr;
  EXPECT_EQ(weft_group_create_from_id(&id, size, rank, &config, &group), WEFT_TIMEOUT);
}

TEST(LongMaking, ThroughAUniqueIdSaysWhoHasNotCome) {
  Log log;
  weft_unique_id_t two_of_five;
  weft_unique_id_t without_rank_0;
  ASSERT_EQ(weft_unique_id_create(&two_of_five), WEFT_SUCCESS) << weft_last_error();
  ASSERT_EQ(weft_unique_id_create(&without_rank_0), WEFT_SUCCESS) << weft_last_error();
  OnThreads(3, [&](int thread) {
    if (thread < 2) JoinInVain(two_of_five, 5, thread == 0 ? 0 : 3, "five");
    if (thread == 2) JoinInVain(without_rank_0, 2, 1, "headless");
  });
  const std::string there =
      " to the store at unix:@weft-[0-9a-f]+ of the process that made the unique id; check that ";
  for (const char* rank : {"0", "3"}) {
    EXPECT_TRUE(log.Has(std::string("group five: rank ") + rank +
                        " has waited [234] s for ranks 1, 2, 4 of 5, which have not come" + there +
                        "they were started"))
        << log.text();
  }
  EXPECT_TRUE(
      log.Has("group headless: rank 1 has waited [234] s for rank 0 of 2, which has not come" +
              there + "it was started"))
      << log.text();
}

// A store in memory, whose functions wait as long as they are told to.
struct MapStore {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> values;
};

weft_result_t SetValue(void* user, const char* key, const void* value, size_t bytes) {
  auto* const store = static_cast<MapStore*>(user);
  const std::lock_guard<std::mutex> lock(store->mutex);
  store->values[key].assign(static_cast<const char*>(value), bytes);
  store->changed.notify_all();
  return WEFT_SUCCESS;
}

weft_result_t GetValue(void* user, const char* key, void* value, size_t* bytes,
                       int64_t timeout_ns) {
  auto* const store = static_cast<MapStore*>(user);
  std::unique_lock<std::mutex> lock(store->mutex);
  const auto there = [&] {
    return store->values.count(key) > 0;
  };
  if (!store->changed.wait_for(lock, std::chrono::nanoseconds(timeout_ns), there))
    return WEFT_TIMEOUT;
  const std::string& found = store->values[key];
  const size_t room = *bytes;
  *bytes = found.size();
  if (room < found.size()) return WEFT_INVALID_ARGUMENT;
  found.copy(static_cast<char*>(value), found.size());
  return WEFT_SUCCESS;
}

weft_result_t AddTo(void* user, const char* key, int64_t delta, int64_t* sum) {
  auto* const store = static_cast<MapStore*>(user);
  const std::lock_guard<std::mutex> lock(store->mutex);
  std::string& value = store->values[key];
  *sum = (value.empty() ? 0 : std::stoll(value)) + delta;
  value = std::to_string(*sum);
  return WEFT_SUCCESS;
}

TEST(LongMaking, ThroughAStoreOfTheProgramAndOfANewcomerSaysSo) {
  Log log;
  MapStore memory;
  weft_store_callbacks_t callbacks = {};
  callbacks.struct_size = sizeof(callbacks);
  callbacks.user = &memory;
  callbacks.set = SetValue;
  callbacks.get = GetValue;
  callbacks.add = AddTo;
  weft_store_t stores[2] = {};
  for (weft_store_t& store : stores)
    ASSERT_EQ(weft_store_create_callbacks(&callbacks, &store), WEFT_SUCCESS) << weft_last_error();
  OnThreads(2, [&](int thread) {
    weft_group_t group = nullptr;
    const weft_group_config_t config = Config(thread == 0 ? "pair" : "grown");
    const weft_result_t made = thread == 0
                                   ? weft_group_create_from_store(stores[0], 2, 0, &config, &group)
                                   : weft_group_join(stores[1], &config, &group);
    EXPECT_EQ(made, WEFT_TIMEOUT) << weft_last_error();
  });
  EXPECT_TRUE(
      log.Has("group pair: rank 0 has waited [234] s for rank 1 of 2, which has not come to the "
              "store that the program has passed"))
      << log.text();
  EXPECT_TRUE(
      log.Has("joining group grown: this process has waited [234] s in the store that the "
              "program has passed for its ranks to take it in"))
      << log.text();
  for (weft_store_t store : stores)
    weft_store_destroy(store);
}

TEST(LongMaking, AnewSaysWhoHasNotCalled) {
  Log log;
  const weft_group_config_t config = ConfigNamed("renewed");
  weft_group_t groups[3] = {};
  ASSERT_EQ(weft_group_create_local(3, &config, groups), WEFT_SUCCESS) << weft_last_error();
  OnThreads(3, [&](int rank) {
    const std::string said =
        "reconfiguring group renewed: rank [01] has waited [0-9]+ s for rank 2 .*"
        "to call weft_group_reconfigure";
    if (rank == 2) {
      EXPECT_TRUE(log.Has(said)) << log.text();
    }
    EXPECT_EQ(weft_group_reconfigure(groups[rank], nullptr, 0, nullptr), WEFT_SUCCESS)
        << weft_last_error();
    ExpectSumsAndDestroy(groups[rank], 3, rank);
  });
}

}  // namespace
}  // namespace weft::test::long_making_test
