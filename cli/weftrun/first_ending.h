// Which rank was the first that failed, or that ended because it was asked to, and why; what became of the others, and the lines that
// say so.
//
//   FirstEnding first(&ranks);
//   first.Note(rank, /*look=*/true);                    // before anybody is signalled
//   Say(first.Text("", /*pids=*/true));                 // "rank 0 (pid 4711) exited with code 1"
//   for (const std::string& line : first.Report("")) Say(line);        // when all have ended
//
// A rank that is held (stopped, frozen, writing a core dump) when the first one gives up is why that gave up: it is the one that
// is named, and the exit code is that of the other.
//
// Thread-safety: one thread. Borrows the processes, which stay where they are.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "cli/weftrun/rank.h"

namespace weft {

class FirstEnding {
 public:
  // `ranks`: all processes of the job, those that have ended included.
  explicit FirstEnding(std::deque<Rank>* ranks) : ranks_(*ranks) {}

  // None has, or something outside this node was first.
  bool none() const { return rank_ == nullptr; }

  // The first one was asked to end, so the job is to.
  bool asked() const { return rank_ != nullptr && rank_->exit->asked(); }

  // As it has ended, nothing starts again.
  bool concludes() const { return rank_ != nullptr && rank_->exit->concludes(); }

  // A rank of this node could not write what it had to.
  bool unsaved() const;

  // `rank` has ended. `look`: nobody has signalled the others, so what holds one is worth knowing.
  void Note(const Rank& rank, bool look);

  // After Note(): what the job ends with. It is that of the first one, but nothing hides that a rank could not save when it was asked to end.
  int exit_code() const;

  // "rank 0 (pid 4711) exited with code 1", "rank 0 (pid 4711) was asked to end and exited with code 143", "rank 2 (pid 4713) was stopped (state T) when rank 0 (pid 4711) exited with code 1".
  // `node` stands behind a rank's number when `pids` is false.
  std::string Text(std::string_view node, bool pids) const;

  // After Note(), when all have ended. `after` stands behind how the rank ended.
  std::vector<std::string> Report(std::string_view after) const;

  // When all have ended, and a rank of another node was first: what one of this node that has ended as that one did has said, if any.
  std::vector<std::string> WordsOf(int exit_code) const;

  // "ranks 0, 2, 3 exited with code 1; rank 4 killed by signal 15 (SIGTERM)": all but the one that is named.
  std::string Others() const;

 private:
  std::vector<std::string> ReportOfAsked(std::string_view after) const;

  // Ranks that find the same fault often leave it to one of them to say so. This is the one, if the first has printed nothing and another one
  // that has ended alike has complained; else the first itself, or who held it up.
  const Rank* Named() const;

  std::deque<Rank>& ranks_;
  const Rank* rank_ = nullptr;
  const Rank* held_ = nullptr;  // why that failed, if a rank was held then
};

}  // namespace weft
