#include "shard/checkpoint/given_name.h"

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "shard/checkpoint/limits.h"
#include "shard/checkpoint/safetensors.h"

namespace weft {

absl::Status CheckGivenName(std::string_view what, std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    constexpr size_t kShown = 80;
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("the name of a ", what, " is ", why, ": \"",
                            absl::CHexEscape(ToAbsl(name.substr(0, kShown))),
                            name.size() > kShown ? "..." : "", "\"; give it another one"));
  };
  if (name.empty()) return refuse("empty");
  if (name.size() > kCheckpointNameBytesMax)
    return refuse(StrCat("longer than ", kCheckpointNameBytesMax, " bytes"));
  if (!IsUtf8(name)) return refuse("no UTF-8");
  if (name == kSafetensorsMetadata) return refuse("that of the metadata of safetensors files");
  return absl::OkStatus();
}

absl::Status CheckContextName(std::string_view name) {
  return name.empty() ? absl::OkStatus() : CheckGivenName("context", name);
}

}  // namespace weft
