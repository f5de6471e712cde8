// What the processes of an island ask the one that speaks for it to tell the other islands, where all of them share pages: how a group has
// ended that the speaker is not in.
//
//   IslandMail mail(block, process_count, process);
//   mail.Post(record);                               // stays until the next one
//   uint64_t version = 0;
//   std::optional<FailureRecord> read = mail.Read(other, &version);   // by the speaker
//
// A process writes in its own place alone. A reader that meets a write takes the place as it will be the next time.
//
// Thread-safety: one thread per process; processes at the same time. The block is borrowed; zeroed pages have no mail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "comm/agent/island_protocol.h"
#include "comm/agent/shared_text.h"

namespace weft {

class IslandMail {
 public:
  static size_t BytesFor(int process_count);

  // `block`: BytesFor() bytes, aligned to a cache line.
  IslandMail(std::byte* block, int process_count, int process)
      : block_(block), process_count_(process_count), process_(process) {}

  int process_count() const { return process_count_; }

  void Post(const FailureRecord& record);

  // What a process has posted last, if its version is not `*version`, which it is then.
  std::optional<FailureRecord> Read(int process, uint64_t* version) const;

 private:
  SharedText Place(int process) const;

  std::byte* const block_;
  const int process_count_;
  const int process_;
};

}  // namespace weft
