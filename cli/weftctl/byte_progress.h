// How far a command is that reads or writes many bytes: a bar on stderr, if that is a terminal and it takes longer than a moment. Nothing is
// left of it.
//
//   ByteProgress progress("verifying step-00000120", total_bytes);
//   saved.VerifyAll([&](size_t bytes) { progress.Add(bytes); });
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft {

class ByteProgress {
 public:
  // `total_bytes` may be a little less than what comes.
  ByteProgress(std::string what, size_t total_bytes);
  ~ByteProgress();
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  void Add(size_t bytes);

 private:
  const std::string what_;
  const size_t total_bytes_;
  const bool terminal_;
  const int64_t begun_ns_;
  int64_t shown_ns_;
  size_t done_bytes_ = 0;
  bool drawn_ = false;
};

// "812 bytes", "1.5 MB": powers of 1000.
std::string ByteText(size_t bytes);

}  // namespace weft
