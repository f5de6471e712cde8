// The beginning of a small file, as those of /proc and /sys are.
//
//   const std::string text = ReadFileStart("/proc/meminfo");
//
// Thread-safety: any thread.
#pragma once

#include <string>
#include <string_view>

namespace weft {

// Up to 16 KiB; "" if it cannot be read. Never waits, whatever is in the file's place.
std::string ReadFileStart(const std::string& path);

// Its first line, without blanks at either end.
std::string ReadFirstLine(const std::string& path);

// What stands behind "key :" in a text of such lines; "" if no line has it.
std::string FieldOf(const std::string& text, std::string_view key);

}  // namespace weft
