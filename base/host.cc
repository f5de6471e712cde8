#include "base/host.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <vector>

#include <sched.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/cgroup.h"
#include "base/file.h"
#include "base/quantity.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kCacheIndexMax = 16;
constexpr double kSmallestQuota = 0.01;
constexpr uint64_t kCacheBytesMax = uint64_t{1} << 40;

void ReadCpuInfo(const std::string& root, HostFacts* host) {
  const std::string text = ReadFileStart(root + "/proc/cpuinfo");
  // Names come from firmware: printable, and no longer than a line of text.
  std::string model = FieldOf(text, "model name").substr(0, 128);
  std::replace_if(
      model.begin(), model.end(), [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  if (!model.empty()) host->cpu_model = model;
  host->hypervisor = absl::StrContains(StrCat(" ", FieldOf(text, "flags"), " "), " hypervisor ");
  const std::string release = ReadFirstLine(root + "/proc/sys/kernel/osrelease").substr(0, 128);
  if (!release.empty()) host->kernel_release = release;
}

void ReadCaches(const std::string& root, HostFacts* host) {
  for (int index = 0; index < kCacheIndexMax; ++index) {
    const std::string folder = StrCat(root, "/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    const std::string level = ReadFirstLine(folder + "level");
    if (level.empty()) return;
    int64_t bytes = 0;
    if (ReadFirstLine(folder + "type") == "Instruction" ||
        !ParseBytes(ReadFirstLine(folder + "size"), &bytes) || bytes < 4096 ||
        static_cast<uint64_t>(bytes) > kCacheBytesMax) {
      continue;
    }
    if (level == "1") host->l1_bytes = static_cast<uint64_t>(bytes);
    if (level == "2") host->l2_bytes = static_cast<uint64_t>(bytes);
    if (level == "3") host->l3_bytes = static_cast<uint64_t>(bytes);
  }
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
  for (const std::string& folder : CgroupFolders(root, "")) {
    const std::vector<std::string> parts = absl::StrSplit(ReadFirstLine(folder + "/cpu.max"), ' ');
    if (parts.size() == 2) TakeQuota(parts[0], parts[1], &host->cores);
    TakeLimit(ReadFirstLine(folder + "/memory.max"), &host->memory_bytes);
  }
  for (const std::string& folder : CgroupFolders(root, "cpu")) {
    TakeQuota(ReadFirstLine(folder + "/cpu.cfs_quota_us"),
              ReadFirstLine(folder + "/cpu.cfs_period_us"), &host->cores);
  }
  for (const std::string& folder : CgroupFolders(root, "memory"))
    TakeLimit(ReadFirstLine(folder + "/memory.limit_in_bytes"), &host->memory_bytes);
}

void ReadMemory(const std::string& root, HostFacts* host) {
  const std::string total = FieldOf(ReadFileStart(root + "/proc/meminfo"), "MemTotal");  // "24 kB"
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
