#include "tests/gpu/kernel_cases.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "comm/device/element/merge.h"
#include "comm/kernels/dtype.h"
#include "tests/comm/kernels/reference.h"
#include "tests/gpu/parameter_bytes.h"

namespace weft::test {
namespace {

constexpr int kSourceCounts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 33, 64};
// 6007 elements are several blocks of threads.
constexpr size_t kCounts[] = {0, 1, 5, 16, 127, 128, 1021, 6007};
constexpr size_t kSmallCounts[] = {1, 131};
constexpr size_t kManySources = 16;  // from here on arrays are shorter
constexpr size_t kPoolElements = 16384;
constexpr int kShiftKinds = 3;

size_t RowOf(weft_dtype_t dtype) {
  return static_cast<size_t>(std::find(std::begin(kDtypes), std::end(kDtypes), dtype) -
                             std::begin(kDtypes));
}

}  // namespace

KernelCases::KernelCases(uint32_t seed, const CaseOptions& options)
    : random_(seed), options_(options), pools_(std::size(kDtypes)) {
  for (const weft_dtype_t dtype : kDtypes) {
    Elements elements = SpecialElements(dtype);
    const Elements more = RandomElements(dtype, kPoolElements, random_);
    elements.insert(elements.end(), more.begin(), more.end());
    pools_[RowOf(dtype)] = PackElements(dtype, elements);
  }
}

void KernelCases::ForEach(const Take& take) {
  Reductions(take);
  Merges(take);
  LocatedValues(take);
  Casts(take);
  Pieces(take);
  Fills(take);
  Digests(take);
  Squares(take);
  Updates(take);
  LambMoments(take);
}

size_t KernelCases::DrawCount(int source_count) {
  if (options_.small) return kSmallCounts[Draw(std::size(kSmallCounts))];
  const bool many = static_cast<size_t>(source_count) >= kManySources;
  return kCounts[Draw(std::size(kCounts) - (many ? 1 : 0))];
}

size_t KernelCases::DrawShift(int kind) {
  if (kind == 0) return 0;
  return kind == 1 ? 3 : Draw(16);
}

std::vector<char> KernelCases::DrawElements(weft_dtype_t dtype, size_t count) {
  const std::vector<char>& pool = pools_[RowOf(dtype)];
  const size_t element_bytes = DtypeSize(dtype);
  const size_t first = Draw(pool.size() / element_bytes - count + 1);
  const auto begin = pool.begin() + static_cast<ptrdiff_t>(first * element_bytes);
  return {begin, begin + static_cast<ptrdiff_t>(count * element_bytes)};
}

std::vector<char> KernelCases::DrawBytes(size_t count) {
  std::vector<char> bytes(count);
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random_()); });
  return bytes;
}

void KernelCases::DrawLaunch(KernelCase& one) {
  constexpr unsigned kBlocks[] = {1, 2, 7};
  constexpr unsigned kThreads[] = {32, 128, 256};
  one.blocks = kBlocks[Draw(std::size(kBlocks))];
  one.threads = kThreads[Draw(std::size(kThreads))];
}

void KernelCases::Reduce(const Reduction& reduction, const Take& take) {
  const KernelChoice& kernel = reduction.kernel;
  const auto source_count = static_cast<size_t>(reduction.source_count);
  for (int round = 0; round < options_.rounds; ++round) {
    KernelCase one;
    one.check = reduction.check;
    one.kernel = kernel.name;
    DrawLaunch(one);
    const size_t count = DrawCount(reduction.source_count);
    const int shift_kind = static_cast<int>(Draw(kShiftKinds));
    device::ReduceParameters parameters = {};
    parameters.divisor = reduction.source_count + 3;
    parameters.source_count = reduction.source_count;
    const Elements factors = Factors(reduction.factors, source_count);
    std::copy(factors.begin(), factors.end(), parameters.factors);
    if (reduction.merges) {
      const std::vector<uint8_t> merges = RandomMerges(reduction.source_count, random_);
      std::copy(merges.begin(), merges.end(), parameters.merges);
      constexpr unsigned kSharedBytes = 48 << 10;  // that every kernel may have
      const auto depth =
          static_cast<unsigned>(device::MergeDepth(parameters.merges, reduction.source_count));
      while (one.threads > 32 && one.threads * depth * 16 > kSharedBytes)
        one.threads /= 2;
      one.shared_bytes = one.threads * depth * 16;
    }
    std::vector<size_t> sources;
    for (size_t s = 0; s < source_count; ++s) {
      sources.push_back(one.arena.Add(DrawElements(reduction.from, count),
                                      DrawShift(shift_kind) * kernel.source_bytes));
    }
    const bool in_place = kernel.source_bytes == kernel.result_bytes && Draw(4) == 0;
    parameters.destination_count = in_place ? 1 : static_cast<int>(1 + 2 * Draw(2));
    std::vector<size_t> destinations = {sources.back()};
    if (!in_place) {
      destinations.clear();
      for (int d = 0; d < parameters.destination_count; ++d) {
        destinations.push_back(one.arena.Add(std::vector<char>(count * kernel.result_bytes),
                                             DrawShift(shift_kind) * kernel.result_bytes));
      }
    }
    one.what = StrCat(source_count, " sources, ", count, " elements, shifts ", shift_kind, ", ",
                      in_place ? "in place" : StrCat(destinations.size(), " destinations"));
    const Arena arena = one.arena;
    one.parameters = [=](char* base) mutable {
      for (size_t s = 0; s < sources.size(); ++s)
        parameters.sources[s] = arena.At(base, sources[s]);
      for (size_t d = 0; d < destinations.size(); ++d)
        parameters.destinations[d] = arena.At(base, destinations[d]);
      parameters.range = PacketsOf(kernel, parameters, count);
      return ParameterBytes(parameters);
    };
    take(one);
  }
}

void KernelCases::Reductions(const Take& take) {
  for (const weft_dtype_t dtype : kDtypes) {
    for (const weft_op_t op : OpsOf(dtype)) {
      for (const int source_count : kSourceCounts) {
        Reduce({"reduce", ChooseReduce(dtype, op, source_count), dtype, dtype, source_count, false},
               take);
        if (AccumulatorDtype(dtype, op) == dtype || !RoundsOnTheWay(dtype, op)) continue;
        Reduce({"first", ChooseFirst(dtype, op, source_count), dtype, dtype, source_count, false},
               take);
      }
    }
  }
}

void KernelCases::Merges(const Take& take) {
  for (const weft_dtype_t dtype : kDtypes) {
    for (const weft_op_t op : OpsOf(dtype)) {
      const KernelChoice kernel = ChooseMerge(dtype, op);
      if (kernel.name.empty()) continue;
      const weft_dtype_t accumulator = AccumulatorDtype(dtype, op);
      for (const int source_count : kSourceCounts)
        Reduce({"merge", kernel, accumulator, dtype, source_count, true}, take);
    }
  }
}

void KernelCases::LocatedValues(const Take& take) {
  for (const weft_dtype_t dtype : kDtypes) {
    if (dtype == WEFT_BOOL) continue;
    const Elements special = SpecialElements(dtype);
    for (const weft_op_t op : {WEFT_MIN_LOC, WEFT_MAX_LOC}) {
      for (int round = 0; round < 2 * options_.rounds; ++round) {
        const int source_count = kSourceCounts[Draw(std::size(kSourceCounts))];
        KernelCase one;
        one.check = "located";
        const KernelChoice kernel = ChooseReduce(dtype, op, source_count);
        one.kernel = kernel.name;
        DrawLaunch(one);
        const size_t count = std::min<size_t>(DrawCount(source_count), 1021);
        const size_t shift = 8 * Draw(2);
        std::vector<size_t> pieces;
        for (int s = 0; s < source_count; ++s) {
          std::vector<char> pairs(count * kLocBytes, '\x3c');
          for (size_t i = 0; i < count; ++i) {
            const uint64_t bits = special[Draw(special.size())];
            const auto index = static_cast<int64_t>(Draw(5)) - 2;
            std::memcpy(&pairs[i * kLocBytes], &bits, DtypeSize(dtype));
            std::memcpy(&pairs[i * kLocBytes + 8], &index, 8);
          }
          pieces.push_back(one.arena.Add(pairs, shift));
        }
        pieces.push_back(one.arena.Add(std::vector<char>(count * kLocBytes), shift));
        one.what = StrCat(source_count, " sources, ", count, " elements, shift ", shift);
        const Arena arena = one.arena;
        one.parameters = [=](char* base) {
          device::ReduceParameters parameters = {};
          parameters.source_count = source_count;
          parameters.destination_count = 1;
          for (size_t s = 0; s + 1 < pieces.size(); ++s)
            parameters.sources[s] = arena.At(base, pieces[s]);
          parameters.destinations[0] = arena.At(base, pieces.back());
          parameters.range = PacketsOf(kernel, parameters, count);
          return ParameterBytes(parameters);
        };
        take(one);
      }
    }
  }
}

}  // namespace weft::test
