// Cuts a stream of bytes into lines, however the bytes arrive.
//
//   LineSplitter splitter;
//   splitter.Feed(bytes, [&](std::string_view line) { ... });   // each line ends with '\n'
//   splitter.unfinished()                                       // the beginning of the next one
//   splitter.Finish([&](std::string_view line) { ... });        // what is left without one
//
// A line longer than kLineBytesMax comes in pieces, each ended by a '\n' of our own and cut between
// UTF-8 characters. Any byte may occur, NUL included; only '\n' ends a line.
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace weft {

class LineSplitter {
 public:
  static constexpr size_t kLineBytesMax = 16384;
  using LineFunction = std::function<void(std::string_view line)>;

  void Feed(std::string_view bytes, const LineFunction& each);
  void Finish(const LineFunction& each);

  // What has come of a line whose '\n' has not.
  std::string_view unfinished() const { return partial_; }

  // Forgets the first bytes of it: nobody will see them again.
  void DropUnfinished(size_t bytes) { partial_.erase(0, bytes); }

 private:
  void Cut(const LineFunction& each);

  std::string partial_;  // no '\n' in it, never longer than kLineBytesMax after a call
};

}  // namespace weft
