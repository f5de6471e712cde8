// A set of small numbers, of islands or of world ranks, below a bound that all who exchange it know.
//
//   IslandNumberSet dead(map.rank_count());
//   dead.Add(3);
//   if (members.Minus(dead).Count() > 1) ...
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/wire.h"

namespace weft {

class IslandNumberSet {
 public:
  IslandNumberSet() = default;

  // Of numbers 0 to bound - 1; empty.
  explicit IslandNumberSet(int bound)
      : bound_(bound), words_((static_cast<size_t>(bound) + 63) / 64) {}

  static IslandNumberSet All(int bound);

  int bound() const { return bound_; }

  // False for what is out of bounds.
  bool Has(int number) const;
  // True if it was not there. What is out of bounds is not added.
  bool Add(int number);
  void Remove(int number);

  int Count() const;

  bool Empty() const { return Count() == 0; }

  // The smallest; -1 if there is none.
  int First() const;
  // In ascending order.
  std::vector<int> Numbers() const;

  // True if it has become larger.
  bool AddAll(const IslandNumberSet& other);
  IslandNumberSet Minus(const IslandNumberSet& other) const;
  IslandNumberSet And(const IslandNumberSet& other) const;
  bool Contains(const IslandNumberSet& other) const;

  bool operator==(const IslandNumberSet& other) const = default;

  void Write(WireWriter* writer) const;
  // A set below `bound`; an empty one, and a reader that has not Finished(), if it was written with another bound.
  static IslandNumberSet Read(WireReader* reader, int bound);

  // "1, 3, 4"; no more than `names_max` of them, then "...".
  std::string ToString(int names_max = 16) const;

 private:
  int bound_ = 0;
  std::vector<uint64_t> words_;
};

}  // namespace weft
