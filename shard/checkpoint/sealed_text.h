// A JSON object with a checksum as its last member, so that a byte that changed is found before anything is read from it.
//
//   const std::string text = Sealed(R"({"step":120)");       // {"step":120,"crc32c":"1badcafe"} and a newline
//   WEFT_RETURN_IF_ERROR(CheckSeal("manifest.json", text));
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace weft {

// `open`: an object of at least one member, without its closing brace.
std::string Sealed(std::string open);

// CORRUPT, with the name of the file in the sentence, unless `text` is as Sealed() made it.
absl::Status CheckSeal(std::string_view file, std::string_view text);

// Eight digits, in hexadecimal.
std::string ChecksumText(uint32_t checksum);

}  // namespace weft
