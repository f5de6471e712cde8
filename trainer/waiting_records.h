// Records on their way to a descriptor that does not always take them: a file on a disk that is
// full, a pipe whose reader is slow.
//
//   WaitingRecords records;
//   records.Add(line);
//   const int error = records.WriteTo(fd);        // as much of them as it takes
//   records.Confirm(0);                           // what was written is there
//   if (records.lacking() > 0) ...                // so many records are not
//
// What is not taken waits in memory and is tried again with the next one, from the byte where
// writing stopped. So what took nothing for a while costs no record. Of those that come while
// 16 MiB wait nothing is kept: they are missing between those that waited and those that come when
// there is room again, and `lost` counts them.
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_WAITING_RECORDS_H_
#define WEFT_TRAINER_WAITING_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace weft::trainer {

class WaitingRecords {
 public:
  static constexpr size_t kBytesMax = 16 << 20;  // that wait

  void Add(const std::string& record);

  // Returns 0, or the errno of what stopped it.
  int WriteTo(int fd);

  // The records are where they were to go but for the last `unread` bytes that were written, which
  // a pipe may have.
  void Confirm(size_t unread);

  // What waits, or was not confirmed, is lost.
  void GiveUp();

  // Whether all are written; some may not be confirmed.
  bool AllWritten() const { return begin_ == bytes_.size(); }

  // How many were not kept.
  size_t lost() const { return lost_; }

  // How many are not confirmed, those that were lost too.
  size_t lacking() const { return lost_ + ends_.size(); }

 private:
  std::string bytes_;  // from begin_ on they wait
  size_t begin_ = 0;
  std::deque<uint64_t> ends_;  // of records that were not confirmed, as numbers of bytes since Add
  uint64_t added_ = 0;         // bytes
  size_t lost_ = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_WAITING_RECORDS_H_
