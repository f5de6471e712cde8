// Several processes may want one name in the same moment, so each step that gives a name to one of them is one call that only one of
// them can succeed with: mkdir, or a rename to a name that nobody has.
#include "trainer/run_folder.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/failure.h"
#include "trainer/run_files.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kConfigFile = "config.json";
constexpr const char* kEarlier = "earlier";
// The clock of files may be so late.
constexpr std::chrono::seconds kClockSlack{1};

std::string NameOfNow() {
  return fmt::format("{:%Y%m%d-%H%M%S}", fmt::gmtime(std::time(nullptr)));
}

// A job that weftrun has started again has the first one's name, and "-restart2".
std::string FirstStartOf(const std::string& job) {
  const size_t at = job.rfind("-restart");
  if (at == std::string::npos || at + 8 == job.size()) return job;
  const bool number = std::all_of(job.begin() + long(at) + 8, job.end(),
                                  [](char c) { return std::isdigit(uint8_t(c)) != 0; });
  return number ? job.substr(0, at) : job;
}

// Renames to a name that nobody has; else false, and errno is EEXIST.
bool MoveToNew(const std::string& from, const std::string& to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (errno != EINVAL && errno != ENOSYS) return false;
  // Some file systems of networks cannot. Between these calls another run may take the name.
  struct stat status = {};
  if (lstat(to.c_str(), &status) != 0) return rename(from.c_str(), to.c_str()) == 0;
  errno = EEXIST;
  return false;
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// An empty object if there is none.
Json ReadConfiguration(const std::string& directory) {
  Json json = Json::parse(ReadText(directory + "/" + kConfigFile), nullptr,
                          /*allow_exceptions=*/false);
  return json.is_object() ? json : Json::object();
}

std::string JobIn(const std::string& directory) {
  const Json json = ReadConfiguration(directory);
  const auto found = json.find("job");
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string Text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string WithStart(const std::string& configuration, const ProgramConfig& config) {
  Json json = Json::parse(configuration);
  if (!config.commit.empty()) json["commit"] = config.commit;
  json["began"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  if (!config.job.empty()) json["job"] = config.job;
  return Text(json);
}

// The folder, if any, that a start of the job has claimed last: several nodes may give one name to one job after another.
std::string FolderOfJob(const std::string& run_dir, const std::string& job) {
  std::string folder;
  fs::file_time_type last = fs::file_time_type::min();
  std::error_code error;
  fs::directory_iterator entry(run_dir, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string own = JobIn(entry->path().string());
    if (own.empty() || FirstStartOf(own) != FirstStartOf(job)) continue;
    std::error_code ignored;
    const fs::file_time_type claimed = fs::last_write_time(entry->path() / kConfigFile, ignored);
    if (ignored || claimed < last) continue;
    last = claimed;
    folder = entry->path().string();
  }
  return folder;
}

bool IsUsed(const std::string& directory) {
  std::error_code error;
  if (fs::exists(directory + "/" + kConfigFile, error)) return true;
  const auto bytes = fs::file_size(directory + "/metrics.jsonl", error);
  if (!error && bytes > 0) return true;
  return fs::is_directory(directory + "/checkpoints", error) &&
         !fs::is_empty(directory + "/checkpoints", error) && !error;
}

// As far as there is such a path.
fs::path Canonical(const std::string& path) {
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return path;
  return canonical.has_filename() ? canonical
                                  : canonical.parent_path();  // without a slash at its end
}

bool IsWithin(const std::string& path, const std::string& directory) {
  if (path.empty() || path == "auto" || path == "none") return false;
  const fs::path relative = Canonical(path).lexically_relative(Canonical(directory));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

bool HasCheckpoint(const std::string& checkpoints) {
  std::error_code error, hidden;
  fs::directory_iterator entry(checkpoints, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (fs::exists(entry->path() / "manifest.json", hidden) || hidden) return true;
  }
  // What cannot be looked at may have one: loading says why it cannot.
  return error && error != std::errc::no_such_file_or_directory &&
         error != std::errc::not_a_directory;
}

std::string CheckpointsIn(const std::string& directory) {
  std::error_code ignored;
  // However it is written: with a slash at its end, say.
  const fs::path normal = fs::path(directory).lexically_normal();
  const bool slash = !normal.has_filename() && normal.has_relative_path();
  const std::string outside = (slash ? normal.parent_path() : normal).string();
  const std::string inside = outside + "/checkpoints";
  return fs::is_directory(inside, ignored) ? inside : outside;
}

bool IsSamePath(const std::string& a, const std::string& b) {
  return Canonical(a) == Canonical(b);
}

std::optional<int64_t> StepIn(const std::string& resume) {
  std::error_code ignored;
  if (resume.empty() || fs::exists(resume, ignored)) return std::nullopt;
  const char* const end = resume.data() + resume.size();
  int64_t step = 0;
  const auto [rest, error] = std::from_chars(resume.data(), end, step);
  if (error != std::errc() || rest != end || step < 0) return std::nullopt;
  return step;
}

RunFolder::RunFolder(const ProgramConfig& config, const std::string& configuration,
                     std::chrono::system_clock::time_point start)
    : config_(config), configuration_(WithStart(configuration, config)), start_(start) {}

void RunFolder::Claim() {
  MakeRunDirectory(config_.run_dir);
  if (config_.name.empty()) {
    ClaimWithoutName();
  } else {
    directory_ = config_.run_dir + "/" + config_.name;
    if (mkdir(directory_.c_str(), 0777) != 0 && errno != EEXIST) ThrowUnwritable(directory_, errno);
    IsUsed(directory_) ? ClaimUsed() : ClaimFree();
  }
  if (config_.resume != "auto" || HasCheckpoint(directory_ + "/checkpoints")) return;
  notes_.push_back(
      config_.name.empty()
          ? fmt::format("--resume auto without --name: there is no run to go on with; "
                        "a new one begins in {}",
                        directory_)
          : fmt::format("--resume auto: there is no checkpoint in {}; the run begins anew",
                        directory_));
}

void RunFolder::ClaimWithoutName() {
  if (config_.restarts > 0) directory_ = FolderOfJob(config_.run_dir, config_.job);
  if (!directory_.empty()) return ReplaceConfiguration();
  const std::string name = config_.run_dir + "/" + NameOfNow();
  directory_ = name;
  for (int other = 2; mkdir(directory_.c_str(), 0777) != 0; other++) {
    if (errno != EEXIST) ThrowUnwritable(directory_, errno);
    directory_ = fmt::format("{}-{}", name, other);
  }
  ClaimFree();
}

void RunFolder::ClaimUsed() {
  if (IsOfThisJob()) return ReplaceConfiguration();
  if (!config_.overwrite) {
    if (!GoesOn()) {
      throw BadInput(fmt::format(
          "--name {}: {} is the folder of another run, with {} steps in its metrics; use another "
          "name, --resume auto to go on with that run, or --overwrite, which keeps it under a new "
          "name",
          config_.name, directory_,
          std::ranges::count(ReadText(directory_ + "/metrics.jsonl"), '\n')));
    }
    if (config_.resume != "auto" || HasCheckpoint(directory_ + "/checkpoints"))
      return ReplaceConfiguration();
  }
  // Also steps that cannot be gone on with stay.
  MoveAside();
  if (mkdir(directory_.c_str(), 0777) != 0 && errno != EEXIST) ThrowUnwritable(directory_, errno);
  ClaimFree();
}

bool RunFolder::GoesOn() const {
  return config_.resume == "auto" || StepIn(config_.resume) || IsWithin(config_.resume, directory_);
}

bool RunFolder::IsOfThisJob() const {
  const std::string job = JobIn(directory_);
  if (job.empty() || FirstStartOf(job) != FirstStartOf(config_.job)) return false;
  if (config_.restarts > 0) return true;
  // A rank 0 that is lost has claimed it a moment ago, for the ranks that begin again. Names of jobs may come again.
  struct stat status = {};
  if (stat((directory_ + "/" + kConfigFile).c_str(), &status) != 0) return false;
  const std::chrono::seconds claimed(status.st_mtim.tv_sec);
  return claimed + kClockSlack >=
         std::chrono::floor<std::chrono::seconds>(start_.time_since_epoch());
}

void RunFolder::MoveAside() {
  for (const std::string& path : {config_.init, config_.resume}) {
    if (!IsWithin(path, directory_)) continue;
    throw BadInput(
        fmt::format("--overwrite would move {}, which the run is to begin with; use another "
                    "--name",
                    path));
  }
  for (int number = 1;; number++) {
    const std::string old = fmt::format("{}.old-{}", directory_, number);
    if (MoveToNew(directory_, old)) {
      notes_.push_back(fmt::format("the run that was in {} is in {} now", directory_, old));
      moved_to_ = old;
      return;
    }
    if (errno != EEXIST) ThrowUnwritable(old, errno);
  }
}

void RunFolder::ClaimFree() {
  if (access(directory_.c_str(), W_OK | X_OK) != 0) ThrowUnwritable(directory_, errno);
  // Under a name of its own first, so that the claim is the whole file.
  const std::string begun = fmt::format("{}.{}", kConfigFile, getpid());
  WriteRunFile(directory_, begun, configuration_);
  const std::string from = directory_ + "/" + begun, to = directory_ + "/" + kConfigFile;
  fresh_ = MoveToNew(from, to);
  if (fresh_) return;
  const int error = errno;
  std::remove(from.c_str());
  if (error != EEXIST) ThrowUnwritable(to, error);
  throw BadInput(fmt::format("--name {}: another run has just begun in {}; use another name",
                             config_.name, directory_));
}

void RunFolder::ReplaceConfiguration() {
  const std::string text = ReadText(directory_ + "/" + kConfigFile);
  Json before = ReadConfiguration(directory_);
  Json now = Json::parse(configuration_);
  Json earlier = Json::array();
  if (const auto found = before.find(kEarlier); found != before.end()) {
    if (found->is_array()) earlier = *found;
    before.erase(found);
  }
  // A job that is started again and again is one entry.
  const auto without_start = [](Json json) {
    for (const char* key : {"began", "job", "resume"})
      json.erase(key);
    return json;
  };
  if (!before.empty() && without_start(before) != without_start(now)) earlier.push_back(before);
  if (!earlier.empty()) now[kEarlier] = earlier;
  WriteRunFile(directory_, kConfigFile, Text(now));
  before_ = text;
}

void RunFolder::Release() {
  std::error_code ignored;
  if (fresh_) {
    for (const char* made : {"metrics.jsonl", kConfigFile})
      fs::remove(directory_ + "/" + made, ignored);
    fs::remove(directory_, ignored);  // if nothing else is there
  }
  if (!moved_to_.empty()) MoveToNew(moved_to_, directory_);
  if (before_.empty()) return;
  try {
    WriteRunFile(directory_, kConfigFile, before_);
  } catch (const std::runtime_error& error) {
    Complain(error.what());
  }
}

}  // namespace weft::trainer
