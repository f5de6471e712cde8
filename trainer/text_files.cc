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
  Walk(const fs::path& root, const std::string& whose)
      : root_(root), whose_(whose), folders_({root}) {}

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

  std::string NameOf(const fs::path& path) const {
    return path.lexically_relative(root_).generic_string();
  }

 private:
  void Leave(PassedReason reason, const fs::path& path) {
    PassOver(passed_over_, reason, NameOf(path));
  }

  void List(const fs::path& folder) {
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    if (error == std::errc::permission_denied && folder != root_)
      return Leave(PassedReason::kUnreadableFolder, folder);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
      Take(entry->path());
    if (error)
      throw BadInput(
          fmt::format("{}: cannot list {}: {}", whose_, folder.string(), error.message()));
  }

  void Take(const fs::path& path) {
    std::error_code error;
    const bool linked = fs::is_symlink(fs::symlink_status(path, error));
    const fs::file_status status = fs::status(path, error);  // of what a link leads to
    const std::string name = path.filename().string();
    if (name.starts_with(".")) {
      Leave(PassedReason::kHidden, path);
    } else if (fs::is_regular_file(status)) {
      files_.push_back(path);
    } else if (!fs::is_directory(status)) {
      Leave(PassedReason::kNoFile, path);
    } else if (name == "build" || name == "runs") {
      Leave(PassedReason::kOutputFolder, path);
    } else if (linked) {
      Leave(PassedReason::kLinkedFolder, path);
    } else {
      folders_.push_back(path);
    }
  }

  const fs::path root_;
  const std::string whose_;
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

bool IsText(std::string_view beginning) {
  return beginning.substr(0, kTextBytesLookedAt).find('\0') == std::string_view::npos;
}

void PassOver(PassedOverBy& passed_over, PassedReason reason, const std::string& name) {
  PassedOver& passed = passed_over[size_t(reason)];
  if (passed.count++ == 0 || name < passed.first) passed.first = name;
}

FoundFiles FindFiles(const fs::path& root, const std::string& whose) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::none) {
    throw BadInput(fmt::format("{} {}: {}", whose, root.string(),
                               std::strerror(error ? error.value() : ENOENT)));
  }
  if (fs::is_regular_file(status)) return {{{root.filename().generic_string(), root}}, {}};
  if (!fs::is_directory(status)) {
    throw BadInput(
        fmt::format("{} {} is neither a regular file nor a directory; name files or "
                    "directories of text",
                    whose, root.string()));
  }
  Walk walk(root, whose);
  FoundFiles found;
  for (const fs::path& path : walk.Files())
    found.files.push_back({walk.NameOf(path), path});
  found.passed_over = walk.passed_over();
  return found;
}

TextFiles ReadTextFiles(const fs::path& root, size_t bytes_left,
                        const std::vector<std::string>& endings) {
  FoundFiles found = FindFiles(root);
  TextFiles read;
  read.passed_over = found.passed_over;
  for (const FoundFile& file : found.files) {
    if (!endings.empty() &&
        std::ranges::find(endings, file.path.extension().string()) == endings.end())
      continue;
    std::string text = ReadFile(file.path, bytes_left - read.bytes);
    if (!IsText(text)) {
      PassOver(read.passed_over, PassedReason::kHasNul, file.name);
      continue;
    }
    read.bytes += text.size();
    read.files.push_back({file.name, std::move(text)});
  }
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
