#include "base/log.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft::log_test {
namespace {

struct Sink {
  std::vector<std::string> messages;
  std::vector<weft_log_level_t> levels;

  static void Receive(weft_log_level_t level, const char* message, void* self) {
    static_cast<Sink*>(self)->levels.push_back(level);
    static_cast<Sink*>(self)->messages.emplace_back(message);
  }
};

TEST(Log, GivesMessagesUpToTheLevelToTheCallback) {
  Sink sink;
  SetLogCallback(&Sink::Receive, &sink);
  SetLogLevel(WEFT_LOG_WARN);
  LogError("rank ", 3, " of ", std::string_view("dp"));
  LogWarn("warned");
  LogInfo("not this");
  SetLogLevel(WEFT_LOG_DEBUG);
  LogDebug("but this");
  SetLogLevel(WEFT_LOG_WARN);
  SetLogCallback(nullptr, nullptr);
  EXPECT_EQ(sink.messages, (std::vector<std::string>{"rank 3 of dp", "warned", "but this"}));
  EXPECT_EQ(sink.levels,
            (std::vector<weft_log_level_t>{WEFT_LOG_ERROR, WEFT_LOG_WARN, WEFT_LOG_DEBUG}));
}

TEST(Log, WritesLinesToStderrWithoutACallback) {
  testing::internal::CaptureStderr();
  LogWarn("a sentence");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "weft: warning: a sentence\n");
}

// A callback in flight holds SetLogCallback back until it has returned, so that its `user` may be
// freed afterwards.
struct Slow {
  std::atomic<bool> entered{false};
  std::atomic<bool> replacing{false};
  std::atomic<bool> left{false};

  static void Receive(weft_log_level_t, const char*, void* self) {
    auto* const slow = static_cast<Slow*>(self);
    slow->entered = true;
    while (!slow->replacing)
      std::this_thread::yield();
    for (int i = 0; i < 100; ++i)
      std::this_thread::yield();
    slow->left = true;
  }
};

TEST(Log, ReplacingACallbackWaitsUntilItHasReturned) {
  Slow slow;
  SetLogCallback(&Slow::Receive, &slow);
  std::thread logger([] { LogWarn("held"); });
  while (!slow.entered)
    std::this_thread::yield();
  slow.replacing = true;
  SetLogCallback(nullptr, nullptr);
  EXPECT_TRUE(slow.left);
  logger.join();
}

}  // namespace
}  // namespace weft::log_test
