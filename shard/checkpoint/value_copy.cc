#include "shard/checkpoint/value_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/interrupt.h"
#include "base/status.h"
#include "shard/checkpoint/convert.h"

namespace weft {
namespace {

// Of what is converted, so much is written at a time.
constexpr size_t kConvertedBytes = 1 << 20;

}  // namespace

ValueCopy::ValueCopy(const SavedCheckpoint& saved, size_t bytes, Write write, BytesDone done)
    : saved_(saved),
      write_(std::move(write)),
      done_(std::move(done)),
      room_(std::min(bytes, kPieceBytes)),
      piece_(std::make_unique<char[]>(room_)) {}

absl::Status ValueCopy::Add(size_t tensor, std::optional<ElementType> as) {
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
    as_.push_back(as.value_or(saved.dtype));
    converts_ = converts_ || as_.back() != saved.dtype;
    begin += count;
    used_ += count * element;
  }
  return absl::OkStatus();
}

absl::Status ValueCopy::Flush() {
  WEFT_RETURN_IF_ERROR(CheckInterrupt("copying the values of tensors"));
  WEFT_RETURN_IF_ERROR(saved_.Read(wanted_));
  size_t bytes = used_;
  WEFT_RETURN_IF_ERROR(converts_ ? WriteConverted(&bytes) : write_(piece_.get(), bytes));
  if (done_) done_(bytes);
  wanted_.clear();
  as_.clear();
  converts_ = false;
  used_ = 0;
  return absl::OkStatus();
}

absl::Status ValueCopy::WriteConverted(size_t* bytes) {
  if (converted_ == nullptr) converted_ = std::make_unique<char[]>(kConvertedBytes);
  size_t filled = 0;
  *bytes = 0;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const ElementType from = saved_.manifest().tensors[wanted_[i].tensor].dtype;
    const ElementType to = as_[i];
    const char* values = static_cast<const char*>(wanted_[i].to);
    for (size_t left = wanted_[i].count; left > 0;) {
      const size_t count = std::min(left, (kConvertedBytes - filled) / to.bytes());
      if (count == 0) {
        WEFT_RETURN_IF_ERROR(write_(converted_.get(), filled));
        filled = 0;
        continue;
      }
      if (from == to)
        std::memcpy(&converted_[filled], values, count * to.bytes());
      else
        Convert(from, values, to, &converted_[filled], count);
      values += count * from.bytes();
      filled += count * to.bytes();
      *bytes += count * to.bytes();
      left -= count;
    }
  }
  return write_(converted_.get(), filled);
}

}  // namespace weft
