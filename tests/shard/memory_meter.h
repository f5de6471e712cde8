// What a group of processes holds, as the kernel and malloc see it: no counter of weft's own is asked.
//
//   MemoryMeter meter(group_of_its_own);
//   WEFT_RETURN_IF_ERROR(meter.SetBaseline());
//   ... a call ...
//   WEFT_RETURN_IF_ERROR(meter.Sample());
//   meter.peak().shared_bytes ...
//
// Shared memory is the Pss of everything that is named memfd:weft, added over all ranks: a page that several
// have mapped counts once, whoever owns it. It must agree with the pages that the files have, file_bytes, but for
// what the kernel rounds Pss down by, 1024 bytes per mapping; operations under way may be touching pages while
// the ranks look, so a sample is repeated until it does. What is equal is told by file_bytes. Private memory is what malloc has given out, at its most since the sample before.
//
// Thread-safety: none. Sample and SetBaseline are collective over the group, which is used for nothing else.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "comm/group/process_group.h"

namespace weft {

// Over all ranks, beyond the baseline.
struct Held {
  int64_t shared_bytes = 0;
  int64_t file_bytes = 0;  // the same by another count
  int64_t private_bytes = 0;

  int64_t total() const { return shared_bytes + private_bytes; }

  // Pss is rounded.
  bool IsLike(const Held& other) const {
    return file_bytes == other.file_bytes && private_bytes == other.private_bytes;
  }

  bool IsNoMoreThan(const Held& other) const {
    return file_bytes <= other.file_bytes && private_bytes <= other.private_bytes;
  }
};

class MemoryMeter {
 public:
  explicit MemoryMeter(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}

  absl::Status SetBaseline();
  // Adds to the peak.
  absl::Status Sample();

  // The sample with the largest total.
  const Held& peak() const { return peak_; }

  // The last sample's; private_bytes is what was live when it was taken.
  const Held& now() const { return now_; }

  void ForgetPeak() { peak_ = Held(); }

  // `value` added over all ranks.
  absl::StatusOr<int64_t> Sum(int64_t value);

  // Samples until two in a row are alike: a thread that completes a work frees the work's callback a little later.
  absl::Status Settle();
  // Ok if shared and private memory are as they were in `held`, to the byte, within a deadline: for the same reason, and
  // because groups that were closed give memory back when all ranks have left.
  absl::Status ExpectHeld(const Held& held);
  // The same of memory that may have become less: on a busy machine what was freed late may still have been in `held`.
  absl::Status ExpectNoMoreThan(const Held& held);

  // Of this process's mappings of memfd:weft.
  static int64_t PssBytes();
  // In the files of that name that this process has made.
  static int64_t FileBytes();

 private:
  absl::Status Expect(const Held& held, bool (Held::*fits)(const Held&) const);
  // What is rounded away from the Pss at most.
  int64_t RoundingBytes() const;
  // Repeats until both counts agree.
  absl::Status SampleShared(Held& held);

  const std::shared_ptr<ProcessGroup> group_;
  Held baseline_;
  Held now_;
  Held peak_;
};

}  // namespace weft
