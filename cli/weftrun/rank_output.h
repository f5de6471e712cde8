// What one rank prints: two pipes, read without blocking, relayed line by line to weftrun's own
// streams, copied to files, and the last lines kept for the report of a failure.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<RankOutput> output, RankOutput::Open(rank, log_path, sinks));
//   ...the child dups output->child_end(stream)...
//   output->CloseChildEnds();
//   output->AddPollItems(&items);  poll();  output->Read();
//
// Thread-safety: one thread. Owns the pipes and files, borrows the sinks.
#pragma once

#include <array>
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

namespace weft {

struct Sinks {
  OutputSink* out = nullptr;
  OutputSink* err = nullptr;
};

class RankOutput {
 public:
  static constexpr size_t kLastLinesMax = 10;

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
  };

  RankOutput() = default;

  void ReadStream(Stream& stream);
  void FinishStream(Stream& stream);
  void Relay(Stream& stream, std::string_view line);
  void WriteLog(Stream& stream, std::string_view bytes);

  std::string prefix_;
  std::array<Stream, 2> streams_;
  std::deque<std::string> last_lines_;
  bool complained_ = false;
};

}  // namespace weft
