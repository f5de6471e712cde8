// Files in memory, of which a loss of power keeps no more than base/files.h promises, and of which any call can fail.
//
//   SimFiles files;
//   ... set up ...
//   for (int k = 1;; ++k) {
//     const std::unique_ptr<SimFiles> disk = files.Copy();
//     disk->FailAt(k, EIO);                       // or DieAt(k)
//     const absl::Status saved = Save(*disk);
//     disk->ForEachCrashState(1000, seed, [&](SimFiles& left, const std::string& what) {
//       SCOPED_TRACE(disk->what() + ", " + what);
//       ... whatever was promised must be read from `left` ...
//     });
//     disk->Revive();                             // the machine lives on, and another process reads
//     ...
//     if (!disk->struck()) break;                 // there are fewer than k calls
//   }
//
// Every call counts, also those on open files. One root, "/" or "."; paths are the same with and without the first slash,
// ".." is not known. Names are renamed and linked within their directory only: EXDEV. There are no symbolic links. Nobody lacks a
// permission.
//
// Thread-safety: the Files from any thread, and so FailAt, DieAt and the questions; the others while no call is under way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/mutex.h"
#include "tests/sim/sim_disk.h"

namespace weft::test {

class SimFiles : public Files {
 public:
  SimFiles();
  ~SimFiles() override;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                       uint64_t bytes_expected) override;
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status Link(const std::string& from, const std::string& to) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status RemoveDirectory(const std::string& path) override;
  absl::Status MakeDirectory(const std::string& path) override;
  absl::StatusOr<FileKind> KindOf(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override;
  absl::Status SyncDirectory(const std::string& path) override;

  enum class Effect {
    kNone,  // a write still leaves half of its bytes
    kDone,  // it is done, and fails nevertheless, as on file systems of networks; but for what a failed call never does:
            // make a new file, or sync
  };

  // The k-th call from now on, from 1, fails with `error_number`. A failed sync never comes true: what it was to keep is
  // kept by no later one.
  void FailAt(int k, int error_number, Effect effect = Effect::kNone);
  // And so do all after it, until another FailAt, DieAt or Revive: a disk that is full, or broken.
  void FailFrom(int k, int error_number);
  // The process ends in the k-th call from now on, of which nothing is done, or half of a write: that call and all after it
  // are ABORTED.
  void DieAt(int k);
  // Another process on the same machine: no call fails, and the files that were open are closed. What was not synced still
  // is not.
  void Revive();

  // Files have room for so many bytes together, reserved ones for as long as that takes: what does not fit is ENOSPC.
  void SetRoom(uint64_t bytes);
  // That all files have.
  uint64_t bytes() const;

  // A call has failed by FailAt, FailFrom or DieAt.
  bool struck() const;
  bool dead() const;
  // "call 7, syncing /a/b, failed with EIO", for messages.
  std::string what() const;
  // How many calls there were.
  int64_t calls() const;

  // The same files, synced or not, on a machine of their own where nothing fails. Open files stay here.
  std::unique_ptr<SimFiles> Copy() const;

  // Calls `look` with the files that a loss of power may leave, in every way or up to `states_max` of them
  // (tests/sim/sim_disk.h). They may be changed; what `look` leaves there is thrown away. Returns how many were looked at.
  size_t ForEachCrashState(
      size_t states_max, uint64_t seed,
      const std::function<void(SimFiles& left, const std::string& what)>& look) const;

  // For damage that no call does. Not counted; the files must be there.
  std::vector<std::string> Paths() const;  // of all files, in order
  std::string Contents(const std::string& path) const;
  void Corrupt(const std::string& path, uint64_t offset, uint8_t flipped_bits);
  void Truncate(const std::string& path, uint64_t bytes);
  void Extend(const std::string& path, std::string_view bytes);
  void SwapFiles(const std::string& path, const std::string& other);

 private:
  class Writable;
  class Readable;

  explicit SimFiles(std::shared_ptr<DiskNode> root);

  struct Plan {
    int left = 0;  // calls until the one that fails; 0: none will
    int error_number = 0;
    Effect effect = Effect::kNone;
    bool lasting = false;
    bool dies = false;
  };

  // What becomes of a call.
  struct Verdict {
    bool runs = true;
    bool begins = true;    // a write: of one that does not run, some is written
    int error_number = 0;  // that it fails with nevertheless
    bool dead = false;
  };

  void SetPlan(const Plan& plan);
  Verdict Count(const std::string& attempt) WEFT_REQUIRES(mutex_);
  // The status of a call that ran, or did not, with this result.
  static absl::Status Answer(const Verdict& verdict, int error_number, const std::string& attempt);

  // The node at `path`; NULL with what is wrong in `error_number`.
  std::shared_ptr<DiskNode> Find(const std::string& path, int* error_number) const
      WEFT_REQUIRES(mutex_);
  // The directory of `path`, and the name there.
  std::shared_ptr<DiskNode> FindParent(const std::string& path, std::string* name,
                                       int* error_number) const WEFT_REQUIRES(mutex_);
  // A file of a test's own damage.
  DiskNode& FileAt(const std::string& path) const WEFT_REQUIRES(mutex_);

  uint64_t BytesOfAll() const WEFT_REQUIRES(mutex_);
  int DoCreate(const std::string& path, std::shared_ptr<DiskNode>* node) WEFT_REQUIRES(mutex_);
  int DoRename(const std::string& from, const std::string& to) WEFT_REQUIRES(mutex_);
  int DoLink(const std::string& from, const std::string& to) WEFT_REQUIRES(mutex_);
  int DoRemove(const std::string& path, bool directory) WEFT_REQUIRES(mutex_);
  int DoMakeDirectory(const std::string& path) WEFT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  const std::shared_ptr<DiskNode> root_;
  Plan plan_ WEFT_GUARDED_BY(mutex_);
  std::string struck_ WEFT_GUARDED_BY(mutex_);
  bool dead_ WEFT_GUARDED_BY(mutex_) = false;
  int64_t calls_ WEFT_GUARDED_BY(mutex_) = 0;
  uint64_t room_ WEFT_GUARDED_BY(mutex_) = UINT64_MAX;
  int64_t process_ WEFT_GUARDED_BY(mutex_) = 0;  // files of others are closed
};

}  // namespace weft::test
