// Reductions by functions whose elements have several values, on one node and over fake nodes, against a loop over the ranks.
//
// All values are such that nothing is rounded, so the order of ranks matters and the way to put brackets does not.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/forked_group.h"
#include "tests/bindings/user_op.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ x >> 33;
}

// Whole numbers, as float64 for complex ones.
using Words = std::vector<int64_t>;

int64_t FloatBits(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// --- The reductions: one element at a time -------------------------------------------------------

void MultiplyComplex(const int64_t* a, const int64_t* b, int64_t* out) {
  std::array<double, 2> left;
  std::array<double, 2> right;
  std::memcpy(left.data(), a, sizeof(left));
  std::memcpy(right.data(), b, sizeof(right));
  const std::array<double, 2> product = {left[0] * right[0] - left[1] * right[1],
                                         left[0] * right[1] + left[1] * right[0]};
  std::memcpy(out, product.data(), sizeof(product));
}

// {sum, count}, where the sum of nothing is not looked at.
void AddCounted(const int64_t* a, const int64_t* b, int64_t* out) {
  const int64_t sum = (a[1] > 0 ? a[0] : 0) + (b[1] > 0 ? b[0] : 0);
  out[1] = a[1] + b[1];
  out[0] = out[1] > 0 ? sum : -1;
}

// {a, b, d} of an upper triangular matrix.
void MultiplyTriangles(const int64_t* a, const int64_t* b, int64_t* out) {
  const std::array<int64_t, 3> product = {a[0] * b[0], a[0] * b[1] + a[1] * b[2], a[2] * b[2]};
  std::memcpy(out, product.data(), sizeof(product));
}

void MultiplyMatrices(const int64_t* a, const int64_t* b, int64_t* out) {
  const std::array<int64_t, 4> product = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                                          a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
  std::memcpy(out, product.data(), sizeof(product));
}

// {count, sum, sum of squares, least, largest, first, last}.
void JoinStatistics(const int64_t* a, const int64_t* b, int64_t* out) {
  const int64_t* const first = a[0] > 0 ? a : b;
  const int64_t* const last = b[0] > 0 ? b : a;
  const std::array<int64_t, 7> joined = {
      a[0] + b[0],          a[1] + b[1], a[2] + b[2], std::min(a[3], b[3]),
      std::max(a[4], b[4]), first[5],    last[6]};
  std::memcpy(out, joined.data(), sizeof(joined));
}

struct Reduction {
  const char* name;
  weft_dtype_t dtype;
  size_t values;  // of an element
  void (*join)(const int64_t* a, const int64_t* b, int64_t* out);
  size_t count_at = SIZE_MAX;  // the value of an element that is a count, and so not negative
};

constexpr Reduction kReductions[] = {{"complex product", WEFT_FLOAT64, 2, MultiplyComplex},
                                     {"counted sum", WEFT_INT64, 2, AddCounted, 1},
                                     {"triangle product", WEFT_INT64, 3, MultiplyTriangles},
                                     {"matrix product", WEFT_INT64, 4, MultiplyMatrices},
                                     {"statistics", WEFT_INT64, 7, JoinStatistics, 0}};

// What weft calls. What does not make an element is left as it is, which the comparison finds.
void Join(const void* left, const void* right, void* out, size_t count, weft_dtype_t, void* user) {
  const Reduction& reduction = *static_cast<const Reduction*>(user);
  const size_t values = reduction.values;
  for (size_t at = 0; at + values <= count; at += values) {
    reduction.join(static_cast<const int64_t*>(left) + at, static_cast<const int64_t*>(right) + at,
                   static_cast<int64_t*>(out) + at);
  }
}

class Op {
 public:
  Op(const Reduction& reduction, size_t element_count) {
    EXPECT_EQ(
        CreateUserOp(Join, const_cast<Reduction*>(&reduction), reduction.name, &op_, element_count),
        WEFT_SUCCESS)
        << weft_last_error();
  }

  explicit Op(const Reduction& reduction) : Op(reduction, reduction.values) {}

  Op(const Op&) = delete;
  Op& operator=(const Op&) = delete;

  ~Op() { (void)weft_op_destroy(op_); }

  weft_op_t get() const { return op_; }

 private:
  weft_op_t op_ = WEFT_SUM;
};

// --- What ranks have, and what must come out -----------------------------------------------------

// Small numbers, so that products of them are whole float64.
Words InputOf(const Reduction& reduction, size_t elements, int rank, uint64_t seed) {
  Words words(elements * reduction.values);
  for (size_t i = 0; i < words.size(); ++i) {
    const uint64_t random = Mix(seed * 1009 + i * 64 + static_cast<uint64_t>(rank));
    const bool counts = i % reduction.values == reduction.count_at;
    const auto small = static_cast<int64_t>(random % (counts ? 3 : 5)) - (counts ? 0 : 2);
    words[i] = reduction.dtype == WEFT_FLOAT64 ? FloatBits(static_cast<double>(small)) : small;
  }
  return words;
}

Words Expected(const Reduction& reduction, size_t elements, int size, uint64_t seed) {
  Words all = InputOf(reduction, elements, 0, seed);
  for (int rank = 1; rank < size; ++rank) {
    const Words next = InputOf(reduction, elements, rank, seed);
    for (size_t at = 0; at < all.size(); at += reduction.values)
      reduction.join(&all[at], &next[at], &all[at]);
  }
  return all;
}

// Zeros of either sign are one number.
bool Same(const Reduction& reduction, const int64_t* found, const int64_t* expected, size_t words) {
  for (size_t i = 0; i < words; ++i) {
    if (found[i] == expected[i]) continue;
    if (reduction.dtype != WEFT_FLOAT64 || ((found[i] | expected[i]) << 1) != 0) return false;
  }
  return true;
}

// --- Operations ----------------------------------------------------------------------------------

// Of an operation that was started, or, without *work, that is done.
weft_result_t Wait(weft_result_t started, const weft_work_t* work) {
  if (started != WEFT_SUCCESS || *work == nullptr) return started;
  const weft_result_t ended = weft_work_wait(*work, 0);
  const weft_result_t freed = weft_work_free(*work);
  return ended == WEFT_SUCCESS ? freed : ended;
}

std::string Differs(const Reduction& reduction, const char* operation, size_t elements) {
  return std::string(operation) + " (" + reduction.name + ") of " + std::to_string(elements) +
         " elements has a wrong result";
}

std::string ReduceWhole(const GroupRank& self, const Reduction& reduction, weft_op_t op,
                        size_t elements, uint64_t seed) {
  const Words in = InputOf(reduction, elements, self.rank, seed);
  const Words expected = Expected(reduction, elements, self.size, seed);
  Words out(in.size());
  weft_work_t work = nullptr;
  weft_work_t* const asked = seed % 2 == 0 ? &work : nullptr;
  SAY_UNLESS(Wait(weft_all_reduce(in.data(), out.data(), in.size(), reduction.dtype, op, self.group,
                                  nullptr, asked),
                  &work) == WEFT_SUCCESS);
  if (!Same(reduction, out.data(), expected.data(), out.size()))
    return Differs(reduction, "all_reduce", elements);

  const int root = static_cast<int>(seed) % self.size;
  Words in_place = in;
  SAY_UNLESS(weft_reduce(in_place.data(), in_place.data(), in.size(), reduction.dtype, op, root,
                         self.group, nullptr, nullptr) == WEFT_SUCCESS);
  if (self.rank == root && !Same(reduction, in_place.data(), expected.data(), in.size()))
    return Differs(reduction, "reduce", elements);

  // Three parts of odd sizes, in place.
  in_place = in;
  const size_t first = elements / 3;
  const size_t second = elements / 2;
  int64_t* const data = in_place.data();
  const size_t values = reduction.values;
  const weft_iov_t parts[] = {
      {data, data, first * values},
      {data + first * values, data + first * values, (second - first) * values},
      {data + second * values, data + second * values, (elements - second) * values}};
  SAY_UNLESS(weft_all_reduce_iov(parts, 3, reduction.dtype, op, self.group, nullptr, nullptr) ==
             WEFT_SUCCESS);
  if (!Same(reduction, data, expected.data(), in.size()))
    return Differs(reduction, "all_reduce_iov", elements);
  return "";
}

std::string ReduceShares(const GroupRank& self, const Reduction& reduction, weft_op_t op,
                         size_t elements, uint64_t seed) {
  const auto size = static_cast<size_t>(self.size);
  const auto own = static_cast<size_t>(self.rank);
  const size_t values = reduction.values;
  const size_t share = elements * values;
  const Words in = InputOf(reduction, elements * size, self.rank, seed);
  const Words expected = Expected(reduction, elements * size, self.size, seed);
  Words out(share);
  SAY_UNLESS(weft_reduce_scatter(in.data(), out.data(), share, reduction.dtype, op, self.group,
                                 nullptr, nullptr) == WEFT_SUCCESS);
  if (!Same(reduction, out.data(), expected.data() + own * share, share))
    return Differs(reduction, "reduce_scatter", elements);

  // Another count for each rank, none of them for some, with a gap of one element behind each block.
  std::vector<size_t> counts;
  std::vector<size_t> displacements;
  size_t end = 0;
  for (size_t rank = 0; rank < size; ++rank) {
    const size_t room = elements * size - end - (size - rank);
    const size_t most = elements < size + 1 ? 0 : std::min(room, elements);
    counts.push_back((rank + seed) % 4 == 3 ? 0 : most * (rank + 1) / size * values);
    displacements.push_back(end * values);
    end += counts.back() / values + 1;
  }
  out.assign(share, 0);
  weft_work_t work = nullptr;
  weft_work_t* const asked = seed % 2 == 1 ? &work : nullptr;
  SAY_UNLESS(Wait(weft_reduce_scatter_v(in.data(), out.data(), counts.data(), displacements.data(),
                                        reduction.dtype, op, self.group, nullptr, asked),
                  &work) == WEFT_SUCCESS);
  if (!Same(reduction, out.data(), expected.data() + displacements[own], counts[own]))
    return Differs(reduction, "reduce_scatter_v", elements);

  const weft_iov_t parts[] = {{in.data(), out.data(), share}};
  SAY_UNLESS(weft_reduce_scatter_iov(parts, 1, reduction.dtype, op, self.group, nullptr, nullptr) ==
             WEFT_SUCCESS);
  if (!Same(reduction, out.data(), expected.data() + own * share, share))
    return Differs(reduction, "reduce_scatter_iov", elements);
  return "";
}

// --- The tests -----------------------------------------------------------------------------------

constexpr NodesOfGroup kNodes[] = {{1, ""},  {2, ""},  {3, ""},        {5, ""},
                                   {2, "2"}, {4, "2"}, {4, "0,1,0,1"}, {5, "0,0,1,2,0"}};

TEST(CompoundOp, ReducesWholeElementsWhereverItIsDivided) {
  const uint64_t seed = TestSeed(35);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  for (const NodesOfGroup& shape : kNodes) {
    OnForkedGroup(shape, [&](const GroupRank& self) -> std::string {
      uint64_t number = seed;
      for (const Reduction& reduction : kReductions) {
        const Op op(reduction);
        for (const size_t elements : {1, 2, 3, 11, 77, 625, 4'099, 9'973}) {
          ++number;
          std::string problem = ReduceWhole(self, reduction, op.get(), elements, number);
          if (problem.empty() && elements < 5'000)
            problem = ReduceShares(self, reduction, op.get(), elements, number);
          if (!problem.empty()) return problem;
        }
      }
      return "";
    });
  }
}

// --- Calls that are wrong ------------------------------------------------------------------------

std::string Refused(weft_result_t result, const char* needle) {
  const std::string said = weft_last_error();
  const bool right = result == WEFT_INVALID_ARGUMENT && said.find(needle) != std::string::npos;
  return right ? "" : std::to_string(result) + ", " + said + ", not: " + needle;
}

TEST(CompoundOp, RefusesWhatIsNotAWholeNumberOfElements) {
  for (const NodesOfGroup& shape : {NodesOfGroup{2, ""}, NodesOfGroup{2, "2"}}) {
    OnForkedGroup(shape, [](const GroupRank& self) -> std::string {
      const Op op(kReductions[3]);
      Words data(64);
      int64_t* const x = data.data();
      weft_group_t const group = self.group;
      for (const size_t count : {1, 2, 3, 5, 63}) {
        std::string problem = Refused(
            weft_all_reduce(x, x, count, WEFT_INT64, op.get(), group, nullptr, nullptr),
            "is not a multiple of 4, the element_count of the reduction \"matrix product\"");
        if (problem.empty())
          problem = Refused(weft_reduce_scatter(x, x + 32 * self.rank, count, WEFT_INT64, op.get(),
                                                group, nullptr, nullptr),
                            "reduce_scatter: count ");
        if (!problem.empty()) return problem;
      }
      const size_t even[] = {8, 8};
      const size_t odd[] = {8, 6};
      std::string problem = Refused(weft_reduce_scatter_v(x, x + 32, odd, nullptr, WEFT_INT64,
                                                          op.get(), group, nullptr, nullptr),
                                    "reduce_scatter_v: a block's count 6 is not a multiple of 4");
      if (!problem.empty()) return problem;
      const size_t displacements[] = {0, 9};
      problem = Refused(weft_reduce_scatter_v(x, x + 32, even, displacements, WEFT_INT64, op.get(),
                                              group, nullptr, nullptr),
                        "reduce_scatter_v: a displacement of 9 is not a multiple of 4");
      if (!problem.empty()) return problem;
      const weft_iov_t parts[] = {{x, x, 8}, {x + 8, x + 8, 7}};
      problem =
          Refused(weft_all_reduce_iov(parts, 2, WEFT_INT64, op.get(), group, nullptr, nullptr),
                  "all_reduce_iov: a part's count 7 is not a multiple of 4");
      if (!problem.empty()) return problem;
      const weft_explain_query_t query = {.struct_size = sizeof(query),
                                          .operation = "all_reduce",
                                          .count = 7,
                                          .dtype = WEFT_INT64,
                                          .op = op.get()};
      char text[4096];
      problem = Refused(weft_explain(group, &query, text, sizeof(text), nullptr),
                        "count 7 is not a multiple of 4");
      if (!problem.empty()) return problem;
      const Op large(kReductions[3], 1'025);
      problem = Refused(weft_all_reduce(x, x, 0, WEFT_INT64, large.get(), group, nullptr, nullptr),
                        "has 1025 int64 and so more than the 8192 bytes");
      if (!problem.empty()) return problem;
      // The group works on, and an empty block may lie anywhere.
      const size_t first_only[] = {8, 0};
      SAY_UNLESS(weft_reduce_scatter_v(x, x + 32, first_only, displacements, WEFT_INT64, op.get(),
                                       group, nullptr, nullptr) == WEFT_SUCCESS);
      return "";
    });
  }
}

// Of one name, type and count, in what fits in an arrival line and in what does not.
TEST(CompoundOp, AnotherElementCountIsAMismatch) {
  for (const NodesOfGroup& shape : {NodesOfGroup{3, ""}, NodesOfGroup{3, "0,1,0"}}) {
    for (const size_t count : {size_t{4}, size_t{4'096}}) {
      OnForkedGroup(shape, [&](const GroupRank& self) -> std::string {
        const Op op(kReductions[1], self.rank == 1 ? 4 : 2);
        Words data(count);
        const weft_result_t result = weft_all_reduce(data.data(), data.data(), count, WEFT_INT64,
                                                     op.get(), self.group, nullptr, nullptr);
        if (result != WEFT_MISMATCH)
          return "it ended with " + std::to_string(result) + ": " + weft_last_error();
        return "";
      });
    }
  }
}

}  // namespace
}  // namespace weft::test
