#include "base/log.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
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
void LockForFork() WEFT_THREAD_ANNOTATION(no_thread_safety_analysis);
void UnlockInParent() WEFT_THREAD_ANNOTATION(no_thread_safety_analysis);
void UnlockInChild() WEFT_THREAD_ANNOTATION(no_thread_safety_analysis);

Logger& TheLogger() {
  static Logger* const logger = [] {
    pthread_atfork(LockForFork, UnlockInParent, UnlockInChild);
    return new Logger;
  }();
  return *logger;
}

void LockForFork() {
  TheLogger().mutex.Lock();
}

void UnlockInParent() {
  TheLogger().mutex.Unlock();
}

void UnlockInChild() {
  Logger& logger = TheLogger();
  if (logger.sink) logger.sink->running = 0;
  logger.mutex.Unlock();
}

int LevelOf(const std::string& name) {
  if (name == "error") return WEFT_LOG_ERROR;
  if (name == "info") return WEFT_LOG_INFO;
  if (name == "debug") return WEFT_LOG_DEBUG;
  return WEFT_LOG_WARN;
}

const char* NameOf(weft_log_level_t level) {
  switch (level) {
    case WEFT_LOG_ERROR:
      return "error";
    case WEFT_LOG_WARN:
      return "warning";
    case WEFT_LOG_INFO:
      return "info";
    default:
      return "debug";
  }
}

void WriteToStderr(weft_log_level_t level, std::string_view message) {
  const std::string line = StrCat("weft: ", NameOf(level), ": ", message, "\n");
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
