// Brings what a checkpoint has into what a program has, which may be cut otherwise and over other ranks.
//
//   WEFT_RETURN_IF_ERROR(CheckFits(saved, sources, WEFT_SHARD_STATE_ALL));       // nothing is written yet
//   WEFT_RETURN_IF_ERROR(Restore(saved, sources, WEFT_SHARD_STATE_ALL));
//   ... source->Written(...) on all ranks, once all of them have restored ...
//
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "shard/checkpoint/saved_checkpoint.h"
#include "shard/checkpoint/state_source.h"

namespace weft {

// What may differ between a checkpoint and a program.
struct MatchRules {
  // By the names of the program's tensors, what the checkpoint calls them, if that is another name. Nothing: the tensor keeps what it has.
  std::unordered_map<std::string, std::optional<std::string>> names;
  bool partial = false;  // so does a tensor that the checkpoint has not
  bool convert = false;  // values of one floating-point type become those of another
};

// Whether the checkpoint has, of these `kinds` (bits), all that the sources have, with the same names, shapes, types and optimizers of moments but for
// what `rules` allow; else INVALID_ARGUMENT, naming the first tensor that differs. With numbers too, unless only values are asked for.
absl::Status CheckFits(const SavedCheckpoint& saved, const std::vector<NamedSource>& sources,
                       uint32_t kinds, const MatchRules& rules = {});

// Numbers first, then values, then the rest, as weft/shard_state.h has it. After an error the sources' state is of no use. *source_failed says
// whether it is a source's, which could not be written, and not the checkpoint's.
absl::Status Restore(const SavedCheckpoint& saved, const std::vector<NamedSource>& sources,
                     uint32_t kinds, bool* source_failed = nullptr, const MatchRules& rules = {});

// A bit per tensor of the manifest, in its order, as bytes: those that the sources have something of.
std::vector<uint8_t> WantedTensors(const SavedCheckpoint& saved,
                                   const std::vector<NamedSource>& sources,
                                   const MatchRules& rules = {});

// The sources' tensors that keep what they have.
std::vector<std::string> KeptTensors(const SavedCheckpoint& saved,
                                     const std::vector<NamedSource>& sources,
                                     const MatchRules& rules);

}  // namespace weft
