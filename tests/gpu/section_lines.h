// What a section's program tells ./dev gpu run: a line of JSON per thing that it found, at once, so that it counts even if the
// program hangs later. The lines are those of workbench/gpu/findings.py.
//
//   SectionLines lines(stdout);
//   lines.Cases("reduce", 36, 0);
//   lines.Wrong("reduce", "weft_reduce_bfloat16_sum_8, element 5: 3f80, not 3f81");
//   lines.Skip("cudaIpc", "cuIpcGetMemHandle says CUDA_ERROR_NOT_SUPPORTED");
//   lines.Figure({.name = "copy D2D", .bytes = 1 << 30, .us = {310.5, 309.9}});
//
// Thread-safety: none.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace weft::test {

struct Figure {
  std::string name;
  uint64_t bytes = 0;  // that were moved each time
  std::vector<double> us;
  double bound_us = 0;  // how quick it could be; 0: not known
  double bar = 0;       // which part of that is wanted; 0: none
};

class SectionLines {
 public:
  // Borrows the stream.
  explicit SectionLines(FILE* to) : to_(to) {}

  // So many tries, of which so many were wrong.
  void Cases(const std::string& check, int64_t cases, int64_t wrong);
  // One try that was wrong, and how.
  void Wrong(const std::string& check, const std::string& how);
  // What the machine refuses: not run.
  void Skip(const std::string& check, const std::string& why);
  void Fact(const std::string& name, const std::string& value);
  void Fact(const std::string& name, int64_t value);
  void Seed(uint32_t seed);
  void Figure(const test::Figure& figure);

  int64_t wrong() const { return wrong_; }

 private:
  FILE* to_;
  int64_t wrong_ = 0;
};

double Median(std::vector<double> values);

}  // namespace weft::test
