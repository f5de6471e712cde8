// What one rank prints: two pipes, read without blocking, relayed line by line to weftrun's own
// streams, copied to files, and the last lines kept for the report of a failure.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<RankOutput> output, RankOutput::Open(rank, log_path, sinks));
//   ...the child dups output->child_end(stream)...
//   output->CloseChildEnds();
//   output->AddPollItems(&items);  poll();  output->Read();
//   output->ShowUnfinished(MonotonicNs());             // at NextShowNs() at the latest
//
// A line that does not end, a progress bar's or a prompt, is shown too (ShownLine): on a terminal as soon as nothing more is there
// to be read, elsewhere when it is kShowNs old. While another rank's line is open it waits for kShowNs, also on a terminal.
//
// Thread-safety: one thread. Owns the pipes and files, borrows the sinks.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <poll.h>

#include "absl/status/statusor.h"
#include "base/fd.h"
#include "cli/weftrun/line_splitter.h"
#include "cli/weftrun/output_sink.h"
#include "cli/weftrun/shown_line.h"

namespace weft {

struct Sinks {
  OutputSink* out = nullptr;
  OutputSink* err = nullptr;
};

class RankOutput {
 public:
  static constexpr size_t kLastLinesMax = 10;
  static constexpr int64_t kShowNs = 200'000'000;

  // `log_path` is the beginning of two file names (.out, .err), "" for none.
  static absl::StatusOr<std::unique_ptr<RankOutput>> Open(int rank, const std::string& log_path,
                                                          const Sinks& sinks);

  // What the child makes its stdout (0) and stderr (1).
  int child_end(int stream) const { return streams_[stream].child_end.get(); }

  void CloseChildEnds();
  // The pipes that can be read now without filling a sink beyond its bound.
  void AddPollItems(std::vector<pollfd>* items) const;
  // Reads a bounded share of what is there.
  void Read();
  // When there is something for ShowUnfinished(); INT64_MAX: never, unless more is read.
  int64_t NextShowNs() const;
  void ShowUnfinished(int64_t now_ns);
  // Nobody has the writing ends any more.
  bool Finished() const;
  // Gives up on pipes that somebody still holds open; flushes partial lines.
  void Close();

  const std::deque<std::string>& last_lines() const { return last_lines_; }

  // It has written to stderr.
  bool complained() const { return complained_; }

 private:
  struct Stream {
    UniqueFd pipe;
    UniqueFd child_end;
    UniqueFd log;
    OutputSink* sink = nullptr;
    LineSplitter splitter;
    ShownLine shown;
    int64_t show_ns = INT64_MAX;  // when what has not ended is shown
  };

  RankOutput() = default;

  void ReadStream(Stream& stream);
  void ScheduleShow(Stream& stream, bool more);
  void FinishStream(Stream& stream);
  void Relay(Stream& stream, std::string_view line);
  void WriteLog(Stream& stream, std::string_view bytes);

  std::string prefix_;
  std::array<Stream, 2> streams_;
  std::deque<std::string> last_lines_;
  bool complained_ = false;
};

}  // namespace weft
