#include "cli/weftrun/rank_output.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr size_t kReadBytes = 16384;  // on a stack that may have 64 KiB (ulimit -s 64)
constexpr size_t kLastLineBytesMax = 400;

// What a reader sees of a line when all of it has come: of a progress bar the last state.
std::string_view LastState(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r'))
    line.remove_suffix(1);
  const size_t last = line.rfind('\r');
  return last == std::string_view::npos ? line : line.substr(last + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankOutput>> RankOutput::Open(int rank, const std::string& log_path,
                                                             const Sinks& sinks) {
  auto output = std::unique_ptr<RankOutput>(new RankOutput);
  output->prefix_ = StrCat("[", rank, "] ");
  for (int i = 0; i < 2; ++i) {
    Stream& stream = output->streams_[i];
    PipeEnds ends = MakePipe();
    if (!ends.valid()) {
      return SystemError(errno, StrCat("making a pipe for the output of rank ", rank));
    }
    stream.pipe = std::move(ends.read);
    stream.child_end = std::move(ends.write);
    fcntl(stream.pipe.get(), F_SETFL, O_NONBLOCK);  // the reading end only: the child's must block
    stream.sink = i == 0 ? sinks.out : sinks.err;
    if (log_path.empty()) continue;
    const std::string path = StrCat(log_path, i == 0 ? ".out" : ".err");
    stream.log = OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!stream.log.valid()) return SystemError(errno, StrCat("opening the log file ", path));
  }
  return output;
}

void RankOutput::CloseChildEnds() {
  for (Stream& stream : streams_)
    stream.child_end.Reset();
}

void RankOutput::AddPollItems(std::vector<pollfd>* items) const {
  for (const Stream& stream : streams_) {
    if (stream.pipe.valid() && !stream.sink->full()) {
      items->push_back({stream.pipe.get(), POLLIN, 0});
    }
  }
}

void RankOutput::Read() {
  for (Stream& stream : streams_) {
    if (stream.pipe.valid() && !stream.sink->full()) ReadStream(stream);
  }
}

void RankOutput::ReadStream(Stream& stream) {
  char buffer[kReadBytes];
  const ssize_t n = read(stream.pipe.get(), buffer, sizeof buffer);
  if (n > 0) {
    const std::string_view bytes(buffer, static_cast<size_t>(n));
    WriteLog(stream, bytes);
    stream.splitter.Feed(bytes, [&](std::string_view line) { Relay(stream, line); });
    ScheduleShow(stream, /*more=*/bytes.size() == sizeof buffer);
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    FinishStream(stream);
  }
}

// `more`: there may be more to read at once.
void RankOutput::ScheduleShow(Stream& stream, bool more) {
  const OutputSink& sink = *stream.sink;
  const bool free = !sink.has_open() || sink.HasOpen(&stream.shown);
  if (stream.splitter.unfinished().empty()) {
    stream.show_ns = INT64_MAX;
  } else if (sink.terminal() && free && !more) {
    stream.show_ns = MonotonicNs();
  } else if (stream.show_ns == INT64_MAX) {
    stream.show_ns = MonotonicNs() + kShowNs;
  }
}

int64_t RankOutput::NextShowNs() const {
  int64_t next_ns = INT64_MAX;
  for (const Stream& stream : streams_) {
    if (!stream.sink->full()) next_ns = std::min(next_ns, stream.show_ns);
  }
  return next_ns;
}

void RankOutput::ShowUnfinished(int64_t now_ns) {
  for (Stream& stream : streams_) {
    if (now_ns < stream.show_ns || stream.sink->full()) continue;
    stream.show_ns = INT64_MAX;
    LineSplitter& splitter = stream.splitter;
    splitter.DropUnfinished(stream.shown.Show(stream.sink, prefix_, splitter.unfinished()));
  }
}

void RankOutput::FinishStream(Stream& stream) {
  stream.splitter.Finish([&](std::string_view line) { Relay(stream, line); });
  stream.pipe.Reset();
  stream.show_ns = INT64_MAX;
}

void RankOutput::Relay(Stream& stream, std::string_view line) {
  stream.shown.End(stream.sink, prefix_, line);
  stream.show_ns = INT64_MAX;  // what follows is another line
  complained_ = complained_ || &stream == &streams_[1];
  if (last_lines_.size() == kLastLinesMax) last_lines_.pop_front();
  last_lines_.emplace_back(LastState(line).substr(0, kLastLineBytesMax));
}

void RankOutput::WriteLog(Stream& stream, std::string_view bytes) {
  while (stream.log.valid() && !bytes.empty()) {
    const ssize_t n = write(stream.log.get(), bytes.data(), bytes.size());
    if (n >= 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      LogWarn("rank ", prefix_, "writing its log file failed and stops: ",
              FromAbsl(SystemError(errno, "write").message()));
      stream.log.Reset();
    }
  }
}

bool RankOutput::Finished() const {
  return !streams_[0].pipe.valid() && !streams_[1].pipe.valid();
}

void RankOutput::Close() {
  for (Stream& stream : streams_) {
    if (stream.pipe.valid()) FinishStream(stream);
  }
}

}  // namespace weft
