#include "cli/weftrun/rank_output.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/new_fd.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kReadBytes = 65536;
constexpr size_t kLastLineBytesMax = 400;

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
  } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    FinishStream(stream);
  }
}

void RankOutput::FinishStream(Stream& stream) {
  stream.splitter.Finish([&](std::string_view line) { Relay(stream, line); });
  stream.pipe.Reset();
}

void RankOutput::Relay(Stream& stream, std::string_view line) {
  stream.sink->Append(prefix_, line);
  complained_ = complained_ || &stream == &streams_[1];
  if (last_lines_.size() == kLastLinesMax) last_lines_.pop_front();
  last_lines_.emplace_back(line.substr(0, std::min(line.size() - 1, kLastLineBytesMax)));
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
