// The two sides must not share text, or the validation loss would show what was memorised: files go to a side whole, equal
// files are dropped and common licences removed before the split. It must not depend on the machine either, so files are sorted
// by name and a hash of the name decides.
#include "trainer/corpus.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/random.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSharedFilesMin = 4;
constexpr size_t kSharedBytesMin = 80;  // shorter comments are not licences
constexpr size_t kHeaderBytesMax = 8192;

uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return Mix(hash);
}

// All of a regular file: a FIFO would be waited for, and a device may have no end.
std::string ReadFile(const fs::path& path, size_t bytes_max) {
  std::error_code error;
  if (!fs::is_regular_file(path, error) && !error) {
    throw BadInput(
        fmt::format("--data {} is neither a regular file nor a directory; name files or "
                    "directories of text",
                    path.string()));
  }
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char buffer[65536];
  while (file) {
    file.read(buffer, sizeof(buffer));
    text.append(buffer, size_t(file.gcount()));
    if (text.size() > bytes_max) {
      throw BadInput(fmt::format("--data: more than {} bytes of text with {}; name less of it",
                                 kCorpusBytesMax, path.string()));
    }
  }
  if (file.eof()) return text;
  throw BadInput(fmt::format("--data: cannot read {}: {}", path.string(), std::strerror(errno)));
}

bool LooksLikeText(std::string_view text) {
  return text.substr(0, 4096).find('\0') == std::string_view::npos;
}

// Files below `root` in a fixed order; hidden folders, build trees and run outputs are skipped.
std::vector<fs::path> FilesBelow(const fs::path& root) {
  std::vector<fs::path> found;
  auto it = fs::recursive_directory_iterator(root, fs::directory_options::skip_permission_denied);
  for (; it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && (name.starts_with(".") || name == "build" || name == "runs")) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file() && !name.starts_with(".")) {
      found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

struct Loader {
  std::vector<TextFile> files;
  std::vector<CorpusSource> sources;
  size_t total_bytes = 0;

  // `prefix` keeps equal relative names of two sources apart.
  void Add(const fs::path& root, const std::vector<fs::path>& paths, const std::string& prefix) {
    CorpusSource source{root.string()};
    for (const fs::path& path : paths) {
      std::string text = ReadFile(path, kCorpusBytesMax - total_bytes);
      if (text.empty() || !LooksLikeText(text)) continue;
      source.file_count++;
      source.bytes += text.size();
      total_bytes += text.size();
      const fs::path relative = path == root ? path.filename() : path.lexically_relative(root);
      files.push_back({prefix + relative.generic_string(), std::move(text)});
    }
    sources.push_back(source);
  }

  void AddPath(const fs::path& path) {
    if (!fs::exists(path)) {
      throw BadInput(fmt::format("--data {}: no such file or directory", path.string()));
    }
    Add(path, fs::is_directory(path) ? FilesBelow(path) : std::vector<fs::path>{path}, "");
  }

  // The newest /usr/include/c++/<version>.
  void AddCompilerHeaders() {
    const fs::path base = "/usr/include/c++";
    std::error_code ignored;
    std::pair<long, fs::path> newest{-1, {}};
    for (const auto& entry : fs::directory_iterator(base, ignored)) {
      const long version = std::strtol(entry.path().filename().c_str(), nullptr, 10);
      if (entry.is_directory()) newest = std::max(newest, {version, entry.path()});
    }
    if (newest.first >= 0) Add(newest.second, FilesBelow(newest.second), "c++/");
  }

  // The source tree that the program was built in, if it is still there.
  void AddProject(const fs::path& program_directory) {
    fs::path root = program_directory;
    for (int up = 0; up < 4 && !fs::exists(root / "include/weft/weft.h"); up++) {
      root = root.parent_path();
    }
    if (!fs::exists(root / "include/weft/weft.h")) return;
    static const std::set<std::string> kEndings = {".h", ".hpp", ".cc", ".c", ".md", ".py"};
    std::vector<fs::path> paths = FilesBelow(root);
    std::erase_if(paths, [](const fs::path& p) { return !kEndings.contains(p.extension()); });
    Add(root, paths, "weft/");
  }
};

// The end of the comment that starts at `at`, or `at` if none does. A run of // lines is one comment.
size_t CommentEnd(std::string_view text, size_t at) {
  if (text.substr(at, 2) == "/*") {
    const size_t end = text.find("*/", at + 2);
    return end == std::string_view::npos ? at : end + 2;
  }
  size_t end = at;
  while (text.substr(end, 2) == "//") {
    const size_t line = text.find('\n', end);
    if (line == std::string_view::npos) return text.size();
    end = line + 1;
  }
  return end;
}

// Comments before the first line of code, as [begin, end).
std::vector<std::pair<size_t, size_t>> HeaderComments(std::string_view text) {
  std::vector<std::pair<size_t, size_t>> found;
  size_t at = 0;
  while (at < std::min(text.size(), kHeaderBytesMax)) {
    if (std::isspace(uint8_t(text[at]))) {
      at++;
      continue;
    }
    const size_t end = CommentEnd(text, at);
    if (end == at) break;
    found.emplace_back(at, end);
    at = end;
  }
  return found;
}

std::string Normalised(std::string_view comment) {
  std::string letters;
  for (const char c : comment) {
    if (std::isalpha(uint8_t(c))) letters.push_back(char(std::tolower(uint8_t(c))));
  }
  return letters;
}

}  // namespace

size_t RemoveSharedHeaders(std::vector<TextFile>& files, size_t files_min) {
  std::map<std::string, size_t> uses;
  for (const TextFile& file : files) {
    std::set<std::string> seen;
    for (const auto& [begin, end] : HeaderComments(file.text)) {
      if (end - begin < kSharedBytesMin) continue;
      seen.insert(Normalised(std::string_view(file.text).substr(begin, end - begin)));
    }
    for (const std::string& comment : seen)
      uses[comment]++;
  }
  size_t removed = 0;
  for (TextFile& file : files) {
    const auto comments = HeaderComments(file.text);
    for (auto it = comments.rbegin(); it != comments.rend(); ++it) {
      const size_t length = it->second - it->first;
      const auto found =
          uses.find(Normalised(std::string_view(file.text).substr(it->first, length)));
      if (found == uses.end() || found->second < files_min) continue;
      file.text.erase(it->first, length);
      removed += length;
    }
  }
  return removed;
}

bool IsValidationFile(std::string_view name) {
  return HashText(name) % 10 == 0;
}

void SplitFiles(std::vector<TextFile> files, Corpus& corpus) {
  std::ranges::sort(files, {}, &TextFile::name);
  std::set<std::pair<uint64_t, size_t>> seen;
  std::erase_if(files, [&](const TextFile& file) {
    return !seen.emplace(HashText(file.text), file.text.size()).second;
  });
  if (files.size() == 1) {
    const std::string& text = files[0].text;
    const size_t cut = text.size() - text.size() / 10;
    corpus.train = text.substr(0, cut);
    corpus.validation = text.substr(cut);
    corpus.train_files = corpus.validation_files = 1;
    corpus.split_inside = true;
    return;
  }
  const auto hash = [](const TextFile& file) {
    return HashText(file.name);
  };
  const size_t chosen = size_t(std::count_if(files.begin(), files.end(), [](const TextFile& file) {
    return IsValidationFile(file.name);
  }));
  // With few files the hash may leave a side empty; then the file with the smallest hash validates.
  const bool forced = chosen == 0 || chosen == files.size();
  const std::string only = files.empty() ? "" : std::ranges::min_element(files, {}, hash)->name;
  for (const TextFile& file : files) {
    const bool held_out = forced ? file.name == only : IsValidationFile(file.name);
    (held_out ? corpus.validation : corpus.train) += file.text;
    (held_out ? corpus.validation_files : corpus.train_files)++;
  }
}

Corpus LoadCorpus(const std::vector<std::string>& paths, const std::string& program_directory) {
  Loader loader;
  for (const std::string& path : paths) {
    if (path == "auto") {
      loader.AddCompilerHeaders();
      loader.AddProject(program_directory);
    } else {
      loader.AddPath(path);
    }
  }
  if (loader.files.empty()) {
    throw BadInput(fmt::format("--data {}: found no text to learn from; name a file or directory",
                               paths.empty() ? "" : paths.front()));
  }
  Corpus corpus;
  corpus.sources = loader.sources;
  const size_t read = loader.files.size();
  corpus.licence_bytes = RemoveSharedHeaders(loader.files, kSharedFilesMin);
  std::erase_if(loader.files, [](const TextFile& file) {
    return std::all_of(file.text.begin(), file.text.end(),
                       [](char c) { return std::isspace(uint8_t(c)); });
  });
  SplitFiles(std::move(loader.files), corpus);
  corpus.duplicate_files =
      read - corpus.train_files - (corpus.split_inside ? 0 : corpus.validation_files);
  return corpus;
}

uint64_t CorpusDigest(const Corpus& corpus) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (const std::string* const text : {&corpus.train, &corpus.validation}) {
    for (const char byte : *text)
      digest = (digest ^ uint8_t(byte)) * 0x100000001b3u;
    digest = (digest ^ text->size()) * 0x100000001b3u;
  }
  return digest;
}

}  // namespace weft::trainer
