// Optimizer state offloaded to a file in a directory.
//
//   WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StateStore> store, OffloadToFile(plan, {.directory = "/scratch"}, timeout_ns, source));
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
#include "shard/offload/offloaded_state.h"

namespace weft {

// What a caller wants; directory "": nothing is offloaded.
struct OffloadOptions {
  // Four slots of 16 MiB; half and twice as much are as quick (docs/perf/offload.md).
  static constexpr size_t kBufferBytes = size_t{64} << 20;

  std::string directory;
  size_t buffer_bytes = kBufferBytes;  // about so much memory
  // What holds the state in place of a file: tests'.
  std::function<absl::StatusOr<std::unique_ptr<BlockStore>>(std::span<std::byte> memory,
                                                            uint64_t bytes)>
      make_store = nullptr;

  bool any() const { return !directory.empty(); }
};

// The errors of OffloadState() and ScratchFile::Create(). `timeout_ns`: of a transfer; 0: WEFT_TIMEOUT_S.
absl::StatusOr<std::unique_ptr<StateStore>> OffloadToFile(const OffloadPlan& plan,
                                                          const OffloadOptions& options,
                                                          int64_t timeout_ns,
                                                          const BlockSource& source);

}  // namespace weft
