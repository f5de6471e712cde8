#include "cli/weftrun/shown_line.h"

#include <algorithm>
#include <string>

namespace weft {
namespace {

// `text` of a line whose last byte shown is `before` (0: none): on a terminal with the prefix behind each carriage return, which has
// gone back to the beginning of the line.
std::string WithPrefixes(std::string_view prefix, char before, std::string_view text,
                         bool terminal) {
  std::string shown;
  if (before == 0) shown += prefix;
  for (const char byte : text) {
    if (terminal && before == '\r' && byte != '\r' && byte != '\n') shown += prefix;
    shown += byte;
    before = byte;
  }
  return shown;
}

}  // namespace

size_t ShownLine::Show(OutputSink* sink, std::string_view prefix, std::string_view text) {
  if (text.size() <= bytes_) return 0;
  const size_t from = sink->HasOpen(this) ? bytes_ : 0;
  const char before = from > 0 ? text[from - 1] : '\0';
  sink->AppendOpen(this, WithPrefixes(prefix, before, text.substr(from), sink->terminal()));
  bytes_ = text.size();
  if (!sink->terminal() || text.size() < 2) return 0;
  // What a carriage return has gone back over; one at the end has not been written over yet.
  const size_t last = text.rfind('\r', text.size() - 2);
  if (last == std::string_view::npos) return 0;
  bytes_ -= last;
  return last;
}

void ShownLine::End(OutputSink* sink, std::string_view prefix, std::string_view line) {
  const bool shown = bytes_ > 0 && line.size() == bytes_ + 1;  // but for its end
  if (sink->HasOpen(this)) {
    // A line that is cut because it is too long may end before its last character.
    const size_t from = std::min(bytes_, line.size() - 1);
    sink->EndOpen(WithPrefixes(prefix, line[from - 1], line.substr(from), sink->terminal()));
  } else if (!shown) {
    sink->Append("", WithPrefixes(prefix, '\0', line, sink->terminal()));
  }
  bytes_ = 0;
}

}  // namespace weft
