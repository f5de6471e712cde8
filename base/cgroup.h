// The control groups that this process or another one is in: what memory they leave it, whether they hold it, and
// whether the kernel has ended processes of theirs.
//
//   for (const std::string& folder : CgroupFolders("", "memory")) ...   // folder + "/memory.limit_in_bytes"
//   WEFT_RETURN_IF_ERROR(CheckCgroupMemory("", bytes));
//   const OomKills kills("", std::to_string(pid));  ...  if (kills.Since() > 0) ...   // after its end
//
// Both versions of the interface are read, each as it is mounted by everybody (/sys/fs/cgroup). `root` is
// "" for the machine's own files; tests bring theirs.
// Thread-safety: pure functions over the file system; an OomKills is a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace weft {

// The folders of a process's group for `controller` of version 1, of version 2 if it is "", each
// with those that it is in. Some may not exist. `process`: its pid in /proc, or "self".
std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller,
                                       std::string_view process = "self");

// True if no process of `process`'s group gets to run, because somebody has frozen the group or one that it is in.
bool IsFrozen(const std::string& root, std::string_view process);

// How many processes of a process's memory group the kernel ends for want of memory from now on. The group is found while
// the process lives: of a dead one nobody knows it.
class OomKills {
 public:
  // Counts nothing, like one of a group that cannot be read.
  OomKills() = default;
  OomKills(const std::string& root, std::string_view process);

  // Since the object was made; 0 if that cannot be read.
  uint64_t Since() const;

 private:
  std::string path_;  // of the file; "" if there is none
  uint64_t before_ = 0;
};

// OUT_OF_MEMORY, with the group and its numbers, if taking `bytes` more would exceed the limit of a
// group: the kernel would then end a process instead of refusing the memory. What the kernel can give back (page
// cache) or move to swap counts as free. Others may take memory at the same time, so Ok is no promise.
absl::Status CheckCgroupMemory(const std::string& root, size_t bytes);

}  // namespace weft
