#include "base/file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {

absl::StatusOr<std::string> ReadFile(int fd, size_t bytes_max, std::string_view what) {
  std::string text;
  char buffer[16 << 10];
  while (text.size() < bytes_max) {
    const size_t room = std::min(sizeof(buffer), bytes_max - text.size());
    const ssize_t count = pread(fd, buffer, room, static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, what);
    if (count == 0) break;
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

std::string ReadFileStart(const std::string& path) {
  // /proc/cpuinfo repeats itself for every CPU: the first has what is looked for.
  constexpr size_t kBytesMax = 16 << 10;
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return "";
  return ReadFile(fd.get(), kBytesMax, path).value_or("");
}

std::string ReadFirstLine(const std::string& path) {
  const std::string text = ReadFileStart(path);
  return std::string(absl::StripAsciiWhitespace(ToAbsl(text.substr(0, text.find('\n')))));
}

std::string FieldOf(const std::string& text, std::string_view key) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (absl::StripAsciiWhitespace(parts.first) != ToAbsl(key)) continue;
    return std::string(absl::StripAsciiWhitespace(parts.second));
  }
  return "";
}

absl::Status WriteAndClose(UniqueFd fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError(errno, "writing");
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  if (close(fd.Release()) != 0) return SystemError(errno, "closing");
  return absl::OkStatus();
}

}  // namespace weft
