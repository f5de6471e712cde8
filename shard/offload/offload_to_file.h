// Optimizer state, and params if that is wanted, offloaded to a file in a directory.
//
//   WEFT_ASSIGN_OR_RETURN(Offloaded offloaded, OffloadToFile(layout, plan, {.directory = "/scratch"}, timeout_ns, source, told));
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "shard/layout/part_source.h"
#include "shard/offload/offloaded_state.h"

namespace weft {

// What a caller wants; directory "": nothing is offloaded.
struct OffloadOptions {
  // Four slots of 16 MiB; half and twice as much are as quick (docs/perf/offload.md).
  static constexpr size_t kBufferBytes = size_t{64} << 20;

  std::string directory;
  size_t buffer_bytes = kBufferBytes;  // about so much memory
  bool params = false;                 // those that are sharded at rest, too
  // What holds the state in place of a file: tests'. Asked again for another store of the same bytes, if params are offloaded.
  std::function<absl::StatusOr<std::unique_ptr<BlockStore>>(std::span<std::byte> memory,
                                                            uint64_t bytes)>
      make_store = nullptr;

  bool any() const { return !directory.empty(); }
};

struct Offloaded {
  std::unique_ptr<StateStore> state;
  std::unique_ptr<PartSource> params;  // nullptr if none are offloaded
};

// The errors of OffloadState(), ScratchFile and ParamReads::Start(). `timeout_ns`: of a transfer; 0: WEFT_TIMEOUT_S. `told` is
// ParamReads's.
absl::StatusOr<Offloaded> OffloadToFile(const Layout& layout, const OffloadPlan& plan,
                                        const OffloadOptions& options, int64_t timeout_ns,
                                        const BlockSource& source, std::function<void()> told);

}  // namespace weft
