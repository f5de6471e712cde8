// Writes a group's flight recorder to a file, when the first of its operations fails.
//
//   DumpOnce dump;                                 // with the group
//   if (dump.Take()) dump.Write(contents);         // when an operation has failed
//
// Only if the option dump_dir (WEFT_DUMP_DIR) is set; otherwise Take() is false. What goes wrong while writing is one warning in
// the log and never replaces the cause.
// Thread-safety: any thread; Take() is true for one of them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "comm/recorder/dump.h"

namespace weft {

class DumpOnce {
 public:
  DumpOnce();

  // It is to be written, and this caller is to do it.
  bool Take();

  // The clocks are set here, the rest is the caller's.
  void Write(RecorderDump dump) const;

 private:
  uint64_t TicksPerSecond(uint64_t ticks_now) const;

  // One reading of both clocks: the recorder's is measured over the life of the group.
  const uint64_t made_ticks_;
  const int64_t made_ns_;
  std::atomic<bool> written_{false};
};

}  // namespace weft
