// A store in a directory, for tests: one file per key, written aside and renamed.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include <stdlib.h>

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

  absl::Status Set(std::string_view key, std::string_view value, int64_t) override {
    // With the key: ranks of different pid namespaces have the same pid.
    const std::filesystem::path file = FileOf(key);
    const std::filesystem::path aside =
        path_ / ("aside-" + std::to_string(getpid()) + file.filename().string());
    std::ofstream(aside, std::ios::binary) << value;
    std::filesystem::rename(aside, file);
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Wait(std::string_view key, int64_t deadline_ns) override {
    while (MonotonicNs() < deadline_ns) {
      std::ifstream file(FileOf(key), std::ios::binary);
      if (file) {
        std::ostringstream text;
        text << file.rdbuf();
        return text.str();
      }
      const timespec pause{0, 200'000};
      nanosleep(&pause, nullptr);
    }
    return MakeError(WEFT_TIMEOUT, "key " + std::string(key) + " did not come");
  }

  // Not atomic between processes; the groups under test do not add.
  absl::StatusOr<int64_t> Add(std::string_view key, int64_t delta, int64_t deadline_ns) override {
    auto now = Wait(key, MonotonicNs() + 1);
    const int64_t sum = (now.ok() ? std::stoll(*now) : 0) + delta;
    WEFT_RETURN_IF_ERROR(Set(key, std::to_string(sum), deadline_ns));
    return sum;
  }

 private:
  std::filesystem::path FileOf(std::string_view key) const {
    std::string name = "key-";
    for (const char c : key)
      name += c == '/' ? '_' : c;
    return path_ / name;
  }

  std::filesystem::path path_;
};

}  // namespace weft::test
