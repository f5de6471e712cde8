// A map of names that a caller gives as two arrays.
//
//   WEFT_ASSIGN_OR_RETURN(rules.names, ReadNameMap(kCall, {"names", config.names}, {"saved_names", config.saved_names}, config.name_count));
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"

namespace weft {

using NameMap = std::unordered_map<std::string, std::optional<std::string>>;

// One of the arrays, and the struct's name of it.
struct GivenNames {
  const char* what;
  const char* const* names;
};

// names[i] is others[i], or nothing where that is NULL. INVALID_ARGUMENT for an array or a name that is NULL, a name that comes twice, and, if
// `null_refused` says why, for others[i] that is NULL.
absl::StatusOr<NameMap> ReadNameMap(const char* call, const GivenNames& names,
                                    const GivenNames& others, size_t count,
                                    const char* null_refused = nullptr);

}  // namespace weft
