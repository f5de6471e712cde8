// One collective, run by every rank of a group and compared bitwise with a reference.
//
//   const CollectiveCase c{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = 1021};
//   EXPECT_EQ(RunCase(*group, c, LocalChoice::FromSeed(seed, rank)), "");
//
// Inputs, and the counts of the forms that have several, are functions of (seed, rank, index), so every
// rank knows what all ranks hold. All memory around and between the blocks is filled with a pattern
// that must survive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/group/process_group.h"

namespace weft::test {

struct CollectiveCase {
  OpKind kind = OpKind::kAllReduce;
  weft_dtype_t dtype = WEFT_FLOAT32;
  weft_op_t op = WEFT_SUM;
  int root = 0;
  size_t count = 0;  // vector forms: blocks have up to that many; iov forms: all parts together
  uint64_t seed = 1;
  Protocol algorithm = Protocol::kAuto;
  size_t element_count = 1;  // values of an element, of kOpUser only

  std::string Name() const;
};

// kRegistered: pages of the caller's that the heap has taken over.
enum class Memory { kPrivate, kRegistered, kSymmetric };

// What a rank may choose for itself without the others knowing.
struct LocalChoice {
  bool in_place = false;
  bool asynchronous = false;
  Memory in = Memory::kPrivate;
  Memory out = Memory::kPrivate;
  size_t misalignment_in = 0;  // elements
  size_t misalignment_out = 0;

  static LocalChoice FromSeed(uint64_t seed, int rank);
};

// A rank's call of a case, for who carries it out himself.
class CaseCall {
 public:
  CaseCall(int rank, int size, const CollectiveCase& test, const LocalChoice& choice);
  CaseCall(const CaseCall&) = delete;
  CaseCall& operator=(const CaseCall&) = delete;
  ~CaseCall();

  // "" if it could be made.
  const std::string& problem() const { return problem_; }

  const Collective& call() const { return call_; }

  // Once it has been carried out: "" or what is wrong.
  std::string Check() const;

 private:
  struct Buffers;

  const int rank_;
  const CollectiveCase test_;
  std::string problem_;
  Collective call_;
  std::unique_ptr<Buffers> buffers_;
};

// "" or what is wrong.
std::string RunCase(ProcessGroup& group, const CollectiveCase& test, const LocalChoice& choice);

}  // namespace weft::test
