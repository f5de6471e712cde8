// llm.c's files of tokens: 256 words of 32 bits, of which the first three are a magic number, a
// version and how many tokens follow; then the tokens. All is little-endian.
//
//   const TokenFormat& format = FormatFor(50257);    // the smallest that has room for them
//
// docs/formats/tokens.md has the page; the format is that of llm.c's dev/data/data_common.py.
#ifndef WEFT_TRAINER_DATA_TOKEN_FORMAT_H_
#define WEFT_TRAINER_DATA_TOKEN_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::trainer {

static_assert(std::endian::native == std::endian::little, "files of tokens are mapped as they are");

struct TokenFormat {
  uint32_t magic;
  uint32_t version;
  size_t token_bytes;
};

constexpr TokenFormat kGpt2Tokens{20240520, 1, 2};
constexpr TokenFormat kLlama3Tokens{20240801, 7, 4};
constexpr TokenFormat kTokenFormats[] = {kGpt2Tokens, kLlama3Tokens};

constexpr size_t kTokenHeaderWords = 256;
constexpr size_t kTokenHeaderBytes = 4 * kTokenHeaderWords;

// The count is a signed word.
constexpr uint64_t kFileTokensMax = (uint64_t{1} << 31) - 1;

constexpr const TokenFormat& FormatFor(size_t vocabulary) {
  return kTokenFormats[vocabulary > size_t{1} << 16];
}

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_FORMAT_H_
