// Every call to the file system takes an error_code: a link that leads to itself, or a folder that vanishes, is an answer here
// and no exception.
#include "trainer/text_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kTextBytesLookedAt = 4096;  // for a NUL

// All of a regular file: a FIFO would be waited for, and a device may have no end.
std::string ReadFile(const fs::path& path, size_t bytes_left) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char buffer[65536];
  while (file) {
    file.read(buffer, sizeof(buffer));
    text.append(buffer, size_t(file.gcount()));
    if (text.size() > bytes_left) {
      throw BadInput(fmt::format("--data: more than {} bytes of text with {}; name less of it",
                                 kTextBytesMax, path.string()));
    }
  }
  if (file.eof()) return text;
  throw BadInput(fmt::format("--data: cannot read {}: {}", path.string(), std::strerror(errno)));
}

// Finds the files below a directory.
class Walk {
 public:
  explicit Walk(const fs::path& root) : root_(root), folders_({root}) {}

  // In an order that does not depend on the file system's.
  std::vector<fs::path> Files() {
    while (!folders_.empty()) {
      const fs::path folder = std::move(folders_.back());
      folders_.pop_back();
      List(folder);
    }
    std::sort(files_.begin(), files_.end());
    return std::move(files_);
  }

  const PassedOverBy& passed_over() const { return passed_over_; }

  void PassOver(PassedReason reason, const fs::path& path) {
    PassedOver& passed = passed_over_[size_t(reason)];
    const std::string name = path.lexically_relative(root_).generic_string();
    if (passed.count++ == 0 || name < passed.first) passed.first = name;
  }

 private:
  void List(const fs::path& folder) {
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    if (error == std::errc::permission_denied && folder != root_)
      return PassOver(PassedReason::kUnreadableFolder, folder);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
      Take(entry->path());
    if (error)
      throw BadInput(fmt::format("--data: cannot list {}: {}", folder.string(), error.message()));
  }

  void Take(const fs::path& path) {
    std::error_code error;
    const bool linked = fs::is_symlink(fs::symlink_status(path, error));
    const fs::file_status status = fs::status(path, error);  // of what a link leads to
    const std::string name = path.filename().string();
    if (name.starts_with(".")) {
      PassOver(PassedReason::kHidden, path);
    } else if (fs::is_regular_file(status)) {
      files_.push_back(path);
    } else if (!fs::is_directory(status)) {
      PassOver(PassedReason::kNoFile, path);
    } else if (name == "build" || name == "runs") {
      PassOver(PassedReason::kOutputFolder, path);
    } else if (linked) {
      PassOver(PassedReason::kLinkedFolder, path);
    } else {
      folders_.push_back(path);
    }
  }

  const fs::path root_;
  std::vector<fs::path> folders_;  // to be listed
  std::vector<fs::path> files_;
  PassedOverBy passed_over_;
};

struct Words {
  const char* one;
  const char* many;
};

// By Reason.
constexpr Words kWords[kReasons] = {
    {"file with NUL bytes, which is no text", "files with NUL bytes, which are no text"},
    {"folder named build or runs", "folders named build or runs"},
    {"linked folder", "linked folders"},
    {"folder that may not be read", "folders that may not be read"},
    {"hidden file or folder", "hidden files and folders"},
    {"entry that leads to no file", "entries that lead to no file"},
};

}  // namespace

TextFiles ReadTextFiles(const fs::path& root, size_t bytes_left,
                        const std::vector<std::string>& endings) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::none) {
    throw BadInput(
        fmt::format("--data {}: {}", root.string(), std::strerror(error ? error.value() : ENOENT)));
  }
  if (!fs::is_directory(status) && !fs::is_regular_file(status)) {
    throw BadInput(
        fmt::format("--data {} is neither a regular file nor a directory; name files or "
                    "directories of text",
                    root.string()));
  }
  const bool one = fs::is_regular_file(status);
  Walk walk(one ? root.parent_path() : root);
  TextFiles read;
  for (const fs::path& path : one ? std::vector<fs::path>{root} : walk.Files()) {
    if (!endings.empty() && std::ranges::find(endings, path.extension().string()) == endings.end())
      continue;
    std::string text = ReadFile(path, bytes_left - read.bytes);
    if (text.substr(0, kTextBytesLookedAt).find('\0') != std::string::npos) {
      walk.PassOver(PassedReason::kHasNul, path);
      continue;
    }
    read.bytes += text.size();
    const fs::path name = one ? root.filename() : path.lexically_relative(root);
    read.files.push_back({name.generic_string(), std::move(text)});
  }
  read.passed_over = walk.passed_over();
  return read;
}

std::vector<std::string> DescribePassedOver(const PassedOverBy& passed_over) {
  std::vector<std::string> phrases;
  for (size_t reason = 0; reason < kReasons; reason++) {
    const auto& [count, first] = passed_over[reason];
    if (count == 1) phrases.push_back(fmt::format("1 {} ({})", kWords[reason].one, first));
    if (count > 1) {
      phrases.push_back(
          fmt::format("{} {} ({} and {} more)", count, kWords[reason].many, first, count - 1));
    }
  }
  return phrases;
}

}  // namespace weft::trainer
