#include "shard/offload/preflight.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "base/status.h"

namespace weft {
namespace {

struct alignas(BlockStore::kAlignment) OneBlock {
  std::array<std::byte, BlockStore::kAlignment> bytes = {};
};

// Both are the store's while it works.
struct Blocks {
  OneBlock written;
  OneBlock read;
};

absl::Status TryWith(BlockStore& store, Blocks& blocks) {
  for (size_t i = 0; i < blocks.written.bytes.size(); ++i)
    blocks.written.bytes[i] = static_cast<std::byte>((i * 2654435761U + 1) >> 8);
  constexpr size_t kBytes = BlockStore::kAlignment;
  WEFT_RETURN_IF_ERROR(store.Wait(store.StartWrite(0, blocks.written.bytes.data(), kBytes)));
  WEFT_RETURN_IF_ERROR(store.Wait(store.StartRead(0, blocks.read.bytes.data(), kBytes)));
  if (blocks.read.bytes != blocks.written.bytes) {
    return MakeError(WEFT_CORRUPT,
                     "a block that was written for offloaded state reads otherwise: look at the "
                     "disk and the kernel's log, or choose another directory");
  }
  blocks.written.bytes = {};
  return store.Wait(store.StartWrite(0, blocks.written.bytes.data(), kBytes));
}

}  // namespace

absl::Status TryStore(BlockStore& store) {
  auto blocks = std::make_unique<Blocks>();
  const absl::Status status = TryWith(store, *blocks);
  // What has not ended in time may still touch them.
  if (ResultOf(status) == WEFT_TIMEOUT) (void)blocks.release();
  return status;
}

}  // namespace weft
