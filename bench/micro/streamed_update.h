// The optimizer of a rank that is alone, whose state is in a block store: what an update of so many params costs.
//
//   StreamedUpdate update({.dtype = WEFT_FLOAT32, .params = 64'000'000, .buffer_bytes = 64 << 20}, make_store);
//   update.Run();                                  // one update of all params
//   update.ForEachWindow(true, compute);           // or each window visited, and something else done with it
//
// Whatever fails ends the program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "weft/types.h"

#include "shard/layout/layout.h"
#include "shard/layout/registry.h"
#include "shard/layout/storage.h"
#include "shard/offload/block_store.h"
#include "shard/optimizer/shard_optimizer.h"

namespace weft {

struct UpdateShape {
  weft_dtype_t dtype = WEFT_FLOAT32;  // of params: those of 16 bits have main copies
  size_t params = 0;
  size_t buffer_bytes = 0;  // 0: the state is in memory
  int threads = 1;
};

class StreamedUpdate {
 public:
  using MakeStore = std::function<std::unique_ptr<BlockStore>(
      std::span<std::byte> memory, size_t slot_bytes, uint64_t file_bytes)>;

  StreamedUpdate(const UpdateShape& shape, const MakeStore& make_store);

  void Run();
  // Calls `body` with the bytes of an eighth of a window, eight times for each, in the place of an update; without `visits` the windows are not
  // touched.
  void ForEachWindow(bool visits, const std::function<void(size_t bytes)>& body);

  // What either moves: each byte of the state twice, without what windows are rounded up by, and without the last windows, which are
  // still being written when it returns.
  size_t moved_bytes() const { return moved_bytes_; }

 private:
  Registry registry_;
  Layout layout_;
  Storage storage_;
  std::unique_ptr<ShardOptimizer> optimizer_;
  size_t state_bytes_ = 0;
  size_t moved_bytes_ = 0;
};

}  // namespace weft
