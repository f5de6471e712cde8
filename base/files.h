// Files that must outlive the process, as a seam: a simulator (tests/sim/sim_files.h) hands out its own.
//
//   WEFT_ASSIGN_OR_RETURN(auto file, files.Create(directory + "/part", bytes));
//   WEFT_RETURN_IF_ERROR(file->Write(data, bytes));
//   WEFT_RETURN_IF_ERROR(file->Sync());                       // the bytes stay
//   WEFT_RETURN_IF_ERROR(file->Close());
//   WEFT_RETURN_IF_ERROR(files.SyncDirectory(directory));     // and so does the name
//
// What a machine that loses its power keeps: the bytes of a file that were written before a Sync() that was Ok, and the
// names that were made, renamed or removed before a SyncDirectory() of their directory that was Ok. Of all else any part
// may be there: a file without its bytes, with zeros for some of them, a name that was removed. A rename is whole: the old
// file stands there or the new one. A directory's own name is one of its parent's.
//
// Errors are of FileError(), and name what was attempted and the path; absl::IsNotFound() tells a file that is not there,
// and absl::IsAlreadyExists() one that is, from a disk that does not work. Signals and short transfers are gone on from.
// A change of names that fails may have happened nevertheless: file systems of networks lose answers.
//
// A call takes as long as the disk does, and a disk that hangs has no deadline: call from a thread that may be left behind.
//
// Thread-safety: Files from any thread. Objects are released before the Files that made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

// A new file, written from its beginning to its end. The first failure is final: every later call returns it again, because
// what a kernel could not write it forgets, and another Sync() would then be Ok without it.
// Thread-safety: one thread at a time. Destroying it closes it, and says nothing.
class WritableFile {
 public:
  static constexpr size_t kBlockBytes = 4096;

  virtual ~WritableFile() = default;
  // Appends all of `bytes` bytes, or fails; how many were written is then not known. `data` is borrowed for the call. Whole blocks that
  // begin at a multiple of kBlockBytes, both in memory and in the file, pass by the page cache where the file system can: that takes a
  // fraction of the CPU's time, and nobody finds them in memory who reads the file soon.
  virtual absl::Status Write(const void* data, size_t bytes) = 0;
  // Waits until what was written is on the disk, with the file's length.
  virtual absl::Status Sync() = 0;
  // Once; no other call may follow. Some file systems tell of a full disk only here.
  virtual absl::Status Close() = 0;
};

// A file that is there. Thread-safety: any number of threads at once.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  // Its bytes now.
  virtual absl::StatusOr<uint64_t> Size() = 0;
  // Fills `data` with the `bytes` bytes at `offset`. CORRUPT if the file ends before; some of `data` may then be written.
  virtual absl::Status ReadAt(uint64_t offset, void* data, size_t bytes) = 0;
};

enum class FileKind { kFile, kDirectory, kLink, kOther };

class Files {
 public:
  virtual ~Files() = default;

  // A file that is not there yet. Room for `bytes_expected`, at most what will be written, is reserved where the file
  // system can, so that a full disk is known before the first byte; 0: none. On an error it is not there afterwards.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                               uint64_t bytes_expected) = 0;
  // An ordinary file; what else stands in its place is an error, and is not waited for.
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) = 0;
  // `to` is replaced if it is a file, or a directory without content if `from` is one.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Gives a file a second name, `to`: of several callers at a time one is Ok, and the others find that it is there. A file system
  // that has no second names refuses it.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;
  // A file.
  virtual absl::Status Remove(const std::string& path) = 0;
  // A directory without content.
  virtual absl::Status RemoveDirectory(const std::string& path) = 0;
  // Ok if the directory is there. Its parent must be.
  virtual absl::Status MakeDirectory(const std::string& path) = 0;
  // What stands at `path` itself: a symbolic link is one, whatever it leads to.
  virtual absl::StatusOr<FileKind> KindOf(const std::string& path) = 0;
  // The names in a directory in order, without "." and ".."; CORRUPT if they are more than kNamesMax.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& path) = 0;
  // Waits until the names in the directory are on the disk as they are now. Ok without that on file systems that have no
  // such call, as some of networks.
  virtual absl::Status SyncDirectory(const std::string& path) = 0;

  static constexpr size_t kNamesMax = size_t{1} << 20;
};

// The real ones; they live until the process ends.
Files& SystemFiles();

// The error of a call on a file: "<what>: <text of error_number>", and for a full disk, one that is read-only, fails or
// may not be used, what to do. NOT_FOUND and ALREADY_EXISTS of absl for ENOENT and EEXIST, SYSTEM_ERROR by ResultOf();
// OUT_OF_MEMORY for ENOSPC and EDQUOT; else SYSTEM_ERROR. `what` names the path: "writing /runs/a/part".
absl::Status FileError(int error_number, std::string_view what);

// The directory that `path` stands in: "." for a bare name.
std::string ParentDirectory(std::string_view path);

// Where `path` leads from the directory that this process is in now, so that it leads there from any other too; without slashes at its end. SYSTEM_ERROR
// if that directory is gone.
absl::StatusOr<std::string> AbsolutePath(std::string_view path);

// All of a small file. CORRUPT if it has more than `bytes_max` bytes.
absl::StatusOr<std::string> ReadWholeFile(Files& files, const std::string& path, size_t bytes_max);

// Makes `path` a file of these bytes, in the place of one that may be there, so that whoever reads it, also after a loss
// of power, finds the old file or all of the new one; once this is Ok, the new one. By way of `path` + ".new", which is
// replaced, and removed on an error: one writer at a time. After an error of the last step, the sync of the directory,
// `path` may be either.
absl::Status WriteFileAtomically(Files& files, const std::string& path, std::string_view bytes);

// The same of `bytes_expected` bytes, as of Create(), that `write` writes one after the other; it neither syncs nor closes. Its error is
// returned.
absl::Status WriteFileAtomically(Files& files, const std::string& path, uint64_t bytes_expected,
                                 const std::function<absl::Status(WritableFile&)>& write);

}  // namespace weft
