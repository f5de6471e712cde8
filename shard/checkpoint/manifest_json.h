// Parts of a manifest's text as values, for programs that show them in the same words.
//
// Thread-safety: pure functions.
#pragma once

#include "base/json_reader.h"
#include "shard/checkpoint/manifest.h"

namespace weft {

// {"context": ..., "steps_begun": ..., ...}
Json ScalarsJson(const SavedScalars::value_type& named);

// {"context": ..., "groups": [{"kind": "adamw", "numbers": {...}}, ...]}
Json OptimizerJson(const SavedOptimizers::value_type& named);

}  // namespace weft
