#include "comm/engine/unit_arithmetic.h"

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce_stage.h"

namespace weft {
namespace {

// Where elements become accumulators on the way: so many at a time, so that they stay in the nearest cache.
constexpr size_t kTileUnits = 1024;

void Call(ReduceKernel kernel, std::span<const void* const> sources, void* to, size_t count,
          int64_t divisor, const uint8_t* merges) {
  kernel({.sources = sources.data(),
          .source_count = static_cast<int>(sources.size()),
          .destinations = &to,
          .destination_count = 1,
          .count = count,
          .divisor = divisor,
          .merges = merges});
}

}  // namespace

UnitArithmetic UnitArithmetic::Of(Isa isa, weft_dtype_t dtype, weft_op_t op, int ranks) {
  UnitArithmetic arithmetic(ElementBytes(dtype, op));
  arithmetic.accumulator_bytes_ = ElementBytes(AccumulatorDtype(dtype, op), op);
  arithmetic.ranks_ = ranks;
  arithmetic.whole_ = FindReduceKernel(isa, dtype, op, ReduceStage::kWhole);
  arithmetic.first_ = FindReduceKernel(isa, dtype, op, ReduceStage::kFirst);
  arithmetic.middle_ = FindReduceKernel(isa, dtype, op, ReduceStage::kMiddle);
  arithmetic.last_ = FindReduceKernel(isa, dtype, op, ReduceStage::kLast);
  WEFT_CHECK(arithmetic.whole_ != nullptr);
  return arithmetic;
}

UnitArithmetic UnitArithmetic::OfUser(const CustomOp& op, weft_dtype_t dtype) {
  UnitArithmetic arithmetic(op.element_count * DtypeSize(dtype));
  arithmetic.user_ = &op;
  arithmetic.dtype_ = dtype;
  return arithmetic;
}

void UnitArithmetic::Add(SumStage stage, UnitForm form, std::span<const UnitSource> sources,
                         std::span<const uint8_t> merges, std::byte* to, size_t count) const {
  WEFT_CHECK(sources.size() <= static_cast<size_t>(kSourcesMax));
  const auto raw = [](const UnitSource& source) {
    return source.form == UnitForm::kElement;
  };
  const bool final = stage == SumStage::kFinal;
  const uint8_t* const tree = merges.empty() ? nullptr : merges.data();
  const void* pointers[kSourcesMax];
  const std::span<const void* const> all(pointers, sources.size());
  if (user_ != nullptr) {
    for (size_t i = 0; i < sources.size(); ++i)
      pointers[i] = sources[i].units;
    void* result = to;
    ReduceByUser(*user_, dtype_,
                 {.sources = pointers,
                  .source_count = static_cast<int>(sources.size()),
                  .destinations = &result,
                  .destination_count = 1,
                  .count = count,
                  .divisor = 0,
                  .merges = tree});
    return;
  }
  if (merges.empty() && std::all_of(sources.begin(), sources.end(), raw)) {
    for (size_t i = 0; i < sources.size(); ++i)
      pointers[i] = sources[i].units;
    Call(final ? whole_ : first_, all, to, count, final ? ranks_ : 0, nullptr);
    return;
  }
  const bool same_form = accumulator_bytes_ == element_bytes_;
  const auto widened =
      static_cast<size_t>(same_form ? 0 : std::count_if(sources.begin(), sources.end(), raw));
  std::vector<std::byte> tiles(widened * kTileUnits * accumulator_bytes_);
  const size_t step = widened == 0 ? count : kTileUnits;
  const size_t to_bytes = BytesOf(final ? UnitForm::kElement : form);
  for (size_t done = 0; done < count; done += step) {
    const size_t units = std::min(step, count - done);
    std::byte* tile = tiles.data();
    for (size_t i = 0; i < sources.size(); ++i) {
      const std::byte* const from = sources[i].units + done * BytesOf(sources[i].form);
      pointers[i] = from;
      if (same_form || !raw(sources[i])) continue;
      const void* const one = from;
      Call(first_, std::span(&one, 1), tile, units, 0, nullptr);
      pointers[i] = tile;
      tile += kTileUnits * accumulator_bytes_;
    }
    Call(final ? last_ : middle_, all, to + done * to_bytes, units, final ? ranks_ : 0, tree);
  }
}

}  // namespace weft
