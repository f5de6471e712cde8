// The control groups that this process is in, and what memory they leave it.
//
//   for (const std::string& folder : CgroupFolders("", "memory")) ...   // folder + "/memory.limit_in_bytes"
//   WEFT_RETURN_IF_ERROR(CheckCgroupMemory("", bytes));
//
// Both versions of the interface are read, each as it is mounted by everybody (/sys/fs/cgroup). `root` is
// "" for the machine's own files; tests bring theirs.
// Thread-safety: pure functions over the file system.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace weft {

// The folders of this process's group for `controller` of version 1, of version 2 if it is "", each
// with those that it is in. Some may not exist.
std::vector<std::string> CgroupFolders(const std::string& root, std::string_view controller);

// OUT_OF_MEMORY, with the group and its numbers, if taking `bytes` more would exceed the limit of a
// group: the kernel would then end a process instead of refusing the memory. What the kernel can give back (page
// cache) or move to swap counts as free. Others may take memory at the same time, so Ok is no promise.
absl::Status CheckCgroupMemory(const std::string& root, size_t bytes);

}  // namespace weft
