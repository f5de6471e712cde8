// A command that is given each line of metrics.jsonl on its standard input, to log it elsewhere.
//
//   MetricsCommand command("python3 log.py", "runs/a");
//   command.Append(line);                            // after each step; never throws, never waits
//   command.Finish();                                // until it has read all lines and has ended
//   if (!command.Unwritten().empty()) ...            // it has not: how it ended, and what it lacks
//
// /bin/sh runs it, in a process group of its own, so that ^C at the terminal does not end it before
// it has the last lines. It has the trainer's standard output and error, none of its other files,
// and the absolute path of the run's folder in WEFT_RUN_DIR. Lines that its pipe has no room for
// wait (waiting_records.h).
//
// Of a command that was not finished, as the run has failed, the standard input ends with what the
// pipe takes at once; nobody waits for it, and it has no time limit.
//
// Thread-safety: an object belongs to one thread, which alone waits for the process.
#ifndef WEFT_TRAINER_METRICS_COMMAND_H_
#define WEFT_TRAINER_METRICS_COMMAND_H_

#include <chrono>
#include <string>

#include <sys/types.h>

#include "trainer/waiting_records.h"

namespace weft::trainer {

struct CommandPatience {
  // In Finish: until it has ended by itself; then it gets SIGTERM.
  std::chrono::milliseconds until_asked{30'000};
  // After that, until it is killed.
  std::chrono::milliseconds until_killed{5'000};
  // After it has closed its input, until that is said: one that ends does so a moment before.
  std::chrono::milliseconds until_named{1'000};
};

class MetricsCommand {
 public:
  // Starts it. If that fails, Unwritten knows why.
  MetricsCommand(const std::string& command, const std::string& directory,
                 const CommandPatience& patience = {});
  ~MetricsCommand();
  MetricsCommand(const MetricsCommand&) = delete;
  MetricsCommand& operator=(const MetricsCommand&) = delete;

  void Append(const std::string& line);

  // Gives it what waits and the end of its input, and waits until it has ended, or ends it with its
  // process group. The last call.
  void Finish();

  // What went wrong, in one sentence, with the number of lines that it has not read; "": nothing so
  // far. Lines that wait for a slow command are no fault until Finish.
  std::string Unwritten() const;

 private:
  void Start(const std::string& command, const std::string& directory);
  // Writes as much as it takes.
  void Give();
  void NoteRead();
  void CloseInput();
  bool HasEnded() const;
  bool EndsBy(std::chrono::steady_clock::time_point deadline) const;
  // Of one that has ended.
  void TakeStatus();
  void End();
  void Fail(std::string found, const char* advice);

  const CommandPatience patience_;
  pid_t pid_ = -1;  // of the shell, and its process group; -1: none, or its status was taken
  int input_ = -1;  // where its standard input is written; -1: it is closed
  std::chrono::steady_clock::time_point closed_at_;
  bool finishing_ = false;
  WaitingRecords lines_;
  std::string found_;  // what went wrong
  const char* advice_ = "";
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_METRICS_COMMAND_H_
