#include "weft/completion_queue.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/per_thread.h"
#include "base/status.h"
#include "bindings/c/guard.h"
#include "bindings/c/handles.h"
#include "bindings/c/struct_size.h"
#include "comm/group/completion_queue.h"

namespace weft {
namespace {

using Outcome = CompletionQueue::Outcome;
using QueueRef = std::shared_ptr<CompletionQueue>;

// What a thread has taken last. Its completions point to the sentences.
struct TakenCompletions {
  std::vector<Completion> completions;
  std::vector<std::string> sentences;
};

absl::Status CheckQueue(weft_completion_queue_t queue, std::string_view call) {
  if (queue == nullptr || queue->magic != weft_completion_queue::kMagic) {
    return InvalidArgument(call, "queue is NULL or not a completion queue");
  }
  return queue->origin.here() ? absl::OkStatus() : ForkedError(call, "completion queue");
}

// A reference of its own: the handle may be freed while a thread waits.
absl::StatusOr<QueueRef> QueueOf(weft_completion_queue_t queue, std::string_view call) {
  WEFT_RETURN_IF_ERROR(CheckQueue(queue, call));
  return queue->queue;
}

// Lack of memory for the sentences must not lose the completions: then they have the names of their results.
void WriteCompletions(TakenCompletions& taken, weft_completion_t* to) {
  const auto failed = [](const Completion& completion) {
    return !completion.status.ok();
  };
  const auto failures = std::count_if(taken.completions.begin(), taken.completions.end(), failed);
  taken.sentences.clear();
  bool out_of_memory = false;
  try {
    taken.sentences.reserve(static_cast<size_t>(failures));
    for (const Completion& completion : taken.completions)
      if (failed(completion)) taken.sentences.emplace_back(completion.status.message());
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
  }
  size_t failure = 0;
  for (const Completion& completion : taken.completions) {
    const weft_result_t result = ResultOf(completion.status);
    const char* message = "";
    if (failed(completion)) {
      message = out_of_memory ? weft_result_name(result) : taken.sentences[failure++].c_str();
    }
    *to++ = {.token = completion.token, .result = result, .reserved = 0, .message = message};
  }
  taken.completions.clear();
}

absl::Status Destroyed(std::string_view call) {
  return CallError(WEFT_BAD_STATE, call, "the queue was destroyed by another thread meanwhile");
}

// `take` is CompletionQueue::Wait or Poll. That nothing has ended is no failure: weft_last_error() stays.
template <typename Take>
weft_result_t TakeCompletions(weft_completion_queue_t queue, const char* call,
                              weft_completion_t* completions, size_t capacity, size_t* count,
                              Take&& take) {
  auto outcome = Outcome::kTaken;
  const weft_result_t result = Guarded([&]() -> absl::Status {
    if (count == nullptr) return InvalidArgument(call, "count is NULL");
    WEFT_ASSIGN_OR_RETURN(const QueueRef of, QueueOf(queue, call));
    if (completions == nullptr) return InvalidArgument(call, "completions is NULL");
    if (capacity == 0) return InvalidArgument(call, "capacity is 0");
    *count = 0;
    TakenCompletions& taken = PerThread<TakenCompletions>::Get();
    outcome = take(*of, &taken.completions);
    if (outcome == Outcome::kInterrupted) {
      (void)TakeInterrupt();
      return InterruptedError(call);
    }
    if (outcome == Outcome::kClosed) return Destroyed(call);
    if (outcome == Outcome::kForked) return ForkedError(call, "completion queue");
    *count = taken.completions.size();
    WriteCompletions(taken, completions);
    return absl::OkStatus();
  });
  return outcome == Outcome::kNothing ? WEFT_IN_PROGRESS : result;
}

}  // namespace
}  // namespace weft

using weft::Guarded;

weft_result_t weft_completion_queue_create(const weft_completion_queue_config_t* config,
                                           weft_completion_queue_t* queue) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_completion_queue_create";
    if (queue == nullptr) return weft::InvalidArgument(kCall, "queue is NULL");
    weft_completion_queue_config_t full{};
    WEFT_RETURN_IF_ERROR(weft::ReadConfig(kCall, config, &full));
    if (full.idle_timeout_ns < 0) {
      return weft::InvalidArgument(kCall, "idle_timeout_ns is negative");
    }
    auto made = std::make_unique<weft_completion_queue>();
    made->queue = std::make_shared<weft::CompletionQueue>(full.idle_timeout_ns);
    *queue = made.release();
    return absl::OkStatus();
  });
}

weft_result_t weft_completion_queue_add(weft_completion_queue_t queue, weft_work_t work,
                                        uint64_t token) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_completion_queue_add";
    WEFT_ASSIGN_OR_RETURN(const weft::QueueRef to, weft::QueueOf(queue, kCall));
    WEFT_ASSIGN_OR_RETURN(const weft::WorkRef of, weft::WorkOf(work, kCall));
    if (to->Add(of, token)) return absl::OkStatus();
    return weft::CallError(WEFT_INVALID_USAGE, kCall,
                           "the work has a callback, or a completion queue, already");
  });
}

weft_result_t weft_completion_queue_wait(weft_completion_queue_t queue, int64_t timeout_ns,
                                         weft_completion_t* completions, size_t capacity,
                                         size_t* count) {
  constexpr const char* kCall = "weft_completion_queue_wait";
  if (timeout_ns < 0) {
    return weft::SetLastError(weft::InvalidArgument(kCall, "timeout_ns is negative"));
  }
  return weft::TakeCompletions(
      queue, kCall, completions, capacity, count,
      [&](weft::CompletionQueue& of, std::vector<weft::Completion>* taken) {
        return of.Wait(timeout_ns, capacity, taken);
      });
}

weft_result_t weft_completion_queue_poll(weft_completion_queue_t queue,
                                         weft_completion_t* completions, size_t capacity,
                                         size_t* count) {
  const weft_result_t result =
      weft::TakeCompletions(queue, "weft_completion_queue_poll", completions, capacity, count,
                            [&](weft::CompletionQueue& of, std::vector<weft::Completion>* taken) {
                              return of.Poll(capacity, taken);
                            });
  return result == WEFT_IN_PROGRESS ? WEFT_SUCCESS : result;
}

weft_result_t weft_completion_queue_wake(weft_completion_queue_t queue) {
  return Guarded([&]() -> absl::Status {
    WEFT_ASSIGN_OR_RETURN(const weft::QueueRef of,
                          weft::QueueOf(queue, "weft_completion_queue_wake"));
    of->Wake();
    return absl::OkStatus();
  });
}

weft_result_t weft_completion_queue_pending(weft_completion_queue_t queue, size_t* pending) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_completion_queue_pending";
    WEFT_ASSIGN_OR_RETURN(const weft::QueueRef of, weft::QueueOf(queue, kCall));
    if (pending == nullptr) return weft::InvalidArgument(kCall, "pending is NULL");
    *pending = of->pending();
    return absl::OkStatus();
  });
}

weft_result_t weft_completion_queue_fd(weft_completion_queue_t queue, int* fd) {
  return Guarded([&]() -> absl::Status {
    constexpr const char* kCall = "weft_completion_queue_fd";
    WEFT_ASSIGN_OR_RETURN(const weft::QueueRef of, weft::QueueOf(queue, kCall));
    if (fd == nullptr) return weft::InvalidArgument(kCall, "fd is NULL");
    const absl::StatusOr<int> made = of->Fd();
    if (!made.ok()) return weft::Annotate(made.status(), "weft_completion_queue_fd: ");
    *fd = *made;
    return absl::OkStatus();
  });
}

weft_result_t weft_completion_queue_destroy(weft_completion_queue_t queue) {
  return Guarded([&]() -> absl::Status {
    if (queue == nullptr) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(weft::CheckQueue(queue, "weft_completion_queue_destroy"));
    const weft::QueueRef closed = queue->queue;
    queue->magic = 0;
    delete queue;
    closed->Close();
    return absl::OkStatus();
  });
}
