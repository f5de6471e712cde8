// The kernel ends a process when a limit of a control group is exceeded, so the limits are looked at before memory is
// taken. Every group from the process's own up to the mount counts, in both versions of the interface. What cannot be
// read is no limit, and what the kernel can take back counts as free: this may fail to warn, but must not refuse memory
// that is there.
#include "base/cgroup.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kDepthMax = 64;
// Version 1 has no word for "no limit", only the largest number of whole pages.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;
// Page tables and the kernel's own bookkeeping are counted too, some of it per CPU and in advance.
constexpr uint64_t kSpareBytes = uint64_t{1} << 20;
constexpr uint64_t kSpareShare =
    128;  // of what is asked for: page tables of two processes and more

// A group's folder and those it is in. In a container the path of /proc/self/cgroup may lead nowhere;
// the mount's own folder is then what applies, and it is the last of these.
void AddFolders(const std::string& mount, std::string path, std::vector<std::string>* folders) {
  for (int depth = 0; path.size() > 1 && depth < kDepthMax; ++depth) {
    folders->push_back(mount + path);
    path.resize(path.rfind('/'));
  }
  folders->push_back(mount);
}

std::optional<uint64_t> ReadNumber(const std::string& path) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(ReadFirstLine(path), &number)) return std::nullopt;
  return number;
}

// The number of a row like "oom_kill 1".
std::optional<uint64_t> ReadRow(const std::string& path, std::string_view row) {
  const std::string text = ReadFileStart(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    uint64_t number = 0;
    if (parts.first == row && absl::SimpleAtoi(parts.second, &number)) return number;
  }
  return std::nullopt;
}

constexpr std::string_view kOomKillRow = "oom_kill";

// The sum of some rows of a memory.stat, which has lines like "inactive_file 4096".
uint64_t SumOfRows(const std::string& path, const std::array<std::string_view, 3>& rows) {
  uint64_t sum = 0;
  const std::string text = ReadFileStart(path);
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    uint64_t bytes = 0;
    if (std::find(rows.begin(), rows.end(), parts.first) == rows.end()) continue;
    if (absl::SimpleAtoi(parts.second, &bytes) && bytes < kNoLimit) sum += bytes;
  }
  return sum;
}

uint64_t Minus(uint64_t a, uint64_t b) {
  return a > b ? a - b : 0;
}

// The bytes of swap that the machine has left.
uint64_t FreeSwap(const std::string& root) {
  const std::string field = FieldOf(ReadFileStart(root + "/proc/meminfo"), "SwapFree");  // "24 kB"
  uint64_t kib = 0;
  if (!absl::SimpleAtoi(field.substr(0, field.find(' ')), &kib)) return 0;
  return kib < kNoLimit / 1024 ? kib * 1024 : 0;
}

struct Room {
  std::string folder;
  uint64_t limit = 0;
  uint64_t free = 0;
};

// How the two versions name what is read here.
struct Names {
  const char* limit;
  const char* used;
  const char* swap_limit;
  const char* swap_used;
  bool swap_has_memory;                         // in swap_limit and swap_used
  std::array<std::string_view, 3> reclaimable;  // rows of memory.stat
};

// Files that are dirty count too: they are written before anybody is ended.
const Names kVersion1 = {"/memory.limit_in_bytes",
                         "/memory.usage_in_bytes",
                         "/memory.memsw.limit_in_bytes",
                         "/memory.memsw.usage_in_bytes",
                         true,
                         {"total_inactive_file", "total_active_file", "total_slab_reclaimable"}};
const Names kVersion2 = {"/memory.max",
                         "/memory.current",
                         "/memory.swap.max",
                         "/memory.swap.current",
                         false,
                         {"inactive_file", "active_file", "slab_reclaimable"}};

std::optional<Room> RoomOf(const std::string& root, const std::string& folder, const Names& names) {
  const std::optional<uint64_t> limit = ReadNumber(folder + names.limit);
  if (!limit || *limit >= kNoLimit) return std::nullopt;  // as a rule, and then no more is read
  const std::optional<uint64_t> used = ReadNumber(folder + names.used);
  if (!used) return std::nullopt;
  const uint64_t held = Minus(*used, SumOfRows(folder + "/memory.stat", names.reclaimable));
  Room room{folder, *limit, Minus(*limit, held)};
  uint64_t swap = FreeSwap(root);
  const std::optional<uint64_t> swap_limit = ReadNumber(folder + names.swap_limit);
  const std::optional<uint64_t> swap_used = ReadNumber(folder + names.swap_used);
  if (swap_limit && swap_used) {
    const uint64_t left = Minus(*swap_limit, *swap_used);
    swap = std::min(swap, names.swap_has_memory ? Minus(left, Minus(*limit, *used)) : left);
  }
  room.free += swap;
  return room;
}

// The room in the group that leaves least, among all that the process is in.
std::optional<Room> LeastRoom(const std::string& root) {
  std::optional<Room> least;
  const auto look = [&](const std::vector<std::string>& folders, const Names& names) {
    for (const std::string& folder : folders) {
      std::optional<Room> room = RoomOf(root, folder, names);
      if (room && (!least || room->free < least->free)) least = std::move(room);
    }
  };
  look(CgroupFolders(root, ""), kVersion2);
  look(CgroupFolders(root, "memory"), kVersion1);
  return least;
}

}  // namespace

std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller,
                                       std::string_view process) {
  std::vector<std::string> folders;
  const std::string text = ReadFileStart(StrCat(root, "/proc/", process, "/cgroup"));
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
    std::vector<std::string> mounts = {"", "/unified"};
    if (!controller.empty()) mounts = {StrCat("/", controller), "/" + parts[1]};
    if (mounts[0] == mounts[1]) mounts.pop_back();
    for (const std::string& mount : mounts)
      AddFolders(StrCat(root, "/sys/fs/cgroup", mount), parts[2], &folders);
  }
  return folders;
}

// A group is frozen with those that it is in, and both versions say so of the group itself.
bool IsFrozen(const std::string& root, std::string_view process) {
  for (const std::string& folder : CgroupFolders(root, "freezer", process)) {
    const std::string state = ReadFirstLine(folder + "/freezer.state");
    if (state == "FROZEN") return true;
    if (!state.empty()) break;
  }
  for (const std::string& folder : CgroupFolders(root, "", process)) {
    if (const auto frozen = ReadRow(folder + "/cgroup.events", "frozen")) return *frozen == 1;
  }
  return false;
}

// The first folder that has a counter: a group without a controller of its own is counted with the one that it is in.
OomKills::OomKills(const std::string& root, std::string_view process) {
  const auto look = [&](std::string_view controller, std::string_view file) {
    for (const std::string& folder : CgroupFolders(root, controller, process)) {
      std::string path = StrCat(folder, file);
      const std::optional<uint64_t> count = ReadRow(path, kOomKillRow);
      if (!count) continue;
      path_ = std::move(path);
      before_ = *count;
      return;
    }
  };
  look("memory", "/memory.oom_control");
  if (path_.empty()) look("", "/memory.events");
}

uint64_t OomKills::Since() const {
  if (path_.empty()) return 0;
  return Minus(ReadRow(path_, kOomKillRow).value_or(0), before_);
}

absl::Status CheckCgroupMemory(const std::string& root, size_t bytes) {
  const std::optional<Room> room = LeastRoom(root);
  if (!room || room->free >= bytes + bytes / kSpareShare + kSpareBytes) return absl::OkStatus();
  return MakeError(WEFT_OUT_OF_MEMORY,
                   StrCat("the memory limit of the control group ", room->folder, " is ",
                          FormatBytes(room->limit), ", of which ", FormatBytes(room->free),
                          " are free; free some or raise the limit"));
}

}  // namespace weft
