#include "base/files.h"

#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

#include <unistd.h>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

std::string_view WhatToDo(int error_number) {
  switch (error_number) {
    case ENOSPC:
      return "; free some of that file system, or choose a directory of another one";
    case EDQUOT:
      return "; remove files there, or choose a directory of another file system";
    case EFBIG:
      return "; raise the limit of a file's size (ulimit -f), or choose a file system that takes "
             "larger ones";
    case EIO:
      return "; the device or the network to it failed: look at the kernel's log, and do not rely "
             "on what was "
             "last written there";
    case EROFS:
      return "; choose a directory of another one, or mount it for writing";
    case EACCES:
    case EPERM:
      return "; choose another directory, or let this user write and read there";
    case EMFILE:
    case ENFILE:
      return "; raise the limit of descriptors (ulimit -n)";
    default:
      return "";
  }
}

std::string_view WithoutSlashesAtEnd(std::string_view path) {
  while (path.size() > 1 && path.back() == '/')
    path.remove_suffix(1);
  return path;
}

absl::Status WriteNewFile(Files& files, const std::string& path, uint64_t bytes_expected,
                          const std::function<absl::Status(WritableFile&)>& write) {
  absl::StatusOr<std::unique_ptr<WritableFile>> file = files.Create(path, bytes_expected);
  if (absl::IsAlreadyExists(file.status())) {
    // Of a writer that did not come to its end.
    WEFT_RETURN_IF_ERROR(files.Remove(path));
    file = files.Create(path, bytes_expected);
  }
  WEFT_RETURN_IF_ERROR(file.status());
  WEFT_RETURN_IF_ERROR(write(**file));
  WEFT_RETURN_IF_ERROR((*file)->Sync());
  return (*file)->Close();
}

}  // namespace

absl::Status FileError(int error_number, std::string_view what) {
  const absl::Status error = SystemError(error_number, what);
  const std::string message = StrCat(error.message(), WhatToDo(error_number));
  switch (error_number) {
    case ENOENT:
      return absl::NotFoundError(message);
    case EEXIST:
      return absl::AlreadyExistsError(message);
    case EDQUOT:
      return MakeError(WEFT_OUT_OF_MEMORY, message);
    default:
      return MakeError(ResultOf(error), message);
  }
}

std::string ParentDirectory(std::string_view path) {
  path = WithoutSlashesAtEnd(path);
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  path = WithoutSlashesAtEnd(path.substr(0, slash));
  return path.empty() ? "/" : std::string(path);
}

absl::StatusOr<std::string> AbsolutePath(std::string_view path) {
  path = WithoutSlashesAtEnd(path);
  if (!path.empty() && path.front() == '/') return std::string(path);
  // std::filesystem would be in the way of programs that are linked statically with libweft.a.
  char here[PATH_MAX];
  if (getcwd(here, sizeof here) == nullptr)
    return FileError(errno, StrCat("finding the current directory, in which ", path, " is to be"));
  return path.empty() ? std::string(here) : StrCat(here, "/", path);
}

absl::StatusOr<std::string> ReadWholeFile(Files& files, const std::string& path, size_t bytes_max) {
  WEFT_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  WEFT_ASSIGN_OR_RETURN(const uint64_t bytes, file->Size());
  if (bytes > bytes_max)
    return MakeError(WEFT_CORRUPT, StrCat("reading ", path, ": it has ", bytes, " bytes, and ",
                                          bytes_max, " is the most that is read of it"));
  std::string text(bytes, '\0');
  WEFT_RETURN_IF_ERROR(file->ReadAt(0, text.data(), text.size()));
  return text;
}

absl::Status WriteFileAtomically(Files& files, const std::string& path, std::string_view bytes) {
  return WriteFileAtomically(files, path, bytes.size(), [bytes](WritableFile& file) {
    return file.Write(bytes.data(), bytes.size());
  });
}

absl::Status WriteFileAtomically(Files& files, const std::string& path, uint64_t bytes_expected,
                                 const std::function<absl::Status(WritableFile&)>& write) {
  const std::string aside = path + ".new";
  absl::Status status = WriteNewFile(files, aside, bytes_expected, write);
  if (status.ok()) status = files.Rename(aside, path);
  if (!status.ok()) {
    // Best effort: the next writer removes it too.
    static_cast<void>(files.Remove(aside));
    return status;
  }
  return files.SyncDirectory(ParentDirectory(path));
}

}  // namespace weft
