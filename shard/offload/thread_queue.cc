#include "shard/offload/thread_queue.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <sys/types.h>
#include <unistd.h>

#include "base/check.h"
#include "base/hidden_thread.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

BlockEnd CarryOut(int file, const BlockRequest& request) {
  const auto offset = static_cast<off_t>(request.offset);
  const ssize_t moved = request.kind == BlockRequest::kRead
                            ? pread(file, request.memory, request.bytes, offset)
                            : pwrite(file, request.memory, request.bytes, offset);
  return {.tag = request.tag, .moved = moved < 0 ? -int64_t{errno} : moved};
}

}  // namespace

absl::StatusOr<std::unique_ptr<ThreadQueue>> ThreadQueue::Open(UniqueFd& file,
                                                               const Settings& settings) {
  WEFT_CHECK(settings.threads > 0 && settings.depth > 0);
  std::unique_ptr<ThreadQueue> queue(new ThreadQueue(settings));
  WEFT_RETURN_IF_ERROR(queue->StartThreads(settings.threads));
  // Nobody looks at it before there is a request.
  queue->file_ = std::move(file);
  return queue;
}

ThreadQueue::ThreadQueue(const Settings& settings)
    : depth_(settings.depth), how_(StrCat(settings.threads, " threads")), requests_(depth_) {
  ends_.reserve(depth_);
}

absl::Status ThreadQueue::StartThreads(size_t count) {
  threads_.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    WEFT_ASSIGN_OR_RETURN(std::thread thread,
                          StartHiddenThread("weft-offload", [this] { Loop(); }));
    threads_.push_back(std::move(thread));
  }
  return absl::OkStatus();
}

ThreadQueue::~ThreadQueue() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
  }
  started_or_ending_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

bool ThreadQueue::Start(const BlockRequest& request) {
  if (open_ == depth_) return false;
  ++open_;
  {
    MutexLock lock(mutex_);
    requests_[(first_ + waiting_) % depth_] = request;
    ++waiting_;
  }
  started_or_ending_.notify_one();
  return true;
}

void ThreadQueue::Submit() {}

size_t ThreadQueue::Take(std::span<BlockEnd> ends, int64_t deadline_ns) {
  MutexLock lock(mutex_);
  if (ends_.empty() && deadline_ns > 0 && open_ > 0) {
    while (ends_.empty() && lock.WaitUntil(ended_, deadline_ns)) {
    }
  }
  const size_t count = std::min(ends.size(), ends_.size());
  for (size_t i = 0; i < count; ++i) {
    ends[i] = ends_.back();
    ends_.pop_back();
  }
  open_ -= count;
  return count;
}

void ThreadQueue::Loop() {
  BlockRequest request;
  while (Next(&request))
    End(CarryOut(file_.get(), request));
}

bool ThreadQueue::Next(BlockRequest* request) {
  MutexLock lock(mutex_);
  while (waiting_ == 0 && !ending_)
    lock.Wait(started_or_ending_);
  if (waiting_ == 0) return false;
  *request = requests_[first_];
  first_ = (first_ + 1) % depth_;
  --waiting_;
  return true;
}

void ThreadQueue::End(const BlockEnd& end) {
  {
    MutexLock lock(mutex_);
    ends_.push_back(end);
  }
  ended_.notify_one();
}

}  // namespace weft
