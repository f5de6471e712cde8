#include "cli/weftrun/output_sink.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <poll.h>
#include <unistd.h>

namespace weft {

OutputSink::OutputSink(int fd) : fd_(fd), terminal_(isatty(fd) == 1) {}

void OutputSink::Append(std::string_view prefix, std::string_view line) {
  if (broken()) return;
  if (open_ != nullptr) buffer_ += '\n';
  open_ = nullptr;
  buffer_ += prefix;
  buffer_ += line;
}

void OutputSink::AppendOpen(const void* writer, std::string_view text) {
  if (broken()) return;
  if (open_ != nullptr && open_ != writer) buffer_ += '\n';
  open_ = writer;
  buffer_ += text;
}

void OutputSink::EndOpen(std::string_view rest) {
  if (broken()) return;
  open_ = nullptr;
  buffer_ += rest;
}

void OutputSink::Flush() {
  while (pending()) {
    pollfd watch{fd_, POLLOUT, 0};
    if (poll(&watch, 1, 0) <= 0) break;
    const size_t bytes = std::min<size_t>(buffer_.size() - written_, PIPE_BUF);
    const ssize_t n = write(fd_, buffer_.data() + written_, bytes);
    if (n > 0) {
      written_ += static_cast<size_t>(n);
    } else if (n < 0 && errno != EINTR && errno != EAGAIN) {
      error_ = errno;
      written_ = buffer_.size();
    } else {
      break;
    }
  }
  // Moving the rest down each time would cost a copy per write.
  if (written_ == buffer_.size() || written_ >= kPendingBytesMax / 2) {
    buffer_.erase(0, written_);
    written_ = 0;
  }
}

}  // namespace weft
