// How long survivors took to learn of a death, over many deaths.
//
//   SurvivorTimes times;
//   times.Add(killed_ns, knew_ns);              // milliseconds, for an assertion
//   times.Print();                              // "239 survivors knew after 1.3 ms (median), 22.3 ms (p99), 26.4 ms (last)"
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace weft::test {

class SurvivorTimes {
 public:
  double Add(int64_t killed_ns, int64_t knew_ns) {
    milliseconds_.push_back(static_cast<double>(knew_ns - killed_ns) * 1e-6);
    return milliseconds_.back();
  }

  bool empty() const { return milliseconds_.empty(); }

  void Print() {
    std::sort(milliseconds_.begin(), milliseconds_.end());
    std::printf("%zu survivors knew after %.1f ms (median), %.1f ms (p99), %.1f ms (last)\n",
                milliseconds_.size(), At(0.5), At(0.99), At(1));
  }

 private:
  double At(double share) const {
    const auto last = static_cast<double>(milliseconds_.size() - 1);
    return milliseconds_[static_cast<size_t>(share * last)];
  }

  std::vector<double> milliseconds_;
};

}  // namespace weft::test
