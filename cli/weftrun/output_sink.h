// One of weftrun's own output streams: takes lines, writes them without ever blocking the loop.
//
//   OutputSink out(STDOUT_FILENO);
//   out.Append("[3] ", line);
//   out.AppendOpen(writer, "[3] Continue? ");         // its line is open: no other line is in it
//   if (out.pending()) ...poll out.fd() for POLLOUT, then out.Flush();
//   if (out.full()) ...do not read more from the ranks
//
// The descriptor stays blocking, because a terminal's is shared with the shell: a write happens only
// after poll() said that it will not block, and is at most PIPE_BUF long, for which a pipe that polls
// writable has room.
// Thread-safety: one thread. Borrows the descriptor.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace weft {

class OutputSink {
 public:
  static constexpr size_t kPendingBytesMax = 1 << 20;

  explicit OutputSink(int fd);

  // A line, with its '\n'. An open one is ended before it.
  void Append(std::string_view prefix, std::string_view line);

  // Text of a line that goes on; that of another writer is ended before it. `writer` is a name, never followed.
  void AppendOpen(const void* writer, std::string_view text);
  // The rest of it, with its '\n'. Only while HasOpen(writer).
  void EndOpen(std::string_view rest);

  // The last line is this writer's and goes on.
  bool HasOpen(const void* writer) const { return open_ == writer && writer != nullptr; }

  // Any writer's.
  bool has_open() const { return open_ != nullptr; }

  // Writes what can be written now.
  void Flush();

  int fd() const { return fd_; }

  // Somebody looks at it, and carriage returns go back to the beginning of a line.
  bool terminal() const { return terminal_; }

  bool pending() const { return written_ < buffer_.size(); }

  bool full() const { return buffer_.size() - written_ >= kPendingBytesMax; }

  // The errno of the write that failed, 0 if none did: EPIPE if the reader has gone, ENOSPC if the disk is full.
  // Everything from then on is dropped.
  int error() const { return error_; }

  bool broken() const { return error_ != 0; }

 private:
  const int fd_;
  const bool terminal_;
  const void* open_ = nullptr;  // whose line has no end yet
  std::string buffer_;
  size_t written_ = 0;  // of buffer_
  int error_ = 0;
};

}  // namespace weft
