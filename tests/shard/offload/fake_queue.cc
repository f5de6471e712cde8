#include "tests/shard/offload/fake_queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/wait.h"

namespace weft::test {

FakeQueue::FakeQueue(std::vector<std::byte>& memory, size_t depth, uint64_t seed, Decide decide)
    : memory_(memory), depth_(depth), random_(seed), decide_(std::move(decide)) {}

bool FakeQueue::Start(const BlockRequest& request) {
  if (started_.size() + submitted_.size() == depth_) return false;
  started_.push_back(request);
  return true;
}

void FakeQueue::Submit() {
  for (const BlockRequest& request : started_)
    submitted_.push_back({request, decide_(request)});
  started_.clear();
}

BlockEnd FakeQueue::Carry(const UnderWay& one) {
  const BlockRequest& request = one.request;
  if (one.answer.moved < 0) return {.tag = request.tag, .moved = one.answer.moved};
  const auto moved = static_cast<size_t>(std::min<int64_t>(one.answer.moved, request.bytes));
  std::byte* const there = memory_.data() + request.offset;
  const bool reads = request.kind == BlockRequest::kRead;
  std::memcpy(reads ? request.memory : there, reads ? there : request.memory, moved);
  return {.tag = request.tag, .moved = static_cast<int64_t>(moved)};
}

size_t FakeQueue::Take(std::span<BlockEnd> ends, int64_t deadline_ns) {
  size_t count = 0;
  std::shuffle(submitted_.begin(), submitted_.end(), random_);
  for (size_t i = 0; i < submitted_.size() && count < ends.size();) {
    if (submitted_[i].answer.takes != 0) {
      if (submitted_[i].answer.takes > 0) --submitted_[i].answer.takes;
      ++i;
      continue;
    }
    ends[count++] = Carry(submitted_[i]);
    submitted_.erase(submitted_.begin() + static_cast<ptrdiff_t>(i));
  }
  // As long as a real one might, so that waiting costs time.
  if (count == 0 && deadline_ns > MonotonicNs())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return count;
}

}  // namespace weft::test
