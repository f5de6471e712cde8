#include "shard/offload/uring_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/resource.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft {
namespace {

constexpr size_t kTakenAtOnce = 16;

// Asked before, because the kernel answers a write above the limit with a signal that ends the program, and the thread
// that it goes to is the caller's.
bool IsAboveLimit(const BlockRequest& request) {
  if (request.kind != BlockRequest::kWrite) return false;
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
         request.offset + request.bytes > limit.rlim_cur;
}

}  // namespace

absl::StatusOr<std::unique_ptr<UringQueue>> UringQueue::Open(const UringModule& module,
                                                             UniqueFd& file,
                                                             const Settings& settings) {
  WEFT_CHECK(settings.depth > 0);
  std::vector<iovec> registered;
  for (const std::span<std::byte> buffer : settings.buffers)
    registered.push_back({.iov_base = buffer.data(), .iov_len = buffer.size()});
  const UringOpening opening = {.file = file.get(),
                                .depth = static_cast<uint32_t>(settings.depth),
                                .buffers = registered.data(),
                                .buffer_count = static_cast<uint32_t>(registered.size())};
  UringReason why = {};
  UringRing* const ring = module.open(&opening, &why);
  if (ring == nullptr) {
    const absl::Status refused =
        RefusedCallError(why.error_number, why.text, "io_uring cannot be used");
    return MakeError(WEFT_UNSUPPORTED, FromAbsl(refused.message()));
  }
  std::vector<std::span<std::byte>> buffers;
  if (module.has_buffers(ring)) buffers.assign(settings.buffers.begin(), settings.buffers.end());
  std::unique_ptr<UringQueue> queue(
      new UringQueue(module, settings.depth, ring, std::move(buffers)));
  queue->file_ = std::move(file);
  return queue;
}

UringQueue::UringQueue(const UringModule& module, size_t depth, UringRing* ring,
                       std::vector<std::span<std::byte>> buffers)
    : module_(module),
      depth_(depth),
      ring_(ring),
      buffers_(std::move(buffers)),
      how_(buffers_.empty() ? "io_uring" : "io_uring, registered buffers") {}

UringQueue::~UringQueue() {
  module_.close(ring_);
}

int32_t UringQueue::BufferOf(const std::byte* memory, size_t bytes) const {
  const auto begin = reinterpret_cast<uintptr_t>(memory);
  for (size_t i = 0; i < buffers_.size(); ++i) {
    const auto buffer = reinterpret_cast<uintptr_t>(buffers_[i].data());
    const size_t size = buffers_[i].size();
    if (begin >= buffer && begin - buffer <= size && bytes <= size - (begin - buffer))
      return static_cast<int32_t>(i);
  }
  return -1;
}

bool UringQueue::Start(const BlockRequest& request) {
  if (open_ == depth_) return false;
  if (broken_ != 0 || IsAboveLimit(request)) {
    ++open_;
    refused_.push_back({.tag = request.tag, .moved = broken_ != 0 ? -broken_ : -EFBIG});
    return true;
  }
  const UringRequest handed = {.writes = request.kind == BlockRequest::kWrite,
                               .bytes = request.bytes,
                               .offset = request.offset,
                               .memory = request.memory,
                               .buffer = BufferOf(request.memory, request.bytes),
                               .tag = request.tag};
  if (!module_.start(ring_, &handed)) return false;
  ++open_;
  handed_.push_back(request.tag);
  return true;
}

void UringQueue::Submit() {
  while (!handed_.empty()) {
    const int32_t taken = module_.submit(ring_);
    if (taken > 0) {
      const size_t count = std::min(static_cast<size_t>(taken), handed_.size());
      handed_.erase(handed_.begin(), handed_.begin() + static_cast<ptrdiff_t>(count));
      continue;
    }
    // It is short of memory, or interrupted: the next call tries again.
    if (taken == 0 || taken == -EAGAIN || taken == -EBUSY || taken == -EINTR) return;
    broken_ = -taken;
    for (const uint64_t tag : handed_)
      refused_.push_back({.tag = tag, .moved = -broken_});
    handed_.clear();
  }
}

size_t UringQueue::TakeEnded(std::span<BlockEnd> ends) {
  size_t count = 0;
  while (count < ends.size() && !refused_.empty()) {
    ends[count++] = refused_.back();
    refused_.pop_back();
  }
  std::array<UringEnd, kTakenAtOnce> taken;
  const size_t room = std::min(ends.size() - count, taken.size());
  const size_t got = module_.take(ring_, taken.data(), static_cast<uint32_t>(room));
  for (size_t i = 0; i < got; ++i)
    ends[count++] = {.tag = taken[i].tag, .moved = taken[i].moved};
  open_ -= count;
  return count;
}

size_t UringQueue::Take(std::span<BlockEnd> ends, int64_t deadline_ns) {
  Submit();
  const size_t count = TakeEnded(ends);
  if (count > 0 || open_ == 0 || deadline_ns == 0) return count;
  const int64_t left_ns = deadline_ns - MonotonicNs();
  if (left_ns <= 0) return 0;
  // Not for long where something has not been submitted: nothing would end.
  constexpr int64_t kRetryNs = 1'000'000;
  (void)module_.wait(ring_, handed_.empty() ? left_ns : std::min(left_ns, kRetryNs));
  return TakeEnded(ends);
}

}  // namespace weft
