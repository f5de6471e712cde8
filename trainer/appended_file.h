// A file that grows by whole records while a run goes on, and what becomes of them on a disk that
// is full.
//
//   AppendedFile file("runs/a/metrics.jsonl", 0);
//   file.Append(line);                                   // never throws
//   file.Finish();
//   if (!file.Unwritten("lines").empty()) ...            // on a full disk: what is missing, and why
//
// A record that cannot be written waits (waiting_records.h) and is tried again with the next one.
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_APPENDED_FILE_H_
#define WEFT_TRAINER_APPENDED_FILE_H_

#include <cstddef>
#include <string>

#include "trainer/waiting_records.h"

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
  WaitingRecords records_;
  int error_ = 0;  // an errno, of the last call that wrote
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_APPENDED_FILE_H_
