#include "shard/checkpoint/sealed_text.h"

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// ,"crc32c":"1badcafe"} and a newline.
std::string SealOf(std::string_view open) {
  return StrCat(",\"crc32c\":\"", ChecksumText(Crc32c(0, open.data(), open.size())), "\"}\n");
}

}  // namespace

std::string ChecksumText(uint32_t checksum) {
  return fmt::format("{:08x}", checksum);
}

std::string Sealed(std::string open) {
  const std::string seal = SealOf(open);
  return std::move(open) + seal;
}

absl::Status CheckSeal(std::string_view file, std::string_view text) {
  const size_t seal_bytes = SealOf({}).size();
  if (text.size() > seal_bytes) {
    const std::string_view open = text.substr(0, text.size() - seal_bytes);
    if (text.substr(open.size()) == SealOf(open)) return absl::OkStatus();
  }
  return MakeError(WEFT_CORRUPT,
                   StrCat(file, ", of ", text.size(),
                          " bytes, is not as it was written: its checksum is wrong or missing"));
}

}  // namespace weft
