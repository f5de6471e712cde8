// A set of CPUs: hardware threads, by the numbers that the system gives them.
//
//   WEFT_ASSIGN_OR_RETURN(const CpuSet cpus, CpuSet::FromList("0-3,8"));
//   const CpuSet usable = cpus & CpuSet::OfThisThread();
//   usable.ToList()                                          // "0-1"
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace weft {

// CPU numbers are below it: as many as Linux is ever built for.
inline constexpr int kCpusMax = 8192;

class CpuSet {
 public:
  CpuSet() = default;

  // As the kernel and taskset write them: numbers and ranges that rise, "0-3,8"; "" is the empty set. CORRUPT with the text if it is
  // something else or has a CPU from kCpusMax on.
  static absl::StatusOr<CpuSet> FromList(std::string_view list);

  // Those that the calling thread may use: its affinity, which a control group's cpuset has limited already. Empty if
  // the system does not say.
  static CpuSet OfThisThread();

  // `cpu` from 0 to kCpusMax - 1.
  void Add(int cpu);

  bool Has(int cpu) const;

  bool empty() const { return words_.empty(); }

  int count() const;
  // -1 if there is none.
  int first() const;

  bool Contains(const CpuSet& other) const { return (other - *this).empty(); }

  bool Intersects(const CpuSet& other) const { return !(other & *this).empty(); }

  // In rising order.
  std::vector<int> Members() const;
  std::string ToList() const;

  // Bit n % 64 of word n / 64 is CPU n, which is what cpu_set_t has on machines of 64 bits. The last word is not 0.
  const std::vector<uint64_t>& words() const { return words_; }

  CpuSet operator&(const CpuSet& other) const;
  CpuSet operator|(const CpuSet& other) const;
  // Those that `other` does not have.
  CpuSet operator-(const CpuSet& other) const;
  bool operator==(const CpuSet& other) const = default;

 private:
  void Trim();

  std::vector<uint64_t> words_;
};

}  // namespace weft
