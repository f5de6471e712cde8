// A model as the text of the cache file (docs/formats/tuning.md) and back.
//
//   std::string text = ModelAsJson({key, now_s, true, model});
//   WEFT_ASSIGN_OR_RETURN(StoredModel stored, ModelFromJson(text));
//
// Apart from the file, because the library behind it takes long to compile.
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "comm/select/machine_model.h"

namespace weft {

constexpr int kModelFormatVersion = 2;

struct StoredModel {
  std::string key;            // of the machine and weft that it was measured with (model_cache.h)
  int64_t measured_at_s = 0;  // Unix time
  bool complete = false;      // as in MeasuredModel
  MachineModel model;         // caches and cores are the default's: they are not stored
};

// The text of a cache file, ended by a newline. Bytes of the key that are no UTF-8 are replaced.
std::string ModelAsJson(const StoredModel& stored);

// CORRUPT with a sentence if the text is not JSON, of another format version, or lacks a member or has
// one that is not of its type or out of its range. Members that are not known are ignored.
absl::StatusOr<StoredModel> ModelFromJson(std::string_view text);

}  // namespace weft
