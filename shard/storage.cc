#include "shard/storage.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"

namespace weft {

absl::StatusOr<HeapBlock> HeapBlock::Allocate(size_t bytes) {
  HeapBlock block;
  if (bytes == 0) return block;
  WEFT_ASSIGN_OR_RETURN(void* const memory, ProcessHeap().Allocate(bytes));
  block.data_ = static_cast<std::byte*>(memory);
  block.bytes_ = bytes;
  return block;
}

HeapBlock::~HeapBlock() {
  if (data_ == nullptr) return;
  const absl::Status freed = ProcessHeap().Free(data_);
  WEFT_CHECK(freed.ok() || ResultOf(freed) == WEFT_FORKED);  // in a child it stays the parent's
}

HeapBlock::HeapBlock(HeapBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

HeapBlock& HeapBlock::operator=(HeapBlock&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

namespace {

absl::Status AddBlock(const char* role, const Space& space, bool wanted,
                      std::vector<HeapBlock>& blocks) {
  const size_t bytes = wanted ? space.count * DtypeSize(space.dtype) : 0;
  absl::StatusOr<HeapBlock> block = HeapBlock::Allocate(bytes);
  if (!block.ok()) {
    return Annotate(block.status(), StrCat("allocating ", bytes, " bytes for the ",
                                           DtypeName(space.dtype), " ", role, ": "));
  }
  blocks.push_back(*std::move(block));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Storage> Storage::Allocate(const Layout& layout, bool accumulate) {
  Storage storage;
  for (const Space& space : layout.spaces) {
    storage.element_bytes_.push_back(DtypeSize(space.dtype));
    WEFT_RETURN_IF_ERROR(AddBlock("parameters", space, true, storage.data_));
    WEFT_RETURN_IF_ERROR(AddBlock("gradients", space, !space.frozen, storage.grads_));
    WEFT_RETURN_IF_ERROR(AddBlock("accumulated gradients", space, !space.frozen && accumulate,
                                  storage.accumulated_));
  }
  return storage;
}

void Storage::ZeroGradients() const {
  for (const HeapBlock& block : grads_) {
    if (block.bytes() > 0) std::memset(block.data(), 0, block.bytes());
  }
}

size_t Storage::grad_bytes() const {
  size_t bytes = 0;
  for (const HeapBlock& block : grads_)
    bytes += block.bytes();
  for (const HeapBlock& block : accumulated_)
    bytes += block.bytes();
  return bytes;
}

}  // namespace weft
