#include "tests/sim/sim_files.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft::test {
namespace {

using NodePtr = std::shared_ptr<DiskNode>;

// The names on the way; false if one is "..".
bool Split(const std::string& path, std::vector<std::string>* names) {
  for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (name == "..") return false;
    if (name != ".") names->emplace_back(name);
  }
  return true;
}

NodePtr Child(const DiskNode& directory, const std::string& name) {
  const auto place = directory.names.find(name);
  return place == directory.names.end() ? nullptr : place->second;
}

void ListFiles(const DiskNode& directory, const std::string& path,
               std::vector<std::string>* paths) {
  for (const auto& [name, node] : directory.names) {
    const std::string child = StrCat(path, "/", name);
    if (node->is_directory) {
      ListFiles(*node, child, paths);
    } else {
      paths->push_back(child);
    }
  }
}

}  // namespace

class SimFiles::Writable : public WritableFile {
 public:
  Writable(SimFiles* files, NodePtr node, std::string path, int64_t process)
      : files_(files), node_(std::move(node)), path_(std::move(path)), process_(process) {}

  absl::Status Write(const void* data, size_t bytes) override {
    MutexLock lock(files_->mutex_);
    const std::string attempt = StrCat("writing ", bytes, " bytes to ", path_);
    const Verdict verdict = files_->Count(attempt);
    const size_t written = verdict.runs ? bytes : verdict.begins ? bytes / 2 : 0;
    if (written > files_->room_ || files_->BytesOfAll() > files_->room_ - written) {
      if (failure_.ok()) failure_ = FileError(ENOSPC, attempt);
      return failure_;
    }
    if (Usable() && written > 0) {
      node_->bytes.append(static_cast<const char*>(data), written);
      node_->write_ends.push_back(node_->bytes.size());
    }
    return Settle(verdict, attempt);
  }

  absl::Status Sync() override {
    MutexLock lock(files_->mutex_);
    const std::string attempt = StrCat("syncing ", path_);
    const Verdict verdict = files_->Count(attempt);
    if (Usable() && verdict.runs && verdict.error_number == 0) {
      node_->bytes_synced = node_->bytes.size();
      node_->write_ends.clear();
    }
    return Settle(verdict, attempt);
  }

  absl::Status Close() override {
    MutexLock lock(files_->mutex_);
    const std::string attempt = StrCat("closing ", path_);
    absl::Status status = Settle(files_->Count(attempt), attempt);
    closed_ = true;
    return status;
  }

 private:
  bool Usable() const WEFT_REQUIRES(files_->mutex_) {
    return failure_.ok() && !closed_ && process_ == files_->process_;
  }

  // The first failure stays.
  absl::Status Settle(const Verdict& verdict, const std::string& attempt)
      WEFT_REQUIRES(files_->mutex_) {
    if (failure_.ok()) {
      const bool open = !closed_ && process_ == files_->process_;
      failure_ = Answer(verdict, open ? 0 : EBADF, attempt);
    }
    return failure_;
  }

  SimFiles* const files_;
  const NodePtr node_;
  const std::string path_;
  const int64_t process_;
  bool closed_ = false;
  absl::Status failure_;
};

class SimFiles::Readable : public ReadableFile {
 public:
  Readable(SimFiles* files, NodePtr node, std::string path, int64_t process)
      : files_(files), node_(std::move(node)), path_(std::move(path)), process_(process) {}

  absl::StatusOr<uint64_t> Size() override {
    MutexLock lock(files_->mutex_);
    WEFT_RETURN_IF_ERROR(Count(StrCat("looking at ", path_)));
    return node_->bytes.size();
  }

  absl::Status ReadAt(uint64_t offset, void* data, size_t bytes) override {
    MutexLock lock(files_->mutex_);
    WEFT_RETURN_IF_ERROR(Count(StrCat("reading ", path_, " at byte ", offset)));
    const size_t size = node_->bytes.size();
    if (bytes > 0 && (offset > size || bytes > size - offset))
      return MakeError(WEFT_CORRUPT,
                       StrCat("reading ", path_, ": ", bytes, " bytes were expected at byte ",
                              offset, ", and the file ends at ", size));
    if (bytes > 0) std::memcpy(data, node_->bytes.data() + offset, bytes);
    return absl::OkStatus();
  }

 private:
  absl::Status Count(const std::string& attempt) WEFT_REQUIRES(files_->mutex_) {
    const Verdict verdict = files_->Count(attempt);
    return Answer(verdict, process_ == files_->process_ ? 0 : EBADF, attempt);
  }

  SimFiles* const files_;
  const NodePtr node_;
  const std::string path_;
  const int64_t process_;
};

SimFiles::SimFiles() : SimFiles(std::make_shared<DiskNode>(DiskNode{.is_directory = true})) {}

SimFiles::SimFiles(std::shared_ptr<DiskNode> root) : root_(std::move(root)) {}

SimFiles::~SimFiles() = default;

absl::StatusOr<std::unique_ptr<WritableFile>> SimFiles::Create(const std::string& path,
                                                               uint64_t bytes_expected) {
  MutexLock lock(mutex_);
  const std::string attempt =
      StrCat("creating ", path, " with room for ", bytes_expected, " bytes");
  const Verdict verdict = Count(attempt);
  NodePtr node;
  const bool runs = verdict.runs && verdict.error_number == 0;
  if (runs && (bytes_expected > room_ || BytesOfAll() > room_ - bytes_expected))
    return FileError(ENOSPC, attempt);
  WEFT_RETURN_IF_ERROR(Answer(verdict, runs ? DoCreate(path, &node) : 0, attempt));
  return std::make_unique<Writable>(this, std::move(node), path, process_);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimFiles::Open(const std::string& path) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("opening ", path);
  const Verdict verdict = Count(attempt);
  int error_number = 0;
  NodePtr node = Find(path, &error_number);
  if (node != nullptr && node->is_directory) error_number = EISDIR;
  WEFT_RETURN_IF_ERROR(Answer(verdict, error_number, attempt));
  return std::make_unique<Readable>(this, std::move(node), path, process_);
}

absl::Status SimFiles::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("renaming ", from, " to ", to);
  const Verdict verdict = Count(attempt);
  return Answer(verdict, verdict.runs ? DoRename(from, to) : 0, attempt);
}

absl::Status SimFiles::Link(const std::string& from, const std::string& to) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("linking ", from, " as ", to);
  const Verdict verdict = Count(attempt);
  return Answer(verdict, verdict.runs ? DoLink(from, to) : 0, attempt);
}

absl::Status SimFiles::Remove(const std::string& path) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("removing ", path);
  const Verdict verdict = Count(attempt);
  return Answer(verdict, verdict.runs ? DoRemove(path, false) : 0, attempt);
}

absl::Status SimFiles::RemoveDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("removing directory ", path);
  const Verdict verdict = Count(attempt);
  return Answer(verdict, verdict.runs ? DoRemove(path, true) : 0, attempt);
}

absl::Status SimFiles::MakeDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("making directory ", path);
  const Verdict verdict = Count(attempt);
  return Answer(verdict, verdict.runs ? DoMakeDirectory(path) : 0, attempt);
}

absl::StatusOr<FileKind> SimFiles::KindOf(const std::string& path) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("looking at ", path);
  const Verdict verdict = Count(attempt);
  int error_number = 0;
  const NodePtr node = Find(path, &error_number);
  WEFT_RETURN_IF_ERROR(Answer(verdict, error_number, attempt));
  return node->is_directory ? FileKind::kDirectory : FileKind::kFile;
}

absl::StatusOr<std::vector<std::string>> SimFiles::List(const std::string& path) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("listing ", path);
  const Verdict verdict = Count(attempt);
  int error_number = 0;
  const NodePtr node = Find(path, &error_number);
  if (node != nullptr && !node->is_directory) error_number = ENOTDIR;
  WEFT_RETURN_IF_ERROR(Answer(verdict, error_number, attempt));
  std::vector<std::string> names;
  for (const auto& entry : node->names)
    names.push_back(entry.first);
  return names;
}

absl::Status SimFiles::SyncDirectory(const std::string& path) {
  MutexLock lock(mutex_);
  const std::string attempt = StrCat("syncing directory ", path);
  const Verdict verdict = Count(attempt);
  int error_number = 0;
  const NodePtr node = Find(path, &error_number);
  if (node != nullptr && !node->is_directory) error_number = ENOTDIR;
  if (error_number == 0 && !verdict.dead) {
    if (verdict.error_number == 0) {
      node->SyncNames();
    } else {
      node->ForsakeNames();
    }
  }
  return Answer(verdict, error_number, attempt);
}

void SimFiles::FailAt(int k, int error_number, Effect effect) {
  SetPlan({.left = k, .error_number = error_number, .effect = effect});
}

void SimFiles::FailFrom(int k, int error_number) {
  SetPlan({.left = k, .error_number = error_number, .lasting = true});
}

void SimFiles::DieAt(int k) {
  SetPlan({.left = k, .dies = true});
}

void SimFiles::Revive() {
  SetPlan({});
  MutexLock lock(mutex_);
  dead_ = false;
  ++process_;
}

void SimFiles::SetPlan(const Plan& plan) {
  MutexLock lock(mutex_);
  plan_ = plan;
  struck_.clear();
}

void SimFiles::SetRoom(uint64_t bytes) {
  MutexLock lock(mutex_);
  room_ = bytes;
}

uint64_t SimFiles::bytes() const {
  MutexLock lock(mutex_);
  return BytesOfAll();
}

// One with two names counts twice; none has them for long.
uint64_t SimFiles::BytesOfAll() const {
  uint64_t bytes = 0;
  std::vector<const DiskNode*> directories = {root_.get()};
  while (!directories.empty()) {
    const DiskNode& directory = *directories.back();
    directories.pop_back();
    for (const auto& [name, node] : directory.names) {
      if (node->is_directory) {
        directories.push_back(node.get());
      } else {
        bytes += node->bytes.size();
      }
    }
  }
  return bytes;
}

bool SimFiles::struck() const {
  MutexLock lock(mutex_);
  return !struck_.empty();
}

bool SimFiles::dead() const {
  MutexLock lock(mutex_);
  return dead_;
}

std::string SimFiles::what() const {
  MutexLock lock(mutex_);
  return struck_.empty() ? "no call failed" : struck_;
}

int64_t SimFiles::calls() const {
  MutexLock lock(mutex_);
  return calls_;
}

SimFiles::Verdict SimFiles::Count(const std::string& attempt) {
  ++calls_;
  if (dead_) return {.runs = false, .begins = false, .dead = true};
  if (plan_.left == 0 || --plan_.left > 0) return {};
  if (plan_.lasting) plan_.left = 1;
  dead_ = plan_.dies;
  if (struck_.empty())
    struck_ = StrCat("call ", calls_, ", ", attempt, ", ",
                     dead_ ? std::string("in which the process ended")
                           : StrCat("failed with ", strerrorname_np(plan_.error_number)));
  if (dead_) return {.runs = false, .dead = true};
  return {.runs = plan_.effect == Effect::kDone, .error_number = plan_.error_number};
}

absl::Status SimFiles::Answer(const Verdict& verdict, int error_number,
                              const std::string& attempt) {
  if (verdict.dead)
    return MakeError(WEFT_ABORTED, StrCat(attempt, ": the simulated process has ended"));
  if (verdict.error_number != 0) return FileError(verdict.error_number, attempt);
  return error_number == 0 ? absl::OkStatus() : FileError(error_number, attempt);
}

std::unique_ptr<SimFiles> SimFiles::Copy() const {
  MutexLock lock(mutex_);
  return std::unique_ptr<SimFiles>(new SimFiles(CopyDisk(*root_)));
}

size_t SimFiles::ForEachCrashState(
    size_t states_max, uint64_t seed,
    const std::function<void(SimFiles& left, const std::string& what)>& look) const {
  NodePtr disk;
  {
    MutexLock lock(mutex_);
    disk = CopyDisk(*root_);
  }
  return test::ForEachCrashState(*disk, states_max, seed,
                                 [&look](NodePtr left, const std::string& what) {
                                   SimFiles files(std::move(left));
                                   look(files, what);
                                 });
}

std::vector<std::string> SimFiles::Paths() const {
  MutexLock lock(mutex_);
  std::vector<std::string> paths;
  ListFiles(*root_, "", &paths);
  return paths;
}

std::string SimFiles::Contents(const std::string& path) const {
  MutexLock lock(mutex_);
  return FileAt(path).bytes;
}

void SimFiles::Corrupt(const std::string& path, uint64_t offset, uint8_t flipped_bits) {
  MutexLock lock(mutex_);
  DiskNode& file = FileAt(path);
  WEFT_CHECK(offset < file.bytes.size());
  file.bytes[offset] = static_cast<char>(static_cast<uint8_t>(file.bytes[offset]) ^ flipped_bits);
}

void SimFiles::Truncate(const std::string& path, uint64_t bytes) {
  MutexLock lock(mutex_);
  DiskNode& file = FileAt(path);
  WEFT_CHECK(bytes <= file.bytes.size());
  file.bytes.resize(bytes);
  file.bytes_synced = bytes;
  file.write_ends.clear();
}

void SimFiles::Extend(const std::string& path, std::string_view bytes) {
  MutexLock lock(mutex_);
  DiskNode& file = FileAt(path);
  file.bytes.append(bytes);
  file.bytes_synced = file.bytes.size();
  file.write_ends.clear();
}

void SimFiles::SwapFiles(const std::string& path, const std::string& other) {
  MutexLock lock(mutex_);
  std::swap(FileAt(path), FileAt(other));
}

NodePtr SimFiles::Find(const std::string& path, int* error_number) const {
  std::vector<std::string> names;
  *error_number = Split(path, &names) ? 0 : EINVAL;
  NodePtr node = *error_number == 0 ? root_ : nullptr;
  for (const std::string& name : names) {
    if (node == nullptr) break;
    if (!node->is_directory) *error_number = ENOTDIR;
    node = node->is_directory ? Child(*node, name) : nullptr;
  }
  if (node == nullptr && *error_number == 0) *error_number = ENOENT;
  return node;
}

NodePtr SimFiles::FindParent(const std::string& path, std::string* name, int* error_number) const {
  std::vector<std::string> names;
  if (!Split(path, &names) || names.empty()) {
    *error_number = EINVAL;
    return nullptr;
  }
  *name = names.back();
  NodePtr parent = Find(ParentDirectory(path), error_number);
  if (parent == nullptr || parent->is_directory) return parent;
  *error_number = ENOTDIR;
  return nullptr;
}

DiskNode& SimFiles::FileAt(const std::string& path) const {
  int error_number = 0;
  const NodePtr node = Find(path, &error_number);
  WEFT_CHECK(node != nullptr && !node->is_directory);
  return *node;
}

int SimFiles::DoCreate(const std::string& path, NodePtr* node) {
  std::string name;
  int error_number = 0;
  const NodePtr parent = FindParent(path, &name, &error_number);
  if (parent == nullptr) return error_number;
  if (Child(*parent, name) != nullptr) return EEXIST;
  *node = std::make_shared<DiskNode>();
  parent->ChangeName(name, true, *node);
  return 0;
}

int SimFiles::DoRename(const std::string& from, const std::string& to) {
  std::string old_name;
  std::string new_name;
  int error_number = 0;
  const NodePtr parent = FindParent(from, &old_name, &error_number);
  if (parent == nullptr) return error_number;
  const NodePtr node = Child(*parent, old_name);
  if (node == nullptr) return ENOENT;
  const NodePtr new_parent = FindParent(to, &new_name, &error_number);
  if (new_parent == nullptr) return error_number;
  if (new_parent != parent) return EXDEV;
  if (old_name == new_name) return 0;
  if (const NodePtr replaced = Child(*parent, new_name)) {
    if (replaced->is_directory != node->is_directory)
      return replaced->is_directory ? EISDIR : ENOTDIR;
    if (!replaced->names.empty()) return ENOTEMPTY;
  }
  parent->ChangeName(new_name, true, node);
  return 0;
}

int SimFiles::DoLink(const std::string& from, const std::string& to) {
  std::string old_name;
  std::string new_name;
  int error_number = 0;
  const NodePtr parent = FindParent(from, &old_name, &error_number);
  if (parent == nullptr) return error_number;
  const NodePtr node = Child(*parent, old_name);
  if (node == nullptr) return ENOENT;
  if (node->is_directory) return EPERM;
  const NodePtr new_parent = FindParent(to, &new_name, &error_number);
  if (new_parent == nullptr) return error_number;
  if (Child(*new_parent, new_name) != nullptr) return EEXIST;
  if (new_parent != parent) return EXDEV;
  parent->AddSecondName(new_name, node);
  return 0;
}

int SimFiles::DoRemove(const std::string& path, bool directory) {
  std::string name;
  int error_number = 0;
  const NodePtr parent = FindParent(path, &name, &error_number);
  if (parent == nullptr) return error_number;
  const NodePtr node = Child(*parent, name);
  if (node == nullptr) return ENOENT;
  if (node->is_directory != directory) return directory ? ENOTDIR : EISDIR;
  if (!node->names.empty()) return ENOTEMPTY;
  parent->ChangeName(name, false, node);
  return 0;
}

int SimFiles::DoMakeDirectory(const std::string& path) {
  int error_number = 0;
  const NodePtr there = Find(path, &error_number);
  if (there != nullptr) return there->is_directory ? 0 : ENOTDIR;
  std::string name;
  const NodePtr parent = FindParent(path, &name, &error_number);
  if (parent == nullptr) return error_number;
  parent->ChangeName(name, true, std::make_shared<DiskNode>(DiskNode{.is_directory = true}));
  return 0;
}

}  // namespace weft::test
