#include "trainer/data/token_set_place.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include "trainer/data/token_file_writer.h"
#include "trainer/data/token_set.h"
#include "trainer/failure.h"
#include "trainer/run_files.h"
#include "trainer/tokenizer/tokenizer_json.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBegun = ".new";

std::vector<fs::path> FilesBeside(const fs::path& path) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator entry(path.parent_path(), error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error))
    files.push_back(entry->path());
  return files;
}

// Whether it has tokens of the set whose own file is `set`.
bool IsOfSet(const fs::path& path, const fs::path& set) {
  return path.extension() == ".bin" && PathOfTokenSet(path).filename() == set.filename();
}

}  // namespace

TokenSetPlace::TokenSetPlace(const std::string& out) {
  const fs::path whole(out);
  const std::string name = whole.filename().string();
  path_ = (whole.has_parent_path() ? whole.parent_path() : ".") / fs::path(name + ".json");
  if (name.empty() || name == "." || name == ".." || path_.filename() == kTokenizerJson)
    throw BadInput(
        fmt::format("--out {} has no name for the files of tokens; use FOLDER/NAME, for "
                    "FOLDER/NAME_train_000000.bin",
                    out));
  MakeRunDirectory(path_.parent_path().string(), kTokenPlace);
  begun_ = path_.string() + kBegun;
  Lock();
  try {
    RefuseUsedName();
    RemoveLeftovers();
  } catch (...) {
    std::remove(begun_.c_str());
    close(lock_);
    throw;
  }
}

TokenSetPlace::~TokenSetPlace() {
  std::remove(begun_.c_str());  // unless it has become path_
  close(lock_);
}

void TokenSetPlace::Lock() {
  lock_ = open(begun_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_ < 0) ThrowUnwritable(begun_, errno, kTokenPlace);
  if (flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  close(lock_);
  throw BadInput(
      fmt::format("{} is being written by another process; choose another --out", path_.string()));
}

// Files of another set, or a part of one, would be taken for this one's.
void TokenSetPlace::RefuseUsedName() const {
  for (const fs::path& path : FilesBeside(path_)) {
    if (path.filename() != path_.filename() && !IsOfSet(path, path_)) continue;
    throw BadInput(
        fmt::format("{} is there already; choose another --out, or remove the files of "
                    "that name",
                    path.string()));
  }
}

// Nobody writes them: the name is locked.
void TokenSetPlace::RemoveLeftovers() const {
  for (const fs::path& path : FilesBeside(path_)) {
    const bool begun =
        path.extension() == kBegun && IsOfSet(path.parent_path() / path.stem(), path_);
    if (begun || path == BegunTokenizerPath()) std::remove(path.c_str());
  }
}

std::string TokenSetPlace::Stem(const std::string& side) const {
  return (path_.parent_path() / path_.stem()).string() + "_" + side;
}

fs::path TokenSetPlace::TokenizerPath() const {
  return path_.parent_path() / kTokenizerJson;
}

fs::path TokenSetPlace::BegunTokenizerPath() const {
  return (path_.parent_path() / path_.stem()).string() + "." + kTokenizerJson + kBegun;
}

void TokenSetPlace::Sync() const {
  const int folder = open(path_.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = folder < 0 ? errno : SyncFile(folder);
  if (folder >= 0) close(folder);
  if (error != 0) ThrowUnwritable(path_.parent_path().string(), error, kTokenPlace);
}

}  // namespace weft::trainer
