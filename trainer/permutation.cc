#include "trainer/permutation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trainer/random.h"

namespace weft::trainer {
namespace {

uint64_t RootRoundedUp(uint64_t count) {
  // Off by one at most, on either side.
  uint64_t root = std::max(uint64_t{1}, uint64_t(std::sqrt(double(count))));
  while (root > 1 && root * root >= count)
    root--;
  while (root * root < count)
    root++;
  return root;
}

}  // namespace

Permutation::Permutation(uint64_t count, uint64_t key)
    : count_(count), low_(RootRoundedUp(count)), high_((count + low_ - 1) / low_) {
  for (size_t round = 0; round < kRounds; round++)
    keys_[round] = BitsAt(key, round);
}

uint64_t Permutation::Encrypt(uint64_t number) const {
  uint64_t left = number % low_, right = number / low_;
  uint64_t left_values = low_, right_values = high_;
  for (const uint64_t key : keys_) {
    left = (left + BitsAt(key, right) % left_values) % left_values;
    std::swap(left, right);
    std::swap(left_values, right_values);
  }
  return right * low_ + left;
}

uint64_t Permutation::Decrypt(uint64_t number) const {
  uint64_t left = number % low_, right = number / low_;
  uint64_t left_values = low_, right_values = high_;
  for (size_t round = kRounds; round-- > 0;) {
    std::swap(left, right);
    std::swap(left_values, right_values);
    left = (left + left_values - BitsAt(keys_[round], right) % left_values) % left_values;
  }
  return right * low_ + left;
}

// The walk ends: the way through all pairs leads back to where it began, which is below count_.
uint64_t Permutation::At(uint64_t place) const {
  uint64_t number = Encrypt(place);
  while (number >= count_)
    number = Encrypt(number);
  return number;
}

uint64_t Permutation::PlaceOf(uint64_t number) const {
  uint64_t place = Decrypt(number);
  while (place >= count_)
    place = Decrypt(place);
  return place;
}

}  // namespace weft::trainer
