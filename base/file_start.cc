#include "base/file_start.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "base/fd.h"
#include "base/text.h"

namespace weft {
namespace {

// /proc/cpuinfo repeats itself for every CPU: the first has what is looked for.
constexpr size_t kFileBytesMax = 16 << 10;

}  // namespace

std::string ReadFileStart(const std::string& path) {
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

}  // namespace weft
