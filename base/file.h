// Small files as a whole: the beginning of one of /proc or /sys, all of one, and the bytes of a new one.
//
//   const std::string text = ReadFileStart("/proc/meminfo");
//
//   WEFT_RETURN_IF_ERROR(WriteAndClose(std::move(fd), text));
//   rename(aside, path);
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"

namespace weft {

// The file's bytes from its beginning, `bytes_max` at most. By pread: whoever shares the descriptor keeps its offset.
// SystemError() with `what`.
absl::StatusOr<std::string> ReadFile(int fd, size_t bytes_max, std::string_view what);

// Up to 16 KiB; "" if it cannot be read. Never waits, whatever is in the file's place.
std::string ReadFileStart(const std::string& path);

// Its first line, without blanks at either end.
std::string ReadFirstLine(const std::string& path);

// What stands behind "key :" in a text of such lines; "" if no line has it.
std::string FieldOf(const std::string& text, std::string_view key);

// Writes all of `bytes` to `fd` and closes it. SystemError() of what failed; some file systems tell of a
// full disk only when the file is closed.
absl::Status WriteAndClose(UniqueFd fd, std::string_view bytes);

}  // namespace weft
