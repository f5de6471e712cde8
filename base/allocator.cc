#include "base/allocator.h"

#include <cstdint>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "base/pages.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace weft {
namespace {

struct Chosen {
  Mutex mutex;
  bool fixed WEFT_GUARDED_BY(mutex) = false;
  bool own WEFT_GUARDED_BY(mutex) = false;  // the caller's
  weft_allocator_t allocator WEFT_GUARDED_BY(mutex) = {};
};

Chosen& Choice() {
  static Chosen& chosen = *new Chosen;
  return chosen;
}

// The allocator, fixed from here on; `own` is false for operator new.
weft_allocator_t Fix(bool* own) {
  Chosen& chosen = Choice();
  MutexLock lock(chosen.mutex);
  chosen.fixed = true;
  *own = chosen.own;
  return chosen.allocator;
}

}  // namespace

absl::Status SetAllocator(const weft_allocator_t* allocator) {
  Chosen& chosen = Choice();
  MutexLock lock(chosen.mutex);
  if (chosen.fixed) {
    return MakeError(WEFT_BAD_STATE,
                     "the allocator is in use; set it before the first group is made");
  }
  chosen.own = allocator != nullptr;
  chosen.allocator = chosen.own ? *allocator : weft_allocator_t{};
  return absl::OkStatus();
}

void FixAllocator() {
  bool own = false;
  (void)Fix(&own);
}

absl::StatusOr<PrivateMemory> PrivateMemory::Allocate(size_t bytes, size_t alignment,
                                                      std::string_view what) {
  if (bytes == 0) return PrivateMemory();
  WEFT_CHECK(alignment > 0 && (alignment & (alignment - 1)) == 0);
  bool own = false;
  const weft_allocator_t allocator = Fix(&own);
  void* const data = bytes > PTRDIFF_MAX ? nullptr
                     : own               ? allocator.allocate(bytes, alignment, allocator.user)
                           : ::operator new (bytes, std::align_val_t{alignment}, std::nothrow);
  if (data == nullptr) {
    return MakeError(WEFT_OUT_OF_MEMORY,
                     StrCat("allocating ", FormatBytes(bytes), " of private memory for ", what,
                            own ? ": the allocator of weft_set_allocator has none" : ""));
  }
  PrivateMemory memory(static_cast<std::byte*>(data), bytes, alignment);
  if (reinterpret_cast<uintptr_t>(data) % alignment == 0) return memory;
  return MakeError(WEFT_INVALID_USAGE,
                   fmt::format("allocating {} for {}: the allocator of weft_set_allocator gave "
                               "{}, which is not a multiple of {}",
                               FormatBytes(bytes), what, data, alignment));
}

PrivateMemory::PrivateMemory(PrivateMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      alignment_(other.alignment_) {}

PrivateMemory& PrivateMemory::operator=(PrivateMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(alignment_, other.alignment_);
  return *this;
}

PrivateMemory::~PrivateMemory() {
  if (data_ == nullptr) return;
  bool own = false;
  const weft_allocator_t allocator = Fix(&own);
  if (own) {
    allocator.release(data_, bytes_, allocator.user);
  } else {
    ::operator delete (data_, std::align_val_t{alignment_});
  }
}

}  // namespace weft
