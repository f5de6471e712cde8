// Launches of every kernel that there is, drawn by a seed: types, operations, counts of sources, sizes, alignments, numbers that are
// denormal, infinite or none. What is right is what the kernel's twin makes of the same memory (tests/device/twins.h), which has
// the CPU's bits on every machine (tests/device/twin_*_test.cc).
//
//   KernelCases cases(seed, {.rounds = 6});
//   cases.ForEach([&](const KernelCase& one) { ... });
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "weft/types.h"

#include "comm/device/kernel_choice.h"
#include "tests/gpu/kernel_arena.h"

namespace weft::test {

struct KernelCase {
  std::string check;  // of a section: "reduce"
  std::string kernel;
  std::string what;  // for messages
  Arena arena;
  // The kernel's parameters if the arena lies there: an address aligned to kArenaAlignment.
  std::function<std::vector<char>(char* base)> parameters;
  unsigned blocks = 1;
  unsigned threads = 256;
  unsigned shared_bytes = 0;
};

struct CaseOptions {
  int rounds = 30;     // cases per kernel and count of sources
  bool small = false;  // short arrays alone, for tools that make a kernel a hundred times slower
  int64_t plant = -1;  // the case whose result is made wrong, to show that it would be found
};

class KernelCases {
 public:
  using Take = std::function<void(const KernelCase&)>;

  KernelCases(uint32_t seed, const CaseOptions& options);

  void ForEach(const Take& take);

  void Reductions(const Take& take);
  void Merges(const Take& take);
  void LocatedValues(const Take& take);
  void Casts(const Take& take);
  void Pieces(const Take& take);
  void Fills(const Take& take);
  void Digests(const Take& take);
  void Squares(const Take& take);
  void Updates(const Take& take);
  void LambMoments(const Take& take);

 private:
  struct Reduction {
    const char* check;
    KernelChoice kernel;
    weft_dtype_t from;
    weft_dtype_t factors;  // the type of the factors
    int source_count;
    bool merges;
  };

  uint64_t Draw(uint64_t below) { return random_() % below; }

  size_t DrawCount(int source_count);
  // Elements by which a pointer is off an alignment: of all pointers of a case the same, or not.
  size_t DrawShift(int kind);
  // `count` elements, of which each kind of special number is some.
  std::vector<char> DrawElements(weft_dtype_t dtype, size_t count);
  std::vector<char> DrawBytes(size_t count);
  std::vector<char> DrawFloats(size_t count, bool wild, bool positive);
  void DrawLaunch(KernelCase& one);
  void Reduce(const Reduction& reduction, const Take& take);
  template <typename StepOf>
  void Update(const std::string& name, const StepOf& step, const Take& take);

  std::mt19937_64 random_;
  CaseOptions options_;
  std::vector<std::vector<char>> pools_;  // by type
};

}  // namespace weft::test
