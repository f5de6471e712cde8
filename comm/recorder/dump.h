// Flight-recorder dumps: what all ranks of a group had done when an operation failed, in a file.
//
//   WEFT_RETURN_IF_ERROR(WriteDumpFile(directory, dump).status());      // the failing rank
//   WEFT_ASSIGN_OR_RETURN(RecorderDump dump, ReadDumpFile("x.wfr"));    // weftctl dump
//
// The format is docs/formats/recorder.md. A reader believes no length that it has not compared with
// what is there, and nothing at all unless the checksum over the whole file is right.
// Thread-safety: pure functions and values. WriteDumpFile from any thread and process: each file has a
// name of its own, appears whole, and replaces nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/recorder/lifecycle.h"
#include "comm/recorder/message_ring.h"
#include "comm/recorder/ring.h"

namespace weft {

constexpr uint32_t kDumpVersion = 2;  // what is written
constexpr uint32_t kDumpVersionMin =
    1;  // of what is read: one without messages, events and a group id
constexpr uint32_t kDumpRanksMax = 65536;
constexpr size_t kDumpTextBytesMax = 4096;  // longer texts are cut when written
constexpr size_t kDumpFileBytesMax = size_t{64} << 20;

// One rank, as the writer found it in memory that they share.
struct DumpedRank {
  // A state: the rank is on another node, and what it has recorded is there, in the dumps of that node's ranks.
  static constexpr uint32_t kElsewhere = 4;

  int32_t pid = 0;
  uint64_t start_time = 0;  // of the process, as in ProcessIdentity
  uint32_t state = 0;       // 0 absent, 1 joined, 2 leaving, 3 left, 4: see kElsewhere
  // Entries of its rings, as many as each has, or none.
  std::vector<RecorderWords> entries;   // of calls
  std::vector<RecorderWords> messages;  // sends and receives
  std::vector<RecorderWords> events;    // of its life in the group

  // What of them can be read, oldest first.
  std::vector<RecordedCall> Calls() const;
  std::vector<RecordedMessage> Messages() const;
  std::vector<LifecycleEvent> Events() const;
};

struct RecorderDump {
  std::string group;
  uint64_t group_id = 0;  // which kSplit names; 0: not known
  std::string host;
  std::string reason;  // the failure's sentence
  int32_t result = 0;  // its weft_result_t
  uint32_t writer_rank = 0;
  int32_t writer_pid = 0;
  uint32_t epoch = 0;
  uint64_t ticks_per_second = 0;  // of the recorder's clock; 0: not known
  uint64_t ticks_now = 0;         // when the dump was made
  int64_t wall_time_ns = 0;       // of the same moment, since 1970 UTC
  std::vector<DumpedRank> ranks;
};

// "absent", "joined", "leaving", "left", "on another node", "unknown".
const char* DumpedRankStateName(uint32_t state);

// The bytes of a file; INTERNAL_ERROR if they cannot be hashed.
absl::StatusOr<std::string> EncodeDump(const RecorderDump& dump);
// CORRUPT says whether the bytes are no dump, of another version, cut short or damaged.
absl::StatusOr<RecorderDump> DecodeDump(std::string_view bytes);

// Writes <directory>/weft-<group>-rank<rank>-<pid>.wfr, readable by its owner only, and returns its
// path. A name that is taken gets "-2", "-3"... before the suffix.
absl::StatusOr<std::string> WriteDumpFile(const std::string& directory, const RecorderDump& dump);
absl::StatusOr<RecorderDump> ReadDumpFile(const std::string& path);

}  // namespace weft
