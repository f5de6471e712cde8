// The numbers below `count` in another order, one for each key, and no table of them: any place is
// computed when it is asked for, and so is the way back.
//
//   const Permutation order(windows, key);
//   uint64_t window = order.At(i);        // each of 0 .. windows - 1 for one i
//   order.PlaceOf(window) == i
//
// A generalised Feistel network with cycle walking (Black and Rogaway, "Ciphers with Arbitrary
// Finite Domains", 2002): a number is a pair of digits, and each round adds a keyed hash of one to
// the other. There are `count` pairs or a few more; where a pair is no number below `count` it is
// encrypted again until it is, which keeps the whole a bijection.
//
// It is to look random, and keeps no secret. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_PERMUTATION_H_
#define WEFT_TRAINER_PERMUTATION_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::trainer {

class Permutation {
 public:
  // Far more than any text has windows: sums of digits stay below 2^64.
  static constexpr uint64_t kCountMax = uint64_t{1} << 62;

  // `count` is 1 to kCountMax.
  Permutation(uint64_t count, uint64_t key);

  uint64_t count() const { return count_; }

  // Of a place below count().
  uint64_t At(uint64_t place) const;
  uint64_t PlaceOf(uint64_t number) const;

 private:
  // An even number, so that the digits come out where they went in. With 8 rounds some orders of 5
  // and 6 numbers are visibly more frequent than others, with 12 none are (permutation_test.cc).
  static constexpr size_t kRounds = 12;

  uint64_t Encrypt(uint64_t number) const;
  uint64_t Decrypt(uint64_t number) const;

  uint64_t count_;
  uint64_t low_, high_;  // how many values each digit has; low_ * high_ >= count_
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_PERMUTATION_H_
