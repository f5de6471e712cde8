#include "bindings/c/name_map.h"

#include "base/text.h"
#include "bindings/c/guard.h"

namespace weft {

absl::StatusOr<NameMap> ReadNameMap(const char* call, const GivenNames& names,
                                    const GivenNames& others, size_t count,
                                    const char* null_refused) {
  NameMap map;
  if (count > 0 && (names.names == nullptr || others.names == nullptr)) {
    return InvalidArgument(call, StrCat("name_count is ", count, ", and ", names.what, " or ",
                                        others.what, " is NULL; pass both"));
  }
  for (size_t i = 0; i < count; ++i) {
    const char* const name = names.names[i];
    const char* const other = others.names[i];
    if (name == nullptr) return InvalidArgument(call, StrCat(names.what, "[", i, "] is NULL"));
    if (other == nullptr && null_refused != nullptr) {
      return InvalidArgument(
          call, StrCat(others.what, "[", i, "], for ", name, ", is NULL ", null_refused));
    }
    const bool added =
        map.emplace(name, other == nullptr ? std::nullopt : std::optional<std::string>(other))
            .second;
    if (!added) return InvalidArgument(call, StrCat(names.what, " has ", name, " twice"));
  }
  return map;
}

}  // namespace weft
