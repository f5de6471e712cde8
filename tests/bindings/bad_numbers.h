// What no number of an optimizer may be, for each number of a struct.
#pragma once

#include <cmath>

namespace weft::test {

// A number of a struct, by its name.
template <typename Struct>
struct Numbered {
  const char* name;
  double Struct::*number;
};

struct BadNumber {
  const char* fault;  // the name's end
  double value;
};

inline constexpr BadNumber kBadNumbers[] = {
    {"_negative", -0.5}, {"_nan", NAN}, {"_infinite", INFINITY}, {"_minus_infinity", -INFINITY}};

}  // namespace weft::test
