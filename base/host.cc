#include "base/host.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/fd.h"
#include "base/options.h"
#include "base/text.h"

namespace weft {
namespace {

// /proc/cpuinfo repeats itself for every CPU: the first has what is looked for.
constexpr size_t kFileBytesMax = 16 << 10;
constexpr int kCgroupDepthMax = 64;
constexpr int kCacheIndexMax = 16;
constexpr double kSmallestQuota = 0.01;
constexpr uint64_t kCacheBytesMax = uint64_t{1} << 40;

// The beginning of a file; "" if it cannot be read.
std::string ReadStart(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return "";
  std::string text(kFileBytesMax, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t count = read(fd.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<size_t>(count);
  }
  text.resize(size);
  return text;
}

std::string ReadLine(const std::string& path) {
  const std::string text = ReadStart(path);
  return std::string(absl::StripAsciiWhitespace(ToAbsl(text.substr(0, text.find('\n')))));
}

// What stands behind "key :" in a file of such lines; "" if no line has it.
std::string Field(const std::string& text, std::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) != ToAbsl(key)) continue;
    return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return "";
}

void ReadCpuInfo(const std::string& root, HostFacts* host) {
  const std::string text = ReadStart(root + "/proc/cpuinfo");
  // Names come from firmware: printable, and no longer than a line of text.
  std::string model = Field(text, "model name").substr(0, 128);
  std::replace_if(
      model.begin(), model.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (!model.empty()) host->cpu_model = model;
  host->hypervisor = absl::StrContains(StrCat(" ", Field(text, "flags"), " "), " hypervisor ");
  const std::string release = ReadLine(root + "/proc/sys/kernel/osrelease").substr(0, 128);
  if (!release.empty()) host->kernel_release = release;
}

void ReadCaches(const std::string& root, HostFacts* host) {
  for (int index = 0; index < kCacheIndexMax; ++index) {
    const std::string folder = StrCat(root, "/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    const std::string level = ReadLine(folder + "level");
    if (level.empty()) return;
    int64_t bytes = 0;
    if (ReadLine(folder + "type") == "Instruction" ||
        !ParseBytes(ReadLine(folder + "size"), &bytes) || bytes < 4096 ||
        static_cast<uint64_t>(bytes) > kCacheBytesMax) {
      continue;
    }
    if (level == "1") host->l1_bytes = static_cast<uint64_t>(bytes);
    if (level == "2") host->l2_bytes = static_cast<uint64_t>(bytes);
    if (level == "3") host->l3_bytes = static_cast<uint64_t>(bytes);
  }
}

// A cgroup's folder and those it is in. In a container the path of /proc/self/cgroup may lead nowhere;
// the mount's own folder is then what applies, and it is the last of these.
std::vector<std::string> CgroupFolders(const std::string& mount, std::string path) {
  std::vector<std::string> folders;
  while (path.size() > 1 && folders.size() < kCgroupDepthMax) {
    folders.push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders.push_back(mount);
  return folders;
}

// The folders of this process's cgroup for `controller` in both versions, "" in version 2.
std::vector<std::string> FoldersOf(const std::string& root, std::string_view controller) {
  std::vector<std::string> folders;
  const std::string text = ReadStart(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {  // "4:cpu,cpuacct:/a/b"
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || !absl::StartsWith(parts[2], "/") ||
        absl::StrContains(parts[2], "/..")) {
      continue;
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), controller) == controllers.end())
      continue;
    // Version 2 alone, version 2 beside version 1, version 1 under either of its names.
    const std::vector<std::string> mounts =
        controller.empty() ? std::vector<std::string>{"", "/unified"}
                           : std::vector<std::string>{StrCat("/", controller), "/" + parts[1]};
    for (const std::string& mount : mounts) {
      for (std::string& folder : CgroupFolders(StrCat(root, "/sys/fs/cgroup", mount), parts[2]))
        folders.push_back(std::move(folder));
    }
  }
  return folders;
}

// quota / period, if both are numbers.
void TakeQuota(std::string_view quota, std::string_view period, double* cores) {
  double run = 0;
  double of = 0;
  if (!absl::SimpleAtod(ToAbsl(quota), &run) || !absl::SimpleAtod(ToAbsl(period), &of)) return;
  if (!(run > 0 && run < 1e15 && of > 0 && of < 1e15)) return;  // -1 and "max" are no limit
  *cores = std::min(*cores, std::max(run / of, kSmallestQuota));
}

void TakeLimit(std::string_view text, uint64_t* bytes) {
  uint64_t limit = 0;
  if (!absl::SimpleAtoi(ToAbsl(text), &limit) || limit == 0) return;
  if (*bytes == 0 || limit < *bytes) *bytes = limit;
}

void ReadCgroups(const std::string& root, HostFacts* host) {
  for (const std::string& folder : FoldersOf(root, "")) {
    const std::vector<std::string> parts = absl::StrSplit(ReadLine(folder + "/cpu.max"), ' ');
    if (parts.size() == 2) TakeQuota(parts[0], parts[1], &host->cores);
    TakeLimit(ReadLine(folder + "/memory.max"), &host->memory_bytes);
  }
  for (const std::string& folder : FoldersOf(root, "cpu")) {
    TakeQuota(ReadLine(folder + "/cpu.cfs_quota_us"), ReadLine(folder + "/cpu.cfs_period_us"),
              &host->cores);
  }
  for (const std::string& folder : FoldersOf(root, "memory"))
    TakeLimit(ReadLine(folder + "/memory.limit_in_bytes"), &host->memory_bytes);
}

void ReadMemory(const std::string& root, HostFacts* host) {
  const std::string total = Field(ReadStart(root + "/proc/meminfo"), "MemTotal");  // "24 kB"
  uint64_t kib = 0;
  if (!absl::SimpleAtoi(ToAbsl(total.substr(0, total.find(' '))), &kib)) return;
  if (kib < std::numeric_limits<uint64_t>::max() / 1024) host->memory_bytes = kib * 1024;
}

}  // namespace

HostFacts ReadHostFacts(const std::string& root, int cpus) {
  HostFacts host;
  host.cpus = std::max(cpus, 1);
  host.cores = host.cpus;
  ReadCpuInfo(root, &host);
  ReadCaches(root, &host);
  ReadMemory(root, &host);
  ReadCgroups(root, &host);
  return host;
}

HostFacts ReadHostFacts() {
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof(cpus), &cpus) == 0) return ReadHostFacts("", CPU_COUNT(&cpus));
  // More CPUs than a cpu_set_t has.
  return ReadHostFacts("", static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

}  // namespace weft
