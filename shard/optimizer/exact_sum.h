// A sum of doubles that does not depend on the order of its additions.
//
//   ExactSum sum;
//   for (const double part : parts) sum.Add(part);
//   ExactSum::Words words = sum.words();                    // all_reduce: int64, sum
//   const double total = ExactSum(words).Value();           // the same bits on every rank
//
// It is a fixed-point integer wide enough for every finite double: limbs of 32 bits, each in an int64 that
// has room for carries, so that an addition touches three limbs and nothing is ever rounded. Only
// Value() rounds, once, to nearest even. Infinities and NaNs are counted apart.
//
// Words of several ranks may be added element by element, as int64. Headroom: every limb that words() gives
// but the last is in [0, 2^32), so 2^30 ranks fit; the last one has room for 2^44 additions, of all ranks
// together, of the largest finite double.
//
// Thread-safety: a value; one thread at a time writes it. No allocation.
#pragma once

#include <array>
#include <cstdint>

namespace weft {

class ExactSum {
 public:
  // Bit 0 of limb 0 is 2^-1074, the least denormal; the largest double ends in limb 65.
  static constexpr int kLimbs = 66;

  // The limbs, lowest first; then how many NaNs, +inf and -inf were added.
  using Words = std::array<int64_t, kLimbs + 3>;

  ExactSum() = default;
  // What words() gave, or a sum of such. Any numbers are accepted: they may come from another rank.
  explicit ExactSum(const Words& words);

  // Adds one number: about ten instructions.
  void Add(double value);
  // Adds all that `other` holds.
  void Merge(const ExactSum& other);

  // The sum, rounded to nearest even; infinity if it is too large for a double. NaN if a NaN or infinities
  // of both signs were added, else the infinity that was added. A sum of zero is +0. Reads bits only, so
  // the thread's floating-point settings make no difference.
  double Value() const;

  // The sum in its only form: equal sums have equal words.
  Words words() const;

 private:
  // Additions that a limb has room for between two carries.
  static constexpr int64_t kAdditionsMax = int64_t{1} << 30;

  void AddUnusual(double value);
  void Carry();

  Words words_ = {};
  int64_t additions_ = 0;  // since the last Carry
};

}  // namespace weft
