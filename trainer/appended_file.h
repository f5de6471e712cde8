// A file that grows by whole records while a run goes on, and what becomes of them on a disk that
// is full.
//
//   AppendedFile file("runs/a/metrics.jsonl", 0);
//   file.Append(line);                                   // never throws
//   file.Finish();
//   if (!file.Unwritten("lines").empty()) ...            // on a full disk: what is missing, and why
//
// A record that cannot be written waits in memory and is tried again with the next one, from the
// byte where writing stopped. So a disk that was full for a while costs no record. Of those that
// come while 16 MiB wait nothing is kept: they are missing between those that waited and those that
// come when there is room again, and Unwritten counts them.
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_APPENDED_FILE_H_
#define WEFT_TRAINER_APPENDED_FILE_H_

#include <cstddef>
#include <deque>
#include <string>

namespace weft::trainer {

class AppendedFile {
 public:
  // Keeps the first `kept_bytes` of what is there. Throws as ThrowUnwritable.
  AppendedFile(std::string path, size_t kept_bytes);
  ~AppendedFile();
  AppendedFile(const AppendedFile&) = delete;
  AppendedFile& operator=(const AppendedFile&) = delete;

  void Append(const std::string& record);

  // Writes what waits, to the disk. The last call.
  void Finish();

  // How many records are not in the file and why, in words; "": all are. `records`: what they are
  // called.
  std::string Unwritten(const char* records) const;

 private:
  void WriteWaiting();

  const std::string path_;
  int fd_ = -1;
  std::string waiting_;      // the first record maybe without its beginning
  std::deque<size_t> left_;  // of each record that waits: bytes
  size_t lost_ = 0;          // for which there was no room in waiting_
  int error_ = 0;            // an errno, of the last call that wrote
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_APPENDED_FILE_H_
