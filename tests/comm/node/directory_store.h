// A store in a directory, for tests: one file per key, written aside and renamed.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/status.h"
#include "base/wait.h"
#include "comm/rendezvous/store.h"

namespace weft::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    path_ = mkdtemp(name.data()) == nullptr ? "" : name;
  }

  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class DirectoryStore : public Store {
 public:
  explicit DirectoryStore(std::filesystem::path path) : path_(std::move(path)) {}

  StoreReply Ask(StoreRequest request) override {
    if (request.kind == StoreRequest::Kind::kSet) {
      Set(request.key, request.value);
      return {};
    }
    if (request.kind == StoreRequest::Kind::kRemove) {
      std::filesystem::remove(FileOf(request.key));
      return {};
    }
    if (request.kind == StoreRequest::Kind::kWait) return Wait(request.key, request.deadline_ns);
    const Lock lock(path_);
    const StoreReply now = Wait(request.key, MonotonicNs() + 1);
    const int64_t sum = (now.status.ok() ? std::stoll(now.value) : 0) + request.delta;
    Set(request.key, std::to_string(sum));
    return {.number = sum};
  }

 private:
  // Of all processes that have the store.
  class Lock {
   public:
    explicit Lock(const std::filesystem::path& directory)
        : fd_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
      flock(fd_, LOCK_EX);
    }

    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

    ~Lock() { close(fd_); }

   private:
    int fd_;
  };

  void Set(const std::string& key, const std::string& value) const {
    // With the key: ranks of different pid namespaces have the same pid.
    const std::filesystem::path file = FileOf(key);
    const std::filesystem::path aside =
        path_ / ("aside-" + std::to_string(getpid()) + file.filename().string());
    std::ofstream(aside, std::ios::binary) << value;
    std::filesystem::rename(aside, file);
  }

  StoreReply Wait(const std::string& key, int64_t deadline_ns) const {
    do {
      std::ifstream file(FileOf(key), std::ios::binary);
      if (file) {
        std::ostringstream text;
        text << file.rdbuf();
        return {.value = text.str()};
      }
      const timespec pause{0, 200'000};
      nanosleep(&pause, nullptr);
    } while (MonotonicNs() < deadline_ns);
    return {.status = MakeError(WEFT_TIMEOUT, "key " + key + " did not come")};
  }

  std::filesystem::path FileOf(std::string_view key) const {
    std::string name = "key-";
    for (const char c : key)
      name += c == '/' ? '_' : c;
    return path_ / name;
  }

  std::filesystem::path path_;
};

}  // namespace weft::test
