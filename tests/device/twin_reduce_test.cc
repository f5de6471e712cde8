// What kernels of devices compute, by their twins, against the kernels of the CPU: types x operations x sources x counts x alignments x
// destinations, bit by bit, whole and in stages.
#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "comm/device/element/merge.h"
#include "comm/device/kernel_choice.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/kernels/reduce_stage.h"
#include "tests/comm/kernels/reference.h"
#include "tests/device/twins.h"
#include "tests/support/case_sample.h"

namespace weft::test::twin_reduce_test {
namespace {

constexpr int kSourceCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64};
constexpr size_t kSizes[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,   9,   12,  15,
                             16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 255, 1021};
constexpr size_t kSizeMax = 1021;
constexpr size_t kAllSizesMax = 4097;
constexpr size_t kMargin = 128;
constexpr char kCanary = '\xa5';

// By how many elements each pointer of a case is off an alignment of 128 bytes.
enum class Shifts { kNone, kSame, kMixed };
constexpr Shifts kAllShifts[] = {Shifts::kNone, Shifts::kSame, Shifts::kMixed};

size_t ShiftOf(Shifts shifts, int pointer) {
  if (shifts == Shifts::kNone) return 0;
  return shifts == Shifts::kSame ? 3 : static_cast<size_t>(pointer * 7 + 1) % 16;
}

// Memory that begins so many bytes after an alignment, with canaries around.
class Block {
 public:
  Block(size_t bytes, size_t shift) : storage_(bytes + shift + 3 * kMargin, kCanary) {
    char* const start = storage_.data() + kMargin;
    at_ = start + (kMargin - reinterpret_cast<uintptr_t>(start) % kMargin) % kMargin + shift;
  }

  char* at() { return at_; }

  bool IsUntouchedAround(size_t written) const {
    const auto is_canary = [](char byte) {
      return byte == kCanary;
    };
    return std::all_of(storage_.data(), static_cast<const char*>(at_), is_canary) &&
           std::all_of(static_cast<const char*>(at_) + written, storage_.data() + storage_.size(),
                       is_canary);
  }

 private:
  std::vector<char> storage_;
  char* at_;
};

// One reduction of packed sources.
struct Call {
  KernelChoice kernel;
  ReduceKernel on_cpu;
  std::vector<std::vector<char>> sources;
  Elements factors;
  std::vector<uint8_t> merges;
  int64_t divisor;
};

std::vector<char> RunOnCpu(const Call& call, size_t count) {
  std::vector<const void*> pointers;
  for (const std::vector<char>& source : call.sources)
    pointers.push_back(source.data());
  std::vector<char> result(count * call.kernel.result_bytes);
  void* const destination = result.data();
  ReduceArguments arguments{
      pointers.data(),    static_cast<int>(pointers.size()), &destination, 1, count, call.divisor,
      call.factors.data()};
  if (!call.merges.empty()) arguments.merges = call.merges.data();
  call.on_cpu(arguments);
  return result;
}

device::ReduceParameters ParametersOf(const Call& call) {
  device::ReduceParameters parameters = {};
  parameters.divisor = call.divisor;
  parameters.source_count = static_cast<int>(call.sources.size());
  for (size_t s = 0; s < call.sources.size(); ++s)
    parameters.factors[s] = call.factors[s];
  std::copy(call.merges.begin(), call.merges.end(), parameters.merges);
  return parameters;
}

// The twin's result of the first `count` elements, in one and in three destinations, has the bits of `expected`.
void ExpectBits(const Call& call, const std::vector<char>& expected, size_t count, Shifts shifts) {
  const Twin twin = FindTwin(call.kernel.name);
  ASSERT_NE(twin, nullptr) << call.kernel.name;
  device::ReduceParameters parameters = ParametersOf(call);
  std::vector<Block> sources;
  for (size_t s = 0; s < call.sources.size(); ++s) {
    const size_t shift = ShiftOf(shifts, static_cast<int>(s)) * call.kernel.source_bytes;
    sources.emplace_back(count * call.kernel.source_bytes, shift);
    std::memcpy(sources.back().at(), call.sources[s].data(), count * call.kernel.source_bytes);
    parameters.sources[s] = sources.back().at();
  }
  for (const int destination_count : {1, 3}) {
    std::vector<Block> destinations;
    for (int d = 0; d < destination_count; ++d) {
      destinations.emplace_back(count * call.kernel.result_bytes,
                                ShiftOf(shifts, d + 5) * call.kernel.result_bytes);
      parameters.destinations[d] = destinations.back().at();
    }
    parameters.destination_count = destination_count;
    parameters.range = PacketsOf(call.kernel, parameters, count);
    twin(&parameters, {.blocks = 1, .threads = 7});
    for (Block& destination : destinations) {
      const size_t bytes = count * call.kernel.result_bytes;
      ASSERT_EQ(std::memcmp(destination.at(), expected.data(), bytes), 0)
          << call.kernel.name << " of " << call.sources.size() << " sources, " << count
          << " elements, shifts " << static_cast<int>(shifts)
          << ", --gtest_random_seed=" << TestSeed();
      ASSERT_TRUE(destination.IsUntouchedAround(bytes)) << call.kernel.name << ": wrote outside";
    }
  }
  if (call.kernel.source_bytes != call.kernel.result_bytes) return;
  // Into the last source.
  parameters.destinations[0] = sources.back().at();
  parameters.destination_count = 1;
  parameters.range = PacketsOf(call.kernel, parameters, count);
  twin(&parameters, {.blocks = 2, .threads = 5});
  ASSERT_EQ(std::memcmp(sources.back().at(), expected.data(), count * call.kernel.result_bytes), 0)
      << call.kernel.name << " in place, " << count << " elements";
}

class TwinReduce : public testing::TestWithParam<weft_dtype_t> {
 protected:
  size_t size_max() const { return AllCasesWanted() ? kAllSizesMax : kSizeMax; }

  void FillSources(weft_dtype_t dtype, int source_count, Call& call) {
    call.sources.clear();
    for (int s = 0; s < source_count; ++s)
      call.sources.push_back(PackElements(dtype, RandomElements(dtype, size_max(), random_)));
    call.factors = Factors(GetParam(), static_cast<size_t>(source_count));
    call.divisor = source_count + 3;
  }

  // Where all cases are wanted every size up to kAllSizesMax too, but with one count of sources each, by turns: all with all take hours.
  static std::vector<size_t> SizesWith(size_t source_count) {
    std::vector<size_t> sizes(std::begin(kSizes), std::end(kSizes));
    if (!AllCasesWanted()) return sizes;
    const auto* const place =
        std::find(std::begin(kSourceCounts), std::end(kSourceCounts), source_count);
    for (auto size = static_cast<size_t>(place - kSourceCounts); size <= kAllSizesMax;
         size += std::size(kSourceCounts))
      sizes.push_back(size);
    return sizes;
  }

  // Those sizes on the instruction sets that this machine has, which must agree, and on the twin.
  void CheckSizes(Call& call, const std::vector<ReduceKernel>& on_cpu) {
    std::vector<char> expected;
    for (const ReduceKernel kernel : on_cpu) {
      ASSERT_NE(kernel, nullptr) << call.kernel.name;
      call.on_cpu = kernel;
      const std::vector<char> result = RunOnCpu(call, size_max());
      if (expected.empty()) expected = result;
      ASSERT_EQ(result, expected) << call.kernel.name << ": instruction sets differ";
    }
    const std::vector<size_t> sizes = SizesWith(call.sources.size());
    for (const Shifts shifts : kAllShifts) {
      for (const size_t size : sizes) {
        if (!sample_.Takes(cases_++)) continue;
        ExpectBits(call, expected, size, shifts);
        if (HasFatalFailure()) return;
      }
    }
  }

  std::mt19937_64 random_{TestSeed()};
  CaseSample sample_{{.every = 3, .sanitized = 23}, TestSeed()};
  size_t cases_ = 0;
};

std::vector<ReduceKernel> KernelsOf(weft_dtype_t dtype, weft_op_t op, ReduceStage stage) {
  std::vector<ReduceKernel> kernels;
  for (const Isa isa : AvailableIsas())
    kernels.push_back(FindReduceKernel(isa, dtype, op, stage));
  return kernels;
}

TEST_P(TwinReduce, HasTheBitsOfTheCpu) {
  for (const weft_op_t op : OpsOf(GetParam())) {
    for (const int source_count : kSourceCounts) {
      Call call = {};
      FillSources(GetParam(), source_count, call);
      call.kernel = ChooseReduce(GetParam(), op, source_count);
      CheckSizes(call, KernelsOf(GetParam(), op, ReduceStage::kWhole));
      if (HasFatalFailure()) return;
    }
  }
  sample_.Print("reductions", cases_);
}

TEST_P(TwinReduce, TheFirstStageHasTheBitsOfTheCpu) {
  for (const weft_op_t op : OpsOf(GetParam())) {
    for (const int source_count : kSourceCounts) {
      Call call = {};
      FillSources(GetParam(), source_count, call);
      call.kernel = ChooseFirst(GetParam(), op, source_count);
      CheckSizes(call, KernelsOf(GetParam(), op, ReduceStage::kFirst));
      if (HasFatalFailure()) return;
    }
  }
  sample_.Print("first stages", cases_);
}

TEST_P(TwinReduce, LaterStagesHaveTheBitsOfTheCpu) {
  for (const weft_op_t op : OpsOf(GetParam())) {
    if (!RoundsOnTheWay(GetParam(), op)) {
      EXPECT_EQ(ChooseMerge(GetParam(), op).name, "");
      continue;
    }
    const weft_dtype_t accumulator = AccumulatorDtype(GetParam(), op);
    for (const int source_count : kSourceCounts) {
      Call call = {};
      FillSources(accumulator, source_count, call);
      call.merges = RandomMerges(source_count, random_);
      call.kernel = ChooseMerge(GetParam(), op);
      CheckSizes(call, KernelsOf(GetParam(), op, ReduceStage::kLast));
      if (HasFatalFailure()) return;
      const weft_op_t middle = op == WEFT_AVG ? WEFT_SUM : op;
      call.kernel = ChooseMerge(accumulator, middle);
      CheckSizes(call, KernelsOf(GetParam(), op, ReduceStage::kMiddle));
      if (HasFatalFailure()) return;
    }
  }
  sample_.Print("later stages", cases_);
}

// Pairs of a value and an index.
std::vector<char> RandomPairs(weft_dtype_t dtype, size_t count, std::mt19937_64& random) {
  const Elements special = SpecialElements(dtype);
  std::vector<char> pairs(kLocBytes * count, '\x3c');
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = special[random() % special.size()];
    const auto index = static_cast<int64_t>(random() % 5) - 2;
    std::memcpy(&pairs[i * kLocBytes], &bits, DtypeSize(dtype));
    std::memcpy(&pairs[i * kLocBytes + 8], &index, 8);
  }
  return pairs;
}

// Of the first `count` pairs, `shift` bytes off an alignment.
void ExpectLocated(const Call& call, size_t count, size_t shift) {
  const std::vector<char> expected = RunOnCpu(call, count);
  device::ReduceParameters parameters = ParametersOf(call);
  std::vector<Block> sources;
  for (size_t s = 0; s < call.sources.size(); ++s) {
    sources.emplace_back(count * kLocBytes, shift);
    std::memcpy(sources.back().at(), call.sources[s].data(), count * kLocBytes);
    parameters.sources[s] = sources.back().at();
  }
  Block destination(count * kLocBytes, 0);
  parameters.destinations[0] = destination.at();
  parameters.destination_count = 1;
  parameters.range = PacketsOf(call.kernel, parameters, count);
  FindTwin(call.kernel.name)(&parameters, {});
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), destination.at()))
      << call.kernel.name << " of " << call.sources.size() << " sources, " << count
      << " elements, --gtest_random_seed=" << TestSeed();
  ASSERT_TRUE(destination.IsUntouchedAround(expected.size()));
}

TEST_P(TwinReduce, LocatedValuesHaveTheBitsOfTheCpu) {
  if (GetParam() == WEFT_BOOL) return;
  for (const weft_op_t op : {WEFT_MIN_LOC, WEFT_MAX_LOC}) {
    for (const int source_count : {1, 2, 3, 8, 64}) {
      Call call = {};
      call.factors.assign(static_cast<size_t>(source_count), 0);
      for (int s = 0; s < source_count; ++s)
        call.sources.push_back(RandomPairs(GetParam(), 200, random_));
      call.kernel = ChooseReduce(GetParam(), op, source_count);
      call.on_cpu = FindReduceKernel(Isa::kScalar, GetParam(), op);
      for (const size_t count : {size_t{0}, size_t{1}, size_t{2}, size_t{200}}) {
        ExpectLocated(call, count, 0);
        ExpectLocated(call, count, 8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TwinReduce, testing::ValuesIn(kDtypes),
                         [](const auto& info) { return std::string(DtypeName(info.param)); });

// A name for every reduction that there is, and a twin, hence a kernel, for every name.
TEST(KernelChoice, AreThoseOfKernels) {
  for (const weft_dtype_t dtype : kDtypes) {
    for (const weft_op_t op : kReductionOps) {
      for (int source_count = 1; source_count <= device::kDeviceSourcesMax; ++source_count) {
        const std::string whole = ChooseReduce(dtype, op, source_count).name;
        EXPECT_EQ(whole.empty(), !HasReduction(dtype, op));
        if (whole.empty()) continue;
        EXPECT_NE(FindTwin(whole), nullptr) << whole;
        EXPECT_EQ(ChooseReduce(dtype, op, source_count).image, ImageOfKernel(whole));
        if (IsLocOp(op)) continue;
        const KernelChoice first = ChooseFirst(dtype, op, source_count);
        EXPECT_NE(FindTwin(first.name), nullptr) << whole;
        EXPECT_EQ(first.image, ImageOfKernel(first.name)) << first.name;
        const KernelChoice merge = ChooseMerge(dtype, op);
        EXPECT_EQ(merge.image, ImageOfKernel(merge.name)) << merge.name;
      }
    }
  }
  EXPECT_EQ(ChooseReduce(WEFT_BFLOAT16, WEFT_SUM, 8).name, "weft_reduce_bfloat16_sum_8");
  EXPECT_EQ(ChooseReduce(WEFT_INT32, WEFT_AVG, 3).name, "weft_reduce_int32_avg_any");
  EXPECT_EQ(ChooseReduce(WEFT_FLOAT32, kOpUser, 2).name, "");
}

TEST(MergeDepth, IsHowManyResultsWait) {
  const uint8_t balanced[] = {0, 1, 0, 2};
  EXPECT_EQ(device::MergeDepth(balanced, 4), 2);
  const uint8_t leaning[] = {0, 0, 0, 3};
  EXPECT_EQ(device::MergeDepth(leaning, 4), 3);
  const uint8_t chain[] = {0, 1, 1, 1};
  EXPECT_EQ(device::MergeDepth(chain, 4), 1);
}

}  // namespace
}  // namespace weft::test::twin_reduce_test
