// Bytes that begin with a byte of flags, and of which most are JSON, with something in them changed by chance and with an eye on the JSON: numbers,
// texts, brackets with what is in them, and now and then bytes of any kind.
//
//   const std::string changed = MutateJson(input, {.purposes = {kVerify}, .texts = {"\"F32\""}}, random);
//
// Thread-safety: pure functions.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace weft::test {

// What the reader of the input knows.
struct MutationHints {
  std::vector<unsigned>
      purposes;  // bits of the first byte, of which each is another thing to do with the rest; at least one
  std::vector<const char*> texts;  // in quotes, to be put in the place of others; at least one
};

std::string MutateJson(std::string input, const MutationHints& hints, std::mt19937_64& random);

}  // namespace weft::test
