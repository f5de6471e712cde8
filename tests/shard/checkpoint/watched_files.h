// Files to which something happens before each call, or instead of it: another program that changes them, or a user who may not.
//
//   WatchedFiles files(disk, [&](const std::string& path) {
//     return path == secret ? FileError(EACCES, path) : absl::OkStatus();
//   });
//
// Calls on open files are not watched. Thread-safety: as `before` and the files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/files.h"
#include "base/status.h"

namespace weft::test {

class WatchedFiles : public Files {
 public:
  // `before`: not Ok is what the call returns.
  WatchedFiles(Files& files, std::function<absl::Status(const std::string& path)> before)
      : files_(files), before_(std::move(before)) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       uint64_t bytes) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.Create(path, bytes);
  }

  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.Open(path);
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    WEFT_RETURN_IF_ERROR(before_(from));
    return files_.Rename(from, to);
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    WEFT_RETURN_IF_ERROR(before_(from));
    return files_.Link(from, to);
  }

  absl::StatusOr<FileKind> KindOf(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.KindOf(path);
  }

  absl::Status Remove(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.Remove(path);
  }

  absl::Status RemoveDirectory(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.RemoveDirectory(path);
  }

  absl::Status MakeDirectory(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.MakeDirectory(path);
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.List(path);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    WEFT_RETURN_IF_ERROR(before_(path));
    return files_.SyncDirectory(path);
  }

 private:
  Files& files_;
  const std::function<absl::Status(const std::string& path)> before_;
};

}  // namespace weft::test
