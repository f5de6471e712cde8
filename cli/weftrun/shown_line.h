// The line that one stream of a rank is writing, as weftrun's reader sees it before it has ended.
//
//   ShownLine shown;
//   shown.Show(sink, "[3] ", "epoch 1:  40 %");    // no '\n': the sink's last line is open
//   shown.Show(sink, "[3] ", "epoch 1:  40 % done");    // goes on with it
//   shown.End(sink, "[3] ", "epoch 1:  40 % done\n");
//
// Two ranks are never in one line. If another line has ended this one meanwhile, the next bytes of it bring all of it again, so that
// each line is there in one piece once it has ended. On a terminal a carriage return begins the line anew, prefix included.
//
// Thread-safety: one thread. Its address is the sink's name for it: it must not move while it is shown.
#pragma once

#include <cstddef>
#include <string_view>

#include "cli/weftrun/output_sink.h"

namespace weft {

class ShownLine {
 public:
  ShownLine() = default;
  ShownLine(const ShownLine&) = delete;
  ShownLine& operator=(const ShownLine&) = delete;

  // `text`: all of the line so far, with no '\n'. Returns how many of its first bytes nobody will see again.
  size_t Show(OutputSink* sink, std::string_view prefix, std::string_view text);

  // `line`: all of it, with its '\n'.
  void End(OutputSink* sink, std::string_view prefix, std::string_view line);

 private:
  size_t bytes_ = 0;  // of the line that have been shown
};

}  // namespace weft
