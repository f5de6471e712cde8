// Events for TensorBoard: scalars by step, in a file that it finds by its name.
//
//   EventFile events("runs/a", 0);                                 // runs/a/events.out.tfevents.TIME.HOST.PID
//   events.Add(record.step, {{"loss/train", record.loss}});
//   events.Finish();
//
// The file is a sequence of TFRecords (length, masked CRC-32C, bytes, masked CRC-32C), each an
// Event of TensorFlow's event.proto, of which four fields are used. On a full disk events wait
// (appended_file.h). Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_EVENT_FILE_H_
#define WEFT_TRAINER_EVENT_FILE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/appended_file.h"

namespace weft::trainer {

struct Scalar {
  std::string tag;
  double value = 0;  // becomes a float
};

class EventFile {
 public:
  // A file of its own each time. With `go_on_after` > 0 TensorBoard takes what other files of the
  // directory have of later steps for undone. Throws as ThrowUnwritable.
  EventFile(const std::string& directory, size_t go_on_after);

  // All of one step and one moment.
  void Add(size_t step, const std::vector<Scalar>& scalars);

  void Finish() { file_.Finish(); }

  // How many events are not in the file and why, in words; "": all are.
  std::string Unwritten() const { return file_.Unwritten("events"); }

 private:
  AppendedFile file_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_EVENT_FILE_H_
