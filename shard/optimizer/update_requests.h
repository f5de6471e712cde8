// What ranks ask of each other with an update, bits that the program has given a meaning: each rank gets the bits of all. They
// travel in words that are added over ranks anyway, so that asking costs no call of its own.
//
//   AppendRequests(update.requests, ranks, words);                // all_reduce: int64, sum
//   result.requests = TakeRequests(words, ranks);
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace weft {

// A sum is no OR: each bit gets a field in which all `ranks` can be counted. So 64 bits are 1 word for one rank, 4 words for
// up to 15 and 22 for 65,536.
void AppendRequests(uint64_t requests, int ranks, std::vector<int64_t>& words);

// Removes from the end what AppendRequests has appended, added over the ranks: the bits that any of them has.
uint64_t TakeRequests(std::vector<int64_t>& words, int ranks);

}  // namespace weft
