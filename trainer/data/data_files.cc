#include "trainer/data/data_files.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <system_error>

#include <fmt/core.h>
#include <glob.h>

#include "trainer/data/token_file.h"
#include "trainer/failure.h"
#include "trainer/text_files.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

bool IsThereAt(const std::string& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

// A name that is there is meant, whatever characters it has.
std::vector<std::string> Matches(const std::string& word) {
  if (word == "auto" || word.find_first_of("*?[") == std::string::npos || IsThereAt(word))
    return {word};
  glob_t found = {};
  const int result = glob(word.c_str(), 0, nullptr, &found);
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  if (result == 0) return names;
  throw BadInput(
      fmt::format("--data {}: no file has such a name; see that the pattern is right, "
                  "and that the folder is there",
                  word));
}

// The .bin files of a folder.
struct Bins {
  std::vector<fs::path> tokens, others;
};

Bins BinsBelow(const fs::path& folder) {
  Bins bins;
  for (const FoundFile& file : FindFiles(folder).files) {
    if (file.path.extension() != ".bin") continue;
    (BeginsLikeTokens(file.path) ? bins.tokens : bins.others).push_back(file.path);
  }
  return bins;
}

void SortOnce(std::vector<fs::path>& paths) {
  for (fs::path& path : paths)
    path = path.lexically_normal();
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
}

}  // namespace

bool IsValidationName(const fs::path& path) {
  const std::string name = path.stem().string();
  std::string word;
  bool validates = false;
  for (size_t i = 0; i <= name.size(); i++) {
    if (i < name.size() && std::isalnum(uint8_t(name[i]))) {
      word += char(std::tolower(uint8_t(name[i])));
      continue;
    }
    if (word == "val" || word == "valid" || word == "validation") validates = true;
    if (word == "train" || word == "training") validates = false;
    word.clear();
  }
  return validates;
}

DataFiles FindDataFiles(const std::vector<std::string>& data) {
  DataFiles found;
  std::vector<fs::path> tokens;
  for (const std::string& word : data) {
    for (const std::string& name : Matches(word)) {
      std::error_code error;
      if (name != "auto" && fs::is_directory(name, error)) {
        const Bins bins = BinsBelow(name);
        if (!bins.tokens.empty()) {
          tokens.insert(tokens.end(), bins.tokens.begin(), bins.tokens.end());
          found.left.insert(found.left.end(), bins.others.begin(), bins.others.end());
          continue;
        }
      } else if (fs::path(name).extension() == ".bin") {
        tokens.emplace_back(name);
        continue;
      }
      found.text.push_back(name);
    }
  }
  if (tokens.empty()) return found;
  if (!found.text.empty()) {
    throw BadInput(
        fmt::format("--data names tokens ({}) and text ({}); give one of them, or make "
                    "tokens of the text with weft_train tokenize",
                    tokens.front().string(), found.text.front()));
  }
  SortOnce(tokens);
  SortOnce(found.left);
  for (fs::path& path : tokens)
    (IsValidationName(path) ? found.validation : found.train).push_back(std::move(path));
  if (found.train.empty()) {
    throw BadInput(
        fmt::format("--data has files to validate with ({}), and none to train on; name "
                    "those, too",
                    found.validation.front().string()));
  }
  return found;
}

}  // namespace weft::trainer
