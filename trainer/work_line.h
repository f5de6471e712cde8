// How far something has come that takes a while: one line that is redrawn on a terminal, elsewhere a
// line every few seconds.
//
//   WorkLine line(isatty(STDOUT_FILENO));
//   print(line.Show("counting", 0.5));      // "       counting: ██████████░░░░░░░░░░ 50 %, 0:12 left"
//   print(line.End());
//
// Thread-safety: an object belongs to one thread.
#ifndef WEFT_TRAINER_WORK_LINE_H_
#define WEFT_TRAINER_WORK_LINE_H_

#include <chrono>
#include <string>

namespace weft::trainer {

class WorkLine {
 public:
  explicit WorkLine(bool terminal) : terminal_(terminal) {}

  // What is to be printed, with `share` of the work done, 0 to 1; "" if nothing is due.
  std::string Show(const std::string& what, double share);

  // What removes the line that is redrawn.
  std::string End();

 private:
  const bool terminal_;
  std::string what_;  // of the last call
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point shown_;
  bool drawn_ = false;  // on a terminal, in a line that is to be redrawn
};

// A bar of so much.
std::string BarOf(double share);

// "2:05".
std::string ClockTime(double seconds);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_WORK_LINE_H_
