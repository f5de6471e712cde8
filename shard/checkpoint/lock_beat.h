// Says again and again that the owner of a lock lives, by a file's name that counts: to change a name takes no room, so a full disk does
// not make an owner look dead.
//
//   LockBeat beat(files, root, token);
//   WEFT_RETURN_IF_ERROR(beat.Start());
//
// Thread-safety: one thread. It has a thread of its own until it is destroyed, which changes a name every kLockBeatNs: nothing else of a job wakes up
// from time to time and may wait for a disk. That thread sleeps else.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/files.h"
#include "base/mutex.h"

namespace weft {

inline constexpr int64_t kLockBeatNs = 10'000'000'000;

class LockBeat {
 public:
  // `files` outlives it.
  LockBeat(Files& files, std::string root, uint64_t token);
  LockBeat(const LockBeat&) = delete;
  LockBeat& operator=(const LockBeat&) = delete;
  // Leaves no file.
  ~LockBeat();

  // SYSTEM_ERROR if there is no thread to be had.
  absl::Status Start();

  // Once, on the calling thread, which is not beside another one's.
  void Beat();

 private:
  void Loop();
  // Waits until then, or less long if it is over.
  bool IsOverBy(int64_t time_ns);

  Files& files_;
  const std::string root_;
  const uint64_t token_;
  int64_t beats_ = 0;  // that were made; of whoever beats
  std::thread thread_;
  Mutex mutex_;
  std::condition_variable changed_;
  bool over_ WEFT_GUARDED_BY(mutex_) = false;
};

}  // namespace weft
