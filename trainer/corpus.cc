// The two sides must not share text, or the validation loss would show what was memorised: equal files are dropped and common
// licences removed before the split. Whole files by a hash of their names would do if all were small. One large file would be
// most of a side, whichever it went to, so large ones give both sides their share.
#include "trainer/corpus.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "trainer/failure.h"
#include "trainer/random.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kSharedFilesMin = 4;
constexpr size_t kSharedBytesMin = 60;  // of letters: shorter comments are not licences
constexpr size_t kHeaderBytesMax = 8192;

// A file validates or trains as a whole if it is no larger, and no larger than a twentieth of all bytes. So the choice of one
// file moves a side by a twentieth at most, and hits the 13 percent between the least and the most that validate.
constexpr size_t kWholeBytesMax = 64 << 10;
constexpr size_t kWholePart = 20;
constexpr size_t kHeldOutPart = 10;  // the share that validates is the tenth part
constexpr size_t kLeastPercent = 2, kMostPercent = 15;

uint64_t HashText(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return Mix(hash);
}

struct Loader {
  std::vector<TextFile> files;
  std::vector<CorpusSource> sources;
  size_t total_bytes = 0;

  // `prefix` keeps names of what nobody has named apart.
  void Add(const fs::path& root, TextFiles read, const std::string& prefix) {
    total_bytes += read.bytes;
    sources.push_back({root.string(), read.files.size(), read.bytes, read.passed_over});
    for (TextFile& file : read.files)
      files.push_back({prefix + file.name, std::move(file.text)});
  }

  void AddPath(const fs::path& path) { Add(path, ReadTextFiles(path, BytesLeft()), ""); }

  // The newest /usr/include/c++/<version>.
  void AddCompilerHeaders() {
    std::error_code ignored;
    std::pair<long, fs::path> newest{-1, {}};
    fs::directory_iterator entry("/usr/include/c++", ignored);
    for (; !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
      const long version = std::strtol(entry->path().filename().c_str(), nullptr, 10);
      if (fs::is_directory(entry->path(), ignored))
        newest = std::max(newest, {version, entry->path()});
    }
    if (newest.first >= 0) AddPartOf(newest.second, "c++/", {});
  }

  // The source tree that the program was built in, if it is still there.
  void AddProject(const fs::path& program_directory) {
    std::error_code ignored;
    fs::path root = program_directory;
    for (int up = 0; up < 4 && !fs::exists(root / "include/weft/weft.h", ignored); up++) {
      root = root.parent_path();
    }
    if (!fs::exists(root / "include/weft/weft.h", ignored)) return;
    AddPartOf(root, "weft/", {".h", ".hpp", ".cc", ".c", ".md", ".py"});
  }

 private:
  size_t BytesLeft() const { return kTextBytesMax - total_bytes; }

  // Nobody has asked for all of these folders, so nobody is told what of them was passed over.
  void AddPartOf(const fs::path& root, const std::string& prefix,
                 const std::vector<std::string>& endings) {
    Add(root, ReadTextFiles(root, BytesLeft(), endings), prefix);
    sources.back().passed_over = {};
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

// Letters of ASCII and every byte of other characters: what comments in any language are told apart by.
std::string LettersOf(std::string_view comment) {
  std::string letters;
  for (const char c : comment) {
    const auto byte = uint8_t(c);
    if (byte >= 0x80 || std::isalpha(byte)) letters.push_back(char(std::tolower(byte)));
  }
  return letters;
}

bool IsBlank(const TextFile& file) {
  return std::ranges::all_of(file.text, [](char c) { return std::isspace(uint8_t(c)); });
}

// How many bytes of the end of each file validate; `files` in their order, all different.
std::vector<size_t> HeldOutBytes(const std::vector<TextFile>& files) {
  const size_t total =
      std::accumulate(files.begin(), files.end(), size_t{0},
                      [](size_t sum, const TextFile& file) { return sum + file.text.size(); });
  std::vector<size_t> held_out(files.size(), 0);
  std::vector<std::pair<uint64_t, size_t>> whole;  // hash of the name, index
  size_t cut_bytes = 0, same_name = 0;
  for (size_t i = 0; i < files.size(); i++) {
    const size_t size = files[i].text.size();
    same_name = i > 0 && files[i].name == files[i - 1].name ? same_name + 1 : 0;
    if (size > kWholeBytesMax || size > total / kWholePart) {
      // Rounded over all of them together, so that many short ones give something, too.
      held_out[i] = (cut_bytes + size) / kHeldOutPart - cut_bytes / kHeldOutPart;
      cut_bytes += size;
    } else {
      whole.emplace_back(Mix(HashText(files[i].name) + same_name), i);
    }
  }
  size_t validation = cut_bytes / kHeldOutPart;
  std::ranges::sort(whole);
  for (const auto& [hash, i] : whole) {
    const size_t size = files[i].text.size();
    const bool too_few = validation * 100 < total * kLeastPercent;
    const bool fits = (validation + size) * 100 <= total * kMostPercent;
    if (!too_few && (hash >= UINT64_MAX / kHeldOutPart || !fits)) continue;
    held_out[i] = size;
    validation += size;
  }
  return held_out;
}

[[noreturn]] void ThrowNoText(const std::vector<std::string>& paths, const Corpus& corpus) {
  std::vector<std::string> found;
  for (const CorpusSource& source : corpus.sources) {
    for (std::string& phrase : DescribePassedOver(source.passed_over))
      found.push_back(std::move(phrase));
  }
  const size_t blank = corpus.blank_files;
  if (blank > 0) found.push_back(fmt::format("{} blank file{}", blank, blank == 1 ? "" : "s"));
  throw BadInput(
      fmt::format("--data {}: found no text to learn from{}{}; name a file or directory of text",
                  fmt::join(paths, " "), found.empty() ? "" : " but ", fmt::join(found, ", ")));
}

}  // namespace

size_t RemoveSharedHeaders(std::vector<TextFile>& files, size_t files_min) {
  const auto letters_at = [](const TextFile& file, const std::pair<size_t, size_t>& comment) {
    return LettersOf(
        std::string_view(file.text).substr(comment.first, comment.second - comment.first));
  };
  std::map<std::string, size_t> uses;
  for (const TextFile& file : files) {
    std::set<std::string> seen;
    for (const auto& comment : HeaderComments(file.text)) {
      std::string letters = letters_at(file, comment);
      if (letters.size() >= kSharedBytesMin) seen.insert(std::move(letters));
    }
    for (const std::string& letters : seen)
      uses[letters]++;
  }
  size_t removed = 0;
  for (TextFile& file : files) {
    const auto comments = HeaderComments(file.text);
    for (auto it = comments.rbegin(); it != comments.rend(); ++it) {
      const auto found = uses.find(letters_at(file, *it));
      if (found == uses.end() || found->second < files_min) continue;
      file.text.erase(it->first, it->second - it->first);
      removed += it->second - it->first;
    }
  }
  return removed;
}

void SplitFiles(std::vector<TextFile> files, Corpus& corpus) {
  std::ranges::sort(files, {}, [](const TextFile& file) { return std::tie(file.name, file.text); });
  std::set<std::pair<uint64_t, size_t>> seen;
  corpus.duplicate_files = std::erase_if(files, [&](const TextFile& file) {
    return !seen.emplace(HashText(file.text), file.text.size()).second;
  });
  const std::vector<size_t> held_out = HeldOutBytes(files);
  for (size_t i = 0; i < files.size(); i++) {
    std::string& text = files[i].text;
    const size_t cut = text.size() - held_out[i];
    corpus.train.append(text, 0, cut);
    corpus.validation.append(text, cut);
    const bool trains = cut > 0, validates = held_out[i] > 0;
    (trains && validates ? corpus.cut_files
     : validates         ? corpus.validation_files
                         : corpus.train_files)++;
    text = std::string();  // all of it may be gigabytes
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
  Corpus corpus;
  corpus.sources = loader.sources;
  corpus.licence_bytes = RemoveSharedHeaders(loader.files, kSharedFilesMin);
  corpus.blank_files = std::erase_if(loader.files, IsBlank);
  if (loader.files.empty()) ThrowNoText(paths, corpus);
  SplitFiles(std::move(loader.files), corpus);
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
