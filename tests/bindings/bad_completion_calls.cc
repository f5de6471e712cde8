// Calls of completion queues with one wrong argument each.
#include "tests/bindings/bad_input.h"

namespace weft::test {
namespace {

using QueueCall = std::function<weft_result_t(Bench&, weft_completion_queue_t)>;

std::vector<std::pair<const char*, QueueCall>> CallsOnQueues() {
  using Q = weft_completion_queue_t;
  return {
      {"weft_completion_queue_add",
       [](Bench& b, Q queue) {
         return weft_completion_queue_add(queue, b.done, 1);
       }},
      {"weft_completion_queue_wait",
       [](Bench& b, Q queue) {
         return weft_completion_queue_wait(queue, 1, b.out.completions, 2, &b.out.count);
       }},
      {"weft_completion_queue_poll",
       [](Bench& b, Q queue) {
         return weft_completion_queue_poll(queue, b.out.completions, 2, &b.out.count);
       }},
      {"weft_completion_queue_wake",
       [](Bench&, Q queue) {
         return weft_completion_queue_wake(queue);
       }},
      {"weft_completion_queue_pending",
       [](Bench& b, Q queue) {
         return weft_completion_queue_pending(queue, &b.out.count);
       }},
      {"weft_completion_queue_fd",
       [](Bench& b, Q queue) {
         return weft_completion_queue_fd(queue, &b.out.number);
       }},
      {"weft_completion_queue_destroy",
       [](Bench&, Q queue) {
         return weft_completion_queue_destroy(queue);
       }},
  };
}

void AddQueueFaults(std::vector<BadCall>* calls) {
  for (const auto& [function, call] : CallsOnQueues()) {
    if (std::string(function) != "weft_completion_queue_destroy") {
      calls->push_back(
          {function, "queue_NULL", WEFT_INVALID_ARGUMENT, "queue is NULL", [call = call](Bench& b) {
             return call(b, nullptr);
           }});
    }
    calls->push_back({function, "garbage_queue", WEFT_INVALID_ARGUMENT, "not a completion queue",
                      [call = call](Bench& b) {
                        return call(b, b.Garbage<weft_completion_queue_t>());
                      }});
    calls->push_back({function, "a_group_for_a_queue", WEFT_INVALID_ARGUMENT,
                      "not a completion queue", [call = call](Bench& b) {
                        return call(b, reinterpret_cast<weft_completion_queue_t>(b.solo));
                      }});
  }
}

}  // namespace

std::vector<BadCall> BadCompletionCalls() {
  std::vector<BadCall> calls = {
      {"weft_completion_queue_create", "queue_NULL", WEFT_INVALID_ARGUMENT, "queue is NULL",
       [](Bench&) {
         return weft_completion_queue_create(nullptr, nullptr);
       }},
      {"weft_completion_queue_create", "idle_timeout_negative", WEFT_INVALID_ARGUMENT,
       "idle_timeout_ns is negative",
       [](Bench& b) {
         weft_completion_queue_config_t config = {};
         config.struct_size = sizeof(config);
         config.idle_timeout_ns = -1;
         return weft_completion_queue_create(&config, &b.out.queue);
       }},
      {"weft_completion_queue_add", "work_NULL", WEFT_INVALID_ARGUMENT, "work is NULL",
       [](Bench& b) {
         return weft_completion_queue_add(b.queue, nullptr, 1);
       }},
      {"weft_completion_queue_add", "garbage_work", WEFT_INVALID_ARGUMENT, "not a work",
       [](Bench& b) {
         return weft_completion_queue_add(b.queue, b.Garbage<weft_work_t>(), 1);
       }},
      {"weft_completion_queue_add", "a_work_that_was_added", WEFT_INVALID_USAGE,
       "completion queue, already",
       [](Bench& b) {
         EXPECT_EQ(weft_completion_queue_add(b.queue, b.done, 1), WEFT_SUCCESS);
         const weft_result_t result = weft_completion_queue_add(b.queue, b.done, 2);
         size_t pending = 0;
         EXPECT_EQ(weft_completion_queue_pending(b.queue, &pending), WEFT_SUCCESS);
         EXPECT_EQ(pending, 1u);
         return result;
       }},
      {"weft_completion_queue_add", "a_work_with_a_callback", WEFT_INVALID_USAGE,
       "has a callback, or",
       [](Bench& b) {
         const weft_work_callback_t callback = [](weft_result_t, void*) {
         };
         EXPECT_EQ(weft_work_on_complete(b.done, callback, nullptr), WEFT_SUCCESS);
         return weft_completion_queue_add(b.queue, b.done, 1);
       }},
      {"weft_completion_queue_wait", "timeout_negative", WEFT_INVALID_ARGUMENT,
       "timeout_ns is negative",
       [](Bench& b) {
         return weft_completion_queue_wait(b.queue, -1, b.out.completions, 2, &b.out.count);
       }},
      {"weft_completion_queue_wait", "completions_NULL", WEFT_INVALID_ARGUMENT,
       "completions is NULL",
       [](Bench& b) {
         return weft_completion_queue_wait(b.queue, 1, nullptr, 2, &b.out.count);
       }},
      {"weft_completion_queue_wait", "capacity_0", WEFT_INVALID_ARGUMENT, "capacity is 0",
       [](Bench& b) {
         return weft_completion_queue_wait(b.queue, 1, b.out.completions, 0, &b.out.count);
       }},
      {"weft_completion_queue_wait", "count_NULL", WEFT_INVALID_ARGUMENT, "count is NULL",
       [](Bench& b) {
         return weft_completion_queue_wait(b.queue, 1, b.out.completions, 2, nullptr);
       }},
      {"weft_completion_queue_poll", "completions_NULL", WEFT_INVALID_ARGUMENT,
       "completions is NULL",
       [](Bench& b) {
         return weft_completion_queue_poll(b.queue, nullptr, 2, &b.out.count);
       }},
      {"weft_completion_queue_poll", "capacity_0", WEFT_INVALID_ARGUMENT, "capacity is 0",
       [](Bench& b) {
         return weft_completion_queue_poll(b.queue, b.out.completions, 0, &b.out.count);
       }},
      {"weft_completion_queue_poll", "count_NULL", WEFT_INVALID_ARGUMENT, "count is NULL",
       [](Bench& b) {
         return weft_completion_queue_poll(b.queue, b.out.completions, 2, nullptr);
       }},
      {"weft_completion_queue_pending", "pending_NULL", WEFT_INVALID_ARGUMENT, "pending is NULL",
       [](Bench& b) {
         return weft_completion_queue_pending(b.queue, nullptr);
       }},
      {"weft_completion_queue_fd", "fd_NULL", WEFT_INVALID_ARGUMENT, "fd is NULL",
       [](Bench& b) {
         return weft_completion_queue_fd(b.queue, nullptr);
       }},
  };
  AddQueueFaults(&calls);
  AddConfigFaults<weft_completion_queue_config_t>(
      "weft_completion_queue_create", &calls,
      [](Bench& b, const weft_completion_queue_config_t* config) {
        return weft_completion_queue_create(config, &b.out.queue);
      });
  return calls;
}

}  // namespace weft::test
