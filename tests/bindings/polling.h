// Descriptors as an event loop sees them, for tests of weft_progress_fd.
#pragma once

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/weft.h"

namespace weft::test {

inline bool Readable(int fd, int timeout_ms) {
  pollfd item = {fd, POLLIN, 0};
  return poll(&item, 1, timeout_ms) == 1;
}

// How many of this process's descriptors are of this kind, "[timerfd]" and the like.
inline int DescriptorsOf(const std::string& kind) {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (!error && target.string().find(kind) != std::string::npos) ++count;
  }
  return count;
}

// How many timers of this process run.
inline int RunningTimers() {
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (error || target.string().find("[timerfd]") == std::string::npos) continue;
    std::ifstream info("/proc/self/fdinfo/" + entry.path().filename().string());
    for (std::string line; std::getline(info, line);) {
      if (line.rfind("it_interval:", 0) == 0 && line.find("(0, 0)") == std::string::npos) ++count;
    }
  }
  return count;
}

// weft_progress() until `done`, by the descriptor only; false if it is silent for 20 s.
inline bool PollUntil(const std::function<bool()>& done) {
  int fd = -1;
  EXPECT_EQ(weft_progress_fd(&fd), WEFT_SUCCESS) << weft_last_error();
  for (int round = 0; round < 100'000; ++round) {
    if (done()) return true;
    if (!Readable(fd, 20'000)) return false;
    EXPECT_EQ(weft_progress(nullptr), WEFT_SUCCESS);
  }
  return false;
}

// Runs `body` in a forked child; expects 0 from it.
inline void InAChild(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace weft::test
