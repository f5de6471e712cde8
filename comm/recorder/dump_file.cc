// Dumps as files: written aside and given their name when they are whole; read only if they are
// regular and of a sensible size.
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/recorder/dump.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr size_t kGroupNameBytesMax = 64;
constexpr int kNamesMax = 99;

// A group's name as part of a file name.
std::string FileNamePart(std::string_view group) {
  std::string part(group.substr(0, kGroupNameBytesMax));
  for (char& c : part) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return part;
}

// Gives the whole file at `aside` the first free name; link() fails where rename() would replace.
absl::StatusOr<std::string> GiveName(const std::string& aside, const std::string& stem) {
  for (int number = 1; number <= kNamesMax; ++number) {
    std::string path = number == 1 ? stem + ".wfr" : fmt::format("{}-{}.wfr", stem, number);
    if (link(aside.c_str(), path.c_str()) == 0) return path;
    if (errno != EEXIST) return SystemError(errno, StrCat("naming it ", path));
  }
  return MakeError(WEFT_SYSTEM_ERROR, fmt::format("{}.wfr to {}-{}.wfr exist already; remove some",
                                                  stem, stem, kNamesMax));
}

absl::StatusOr<std::string> WriteAside(const std::string& aside, UniqueFd fd,
                                       const std::string& stem, std::string_view bytes) {
  WEFT_RETURN_IF_ERROR(WriteAndClose(std::move(fd), bytes));
  return GiveName(aside, stem);
}

absl::StatusOr<std::string> ReadAll(int fd, size_t bytes) {
  std::string content(bytes, '\0');
  size_t have = 0;
  while (have < bytes) {
    const ssize_t count = read(fd, content.data() + have, bytes - have);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return SystemError(errno, "it could not be read");
    if (count == 0) break;  // it shrank; the decoder says what is missing
    have += static_cast<size_t>(count);
  }
  content.resize(have);
  return content;
}

absl::StatusOr<RecorderDump> ReadOpened(const std::string& path) {
  // Without O_NONBLOCK a FIFO would keep us waiting.
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return SystemError(errno, "it could not be opened");
  struct stat info = {};
  if (fstat(fd.get(), &info) != 0) return SystemError(errno, "it could not be looked at");
  if (!S_ISREG(info.st_mode)) return MakeError(WEFT_CORRUPT, "it is not a regular file");
  if (info.st_size > static_cast<off_t>(kDumpFileBytesMax)) {
    return MakeError(WEFT_CORRUPT, fmt::format("it is not a recorder dump: it has {} bytes, a dump "
                                               "at most {}",
                                               info.st_size, kDumpFileBytesMax));
  }
  WEFT_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadAll(fd.get(), static_cast<size_t>(info.st_size)));
  return DecodeDump(bytes);
}

}  // namespace

absl::StatusOr<std::string> WriteDumpFile(const std::string& directory, const RecorderDump& dump) {
  WEFT_ASSIGN_OR_RETURN(const std::string bytes, EncodeDump(dump));
  const std::string stem = fmt::format("{}/weft-{}-rank{}-{}", directory, FileNamePart(dump.group),
                                       dump.writer_rank, dump.writer_pid);
  const std::string what = StrCat("writing a recorder dump to ", directory, ": ");
  std::string aside = directory + "/.weft-dump-XXXXXX";
  UniqueFd fd = CreateTemporaryFile(&aside);
  if (!fd.valid()) return SystemError(errno, what + "making a file there");
  absl::StatusOr<std::string> path = WriteAside(aside, std::move(fd), stem, bytes);
  unlink(aside.c_str());
  if (!path.ok()) return Annotate(path.status(), what);
  return path;
}

absl::StatusOr<RecorderDump> ReadDumpFile(const std::string& path) {
  absl::StatusOr<RecorderDump> dump = ReadOpened(path);
  if (!dump.ok()) return Annotate(dump.status(), StrCat("reading ", path, ": "));
  return dump;
}

}  // namespace weft
