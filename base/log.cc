#include "base/log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <iterator>
#include <memory>
#include <string>

#include <pthread.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/options.h"

namespace weft {
namespace {

constexpr int kLevelUnset = -1;

// One callback and how many threads are in it. Replacing it waits for that count to fall to zero,
// which is what lets the caller free `user` afterwards; no lock is held while the callback runs.
struct Sink {
  weft_log_callback_t callback = nullptr;
  void* user = nullptr;
  int running = 0;  // guarded by Logger::mutex
};

struct Logger {
  Mutex mutex;
  std::condition_variable idle;
  std::shared_ptr<Sink> sink WEFT_GUARDED_BY(mutex);
};

// Constant initialisation, and never destroyed: threads may log while the process exits.
std::atomic<int> level_now{kLevelUnset};

// A fork waits until no thread of weft's is in here, and the child has no threads that run a callback:
// else its first line, or its next callback, would wait for a thread that is the parent's.
Logger& TheLogger() {
  static Logger* const logger = [] {
    pthread_atfork([]() WEFT_NO_THREAD_SAFETY_ANALYSIS { TheLogger().mutex.Lock(); },
                   []() WEFT_NO_THREAD_SAFETY_ANALYSIS { TheLogger().mutex.Unlock(); },
                   []() WEFT_NO_THREAD_SAFETY_ANALYSIS {
                     Logger& of_child = TheLogger();
                     if (of_child.sink) of_child.sink->running = 0;
                     of_child.mutex.Unlock();
                   });
    return new Logger;
  }();
  return *logger;
}

// By weft_log_level_t. WEFT_LOG says "warn", which is also what any other name means.
constexpr const char* kLevelNames[] = {"error", "warning", "info", "debug"};

int LevelOf(const std::string& name) {
  const auto found = std::find(std::begin(kLevelNames), std::end(kLevelNames), name);
  return found == std::end(kLevelNames) ? WEFT_LOG_WARN
                                        : static_cast<int>(found - std::begin(kLevelNames));
}

void WriteToStderr(weft_log_level_t level, std::string_view message) {
  const std::string line =
      StrCat("weft: ", kLevelNames[std::clamp<int>(level, WEFT_LOG_ERROR, WEFT_LOG_DEBUG)], ": ",
             message, "\n");
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // nobody reads stderr; there is no other place to complain
    written += static_cast<size_t>(count);
  }
}

}  // namespace

bool LogEnabled(weft_log_level_t level) {
  int now = level_now.load(std::memory_order_relaxed);
  if (now == kLevelUnset) {
    int expected = kLevelUnset;
    now = LevelOf(GetOptions().log_level);
    if (!level_now.compare_exchange_strong(expected, now)) now = expected;
  }
  return static_cast<int>(level) <= now;
}

void LogMessage(weft_log_level_t level, std::string_view message) {
  Logger& logger = TheLogger();
  std::shared_ptr<Sink> sink;
  {
    MutexLock lock(logger.mutex);
    sink = logger.sink;
    if (sink) ++sink->running;
  }
  if (!sink) {
    WriteToStderr(level, message);
    return;
  }
  sink->callback(level, std::string(message).c_str(), sink->user);
  MutexLock lock(logger.mutex);
  if (--sink->running == 0) logger.idle.notify_all();
}

void SetLogCallback(weft_log_callback_t callback, void* user) {
  Logger& logger = TheLogger();
  std::shared_ptr<Sink> next;
  if (callback != nullptr) next = std::make_shared<Sink>(Sink{callback, user});
  MutexLock lock(logger.mutex);
  const std::shared_ptr<Sink> former = std::exchange(logger.sink, std::move(next));
  while (former && former->running > 0)
    lock.Wait(logger.idle);
}

void SetLogLevel(weft_log_level_t level) {
  level_now.store(static_cast<int>(level));
}

}  // namespace weft
