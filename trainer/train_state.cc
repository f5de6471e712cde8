#include "trainer/train_state.h"

#include <algorithm>

#include "weft/collective.h"

#include "trainer/failure.h"
#include "trainer/parallel.h"

namespace weft::trainer {
namespace {

// What is sent ahead of the values.
struct StateHead {
  StepRecord last;
  SamplePlace next;
  weft_shard_state_scalars_t scalars;
  uint64_t value_bytes;
};

void SendBytes(weft_group_t group, size_t root, void* bytes, size_t count) {
  Check(weft_broadcast(bytes, bytes, count, WEFT_UINT8, int(root), group, nullptr, nullptr),
        "sending weights and optimizer state");
}

}  // namespace

void AgreeOnState(weft_group_t group, TrainState& state) {
  int rank = 0, size = 1;
  Check(weft_group_rank(group, &rank), "asking for the rank");
  Check(weft_group_size(group, &size), "asking for the group's size");
  std::vector<int64_t> steps(size_t(size), 0);
  Check(weft_all_gather(&state.steps_done, steps.data(), 1, WEFT_INT64, group, nullptr, nullptr),
        "comparing how far the ranks are");
  const auto furthest = std::max_element(steps.begin(), steps.end());
  if (*furthest < 0) {
    const bool broken = std::count(steps.begin(), steps.end(), TrainState::kBroken) > 0;
    if (broken) throw RunFailure("no rank that is left has whole weights; start again");
    return;
  }
  const size_t root = size_t(furthest - steps.begin());
  const bool sends = root == size_t(rank);
  StateHead head = {state.last, state.next, state.scalars, state.values.size()};
  SendBytes(group, root, &head, sizeof head);
  TrainState received;
  received.steps_done = *furthest;
  received.last = head.last;
  // These are the sender's.
  const bool made = state.steps_done == *furthest;
  received.last.phases = made ? state.last.phases : PhaseSeconds();
  received.last.rank_tokens = made ? state.last.rank_tokens : 0;
  received.next = head.next;
  received.scalars = head.scalars;
  if (!sends) received.values.resize(head.value_bytes);
  std::vector<std::byte>& values = sends ? state.values : received.values;
  SendBytes(group, root, values.data(), values.size());
  if (!sends) state = std::move(received);
}

}  // namespace weft::trainer
