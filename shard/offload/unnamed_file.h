// A file without a name: nobody else can open it, and it is gone with its last descriptor, however the process ends.
//
//   WEFT_ASSIGN_OR_RETURN(UnnamedFile file, MakeUnnamedFile("/scratch", 64 << 30, /*direct=*/true));
//
// Its room is reserved, so that a full disk is known now and not in the middle of a training step; it reads as zeros.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

struct UnnamedFile {
  UniqueFd fd;
  // Transfers pass by the page cache (O_DIRECT), and must be aligned to 4096 bytes.
  bool direct = false;
};

// `bytes` long, 4096 at least; `direct` where the file system has that. Without O_TMPFILE it has a name for an instant (".weft-offload-..."). Where room cannot be reserved, it is looked whether
// there is any. Errors are of FileError(), of a full disk or a limit with the bytes wanted and free; nothing is left then.
absl::StatusOr<UnnamedFile> MakeUnnamedFile(const std::string& directory, uint64_t bytes,
                                            bool direct);

}  // namespace weft
