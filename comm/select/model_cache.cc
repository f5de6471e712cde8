// The file's name has a hash of what the model depends on, and the file has the whole text of it: a hash alone could hit
// another machine's file. Cache sizes and cores are read from the machine each time, never from the file. A file appears by
// a rename in its folder, so no reader needs a lock.
#include "comm/select/model_cache.h"

#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weft/version.h"

#include "base/fd.h"
#include "base/file.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/new_fd.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/reduce.h"

namespace weft {
namespace {

constexpr size_t kFileBytesMax = 16 << 10;  // ten times what is written
constexpr size_t kHashBytes = 8;
constexpr int64_t kClockSlackS = 300;  // how far in the future a file of another clock may be

bool IsAbsolute(const char* path) {
  return path != nullptr && path[0] == '/';
}

absl::Status Unusable(std::string_view path, std::string_view why) {
  return MakeError(WEFT_CORRUPT, StrCat(path, " ", why));
}

// The whole file; NotFound in errno's terms is an empty text.
absl::StatusOr<std::string> ReadWhole(const std::string& path) {
  // Neither a link to elsewhere nor a pipe is what was written here.
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!fd.valid() && errno == ENOENT) return std::string();
  if (!fd.valid()) return SystemError(errno, StrCat("opening ", path));
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return SystemError(errno, StrCat("looking at ", path));
  if (!S_ISREG(info.st_mode)) return Unusable(path, "is not a file");
  if (info.st_uid != geteuid()) return Unusable(path, "belongs to somebody else");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) return Unusable(path, "can be written by others");
  WEFT_ASSIGN_OR_RETURN(std::string text,
                        ReadFile(fd.get(), kFileBytesMax + 1, StrCat("reading ", path)));
  if (text.empty()) return Unusable(path, "is empty");
  if (text.size() > kFileBytesMax) return Unusable(path, "is too large");
  return text;
}

int64_t MaxAgeS(const StoredModel& stored, const HostFacts& host) {
  if (!stored.complete) return kModelMaxAgeIncompleteS;
  return host.hypervisor ? kModelMaxAgeVirtualS : kModelMaxAgeS;
}

absl::Status CheckStored(const std::string& path, const StoredModel& stored, const HostFacts& host,
                         int64_t now_s) {
  if (stored.key != ModelKey(host)) return Unusable(path, "is of another machine or weft");
  if (stored.measured_at_s > now_s + kClockSlackS) return Unusable(path, "is of the future");
  return absl::OkStatus();
}

// Creates `folder` and the one above it: $XDG_CACHE_HOME/weft or ~/.cache/weft. Nothing above these: a home that does not exist, as that of
// a system's accounts, is none.
absl::Status MakeFolders(const std::string& folder) {
  (void)mkdir(folder.substr(0, folder.rfind('/')).c_str(),
              0700);  // what stays missing is told below
  if (mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return SystemError(errno, StrCat("creating the folder ", folder));
}

absl::Status WriteAside(UniqueFd fd, const std::string& aside, const std::string& path,
                        std::string_view text) {
  WEFT_RETURN_IF_ERROR(WriteAndClose(std::move(fd), text));
  if (rename(aside.c_str(), path.c_str()) != 0) return SystemError(errno, "renaming");
  return absl::OkStatus();
}

}  // namespace

std::string ModelCacheFolder() {
  // A relative XDG_CACHE_HOME is to be ignored, says the specification.
  if (const char* const cache = EnvironmentValue("XDG_CACHE_HOME"); IsAbsolute(cache)) {
    return StrCat(cache, "/weft");
  }
  if (const char* const home = EnvironmentValue("HOME"); IsAbsolute(home)) {
    return StrCat(home, "/.cache/weft");
  }
  return "";
}

std::string ModelKey(const HostFacts& host) {
  const absl::StatusOr<Isa> isa = SelectIsa();
  return StrCat("cpu ", host.cpu_model, "; cpus ", host.cpus, "; cores ", host.cores, "; kernel ",
                host.kernel_release, host.hypervisor ? "; virtual" : "; physical", "; isa ",
                IsaName(isa.ok() ? *isa : BestIsa()), "; weft ", WEFT_VERSION_STRING, "; format ",
                kModelFormatVersion);
}

std::string ModelFilePath(const std::string& folder, const HostFacts& host) {
  return StrCat(folder, "/model-", HashName("weft model", ModelKey(host), kHashBytes), ".json");
}

std::optional<StoredModel> ReadModelFile(const std::string& folder, const HostFacts& host,
                                         int64_t now_s) {
  if (folder.empty()) return std::nullopt;
  const std::string path = ModelFilePath(folder, host);
  const auto read = [&]() -> absl::StatusOr<std::optional<StoredModel>> {
    WEFT_ASSIGN_OR_RETURN(const std::string text, ReadWhole(path));
    if (text.empty()) return std::nullopt;
    absl::StatusOr<StoredModel> stored = ModelFromJson(text);
    if (!stored.ok()) return Annotate(stored.status(), StrCat(path, ": "));
    WEFT_RETURN_IF_ERROR(CheckStored(path, *stored, host, now_s));
    return *std::move(stored);
  };
  absl::StatusOr<std::optional<StoredModel>> stored = read();
  if (!stored.ok()) {
    LogWarn("the costs of this machine are measured anew: ", stored.status().message());
    return std::nullopt;
  }
  if (!stored->has_value()) return std::nullopt;
  if (now_s - (*stored)->measured_at_s > MaxAgeS(**stored, host)) {
    LogInfo("the costs of this machine are measured anew: ", path, " is too old");
    return std::nullopt;
  }
  const MachineModel facts = StaticModel(host);
  MachineModel& model = (*stored)->model;
  model.l1_bytes = facts.l1_bytes;
  model.l2_bytes = facts.l2_bytes;
  model.l3_bytes = facts.l3_bytes;
  model.cores = facts.cores;
  if (!IsSane(model)) return std::nullopt;
  return *std::move(stored);
}

absl::Status WriteModelFile(const std::string& folder, const HostFacts& host, StoredModel stored) {
  if (folder.empty()) {
    return MakeError(WEFT_SYSTEM_ERROR,
                     "keeping the costs of this machine: there is no cache folder; set HOME or "
                     "XDG_CACHE_HOME to an absolute path");
  }
  stored.key = ModelKey(host);
  WEFT_RETURN_IF_ERROR(MakeFolders(folder));
  const std::string path = ModelFilePath(folder, host);
  std::string aside = path + ".XXXXXX";
  UniqueFd fd = CreateTemporaryFile(&aside);
  if (!fd.valid()) return SystemError(errno, StrCat("creating a file in ", folder));
  const absl::Status written = WriteAside(std::move(fd), aside, path, ModelAsJson(stored));
  if (written.ok()) return absl::OkStatus();
  unlink(aside.c_str());
  return Annotate(written, StrCat("keeping the costs of this machine in ", path, ": "));
}

}  // namespace weft
