// Where an optimizer's state is: in memory (resident_state.h), or in a file of which some is in memory at a time
// (shard/offload/offloaded_state.h).
//
//   store.Expect({0, 1, 2});                                     // so much is going to be visited, in this order
//   for (const StateWindow& window : store.WindowsOf(extent)) {
//     WEFT_RETURN_IF_ERROR(store.Visit(window.number, /*changes=*/true));
//     const StateArrays arrays = store.At(extent, window.begin);  // of elements of this window, until the next Visit
//   }
//   WEFT_RETURN_IF_ERROR(store.Leave());
//
// The state lies in windows: what is in memory together. A window may have elements of several extents, and an extent may lie in several
// windows; MUON's matrices lie in one each. State begins as zeros. Params that are offloaded (Space::offloaded) lie there too, frozen ones in
// windows that no update visits; while nothing is visited, others may read them where the store keeps them (shard/offload/param_reads.h).
//
// Thread-safety: one thread at a time; what At() tells may be used by any while the window is visited.
#pragma once

#include <cstddef>
#include <vector>

#include "weft/shard_state.h"

#include "absl/status/status.h"
#include "shard/optimizer/optimizer_state.h"

namespace weft {

// Where the state of an element is; nullptr for what is not kept.
struct StateArrays {
  std::byte* value = nullptr;  // of the param itself, if it rests here
  float* main = nullptr;
  float* first_moment = nullptr;
  float* second_moment = nullptr;

  void* Of(weft_shard_state_kind_t kind) const {
    if (kind == WEFT_SHARD_STATE_VALUE) return value;
    if (kind == WEFT_SHARD_STATE_MAIN) return main;
    return kind == WEFT_SHARD_STATE_MOMENT1 ? first_moment : second_moment;
  }
};

// Elements of an extent that lie in one window.
struct StateWindow {
  int number = 0;
  size_t begin = 0;  // element in the space
  size_t count = 0;
};

class StateStore {
 public:
  virtual ~StateStore() = default;

  // Of memory.
  virtual size_t bytes() const = 0;
  // Whether At() tells the same addresses for good, visited or not.
  virtual bool resident() const = 0;
  // These cover what this rank updates of the extent, in order.
  virtual const std::vector<StateWindow>& WindowsOf(int extent) const = 0;

  // Which windows will be visited next, in order; what was said before is forgotten. Others may be visited all the same.
  virtual void Expect(std::vector<int> windows) = 0;
  // Ends the visit before. If it `changes` something, that is kept. After an error the state is of no use.
  virtual absl::Status Visit(int window, bool changes) = 0;
  virtual absl::Status Leave() = 0;
  // Goes on with what is read ahead and written behind. Cheap: for whoever computes for long on a window.
  virtual void Advance() = 0;
  // Of element `begin` of the space, and of those that follow it in the same param or in neighbours of its group, as far as the window goes.
  virtual StateArrays At(int extent, size_t begin) const = 0;

  // One kind of these elements of one param, while nothing is visited. Errors as Visit().
  virtual absl::Status Read(int extent, const UpdatedElements& elements,
                            weft_shard_state_kind_t kind, void* to) = 0;
  virtual absl::Status Write(int extent, const UpdatedElements& elements,
                             weft_shard_state_kind_t kind, const void* from) = 0;
};

}  // namespace weft
