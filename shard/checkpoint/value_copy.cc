#include "shard/checkpoint/value_copy.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace weft {

ValueCopy::ValueCopy(const SavedCheckpoint& saved, size_t bytes, Write write, BytesDone done)
    : saved_(saved),
      write_(std::move(write)),
      done_(std::move(done)),
      room_(std::min(bytes, kPieceBytes)),
      piece_(std::make_unique<char[]>(room_)) {}

absl::Status ValueCopy::Add(size_t tensor) {
  const SavedTensor& saved = saved_.manifest().tensors[tensor];
  const size_t element = DtypeSize(saved.dtype);
  for (size_t begin = 0; begin < saved.count();) {
    const size_t count = std::min(saved.count() - begin, (room_ - used_) / element);
    if (count == 0) {
      WEFT_RETURN_IF_ERROR(Flush());
      continue;
    }
    wanted_.push_back({.tensor = tensor,
                       .kind = WEFT_SHARD_STATE_VALUE,
                       .begin = begin,
                       .count = count,
                       .to = &piece_[used_]});
    begin += count;
    used_ += count * element;
  }
  return absl::OkStatus();
}

absl::Status ValueCopy::Flush() {
  WEFT_RETURN_IF_ERROR(saved_.Read(wanted_));
  WEFT_RETURN_IF_ERROR(write_(piece_.get(), used_));
  if (done_) done_(used_);
  wanted_.clear();
  used_ = 0;
  return absl::OkStatus();
}

}  // namespace weft
