#include "comm/device/kernel_choice.h"

#include "base/text.h"
#include "comm/device/element/merge.h"
#include "comm/device/packet_range.h"
#include "comm/kernels/dtype.h"

namespace weft {
namespace {

bool IsTrainedIn(weft_dtype_t dtype) {
  return dtype == WEFT_FLOAT32 || dtype == WEFT_BFLOAT16 || dtype == WEFT_FLOAT16;
}

bool IsCommon(int source_count) {
  return source_count == 2 || source_count == 4 || source_count == 8;
}

// Whether there is a kernel for this count alone.
bool IsUnrolled(weft_dtype_t dtype, weft_op_t op, int source_count) {
  if (IsTrainedIn(dtype) && op == WEFT_SUM) return source_count >= 2 && source_count <= 8;
  return IsCommon(source_count) && (op == WEFT_SUM || IsTrainedIn(dtype));
}

// As cuda_module.h has the sources of kernels/reduce_*.cu.
std::string ReduceImage(weft_dtype_t dtype) {
  return StrCat("reduce_", IsFloatingDtype(dtype) ? DtypeName(dtype) : "integer");
}

KernelChoice OfSources(std::string name, weft_dtype_t from, weft_dtype_t to, bool unrolled,
                       int source_count) {
  name += unrolled ? StrCat("_", source_count) : "_any";
  return {ReduceImage(from), std::move(name),
          static_cast<size_t>(device::ReduceWidth(DtypeSize(from), !unrolled)), DtypeSize(from),
          DtypeSize(to)};
}

weft_dtype_t Unsigned(weft_dtype_t dtype) {
  switch (dtype) {
    case WEFT_INT8:
      return WEFT_UINT8;
    case WEFT_INT32:
      return WEFT_UINT32;
    case WEFT_INT64:
      return WEFT_UINT64;
    default:
      return dtype;
  }
}

bool IsOrdered(weft_op_t op) {
  return op == WEFT_MAX || op == WEFT_MIN || op == WEFT_AVG;
}

// Booleans have the operations of bits only.
weft_op_t OfBits(weft_op_t op) {
  switch (op) {
    case WEFT_SUM:
    case WEFT_MAX:
      return WEFT_BIT_OR;
    case WEFT_PROD:
    case WEFT_MIN:
      return WEFT_BIT_AND;
    default:
      return op;
  }
}

}  // namespace

KernelChoice ChooseReduce(weft_dtype_t dtype, weft_op_t op, int source_count) {
  if (op == kOpUser || !HasReduction(dtype, op)) return {};
  if (IsLocOp(op))
    return {"located", StrCat("weft_", OpName(op), "_", DtypeName(dtype)), 1, kLocBytes, kLocBytes};
  if (dtype == WEFT_BOOL) op = OfBits(op);
  if (!IsOrdered(op)) dtype = Unsigned(dtype);
  return OfSources(StrCat("weft_reduce_", DtypeName(dtype), "_", OpName(op)), dtype, dtype,
                   IsUnrolled(dtype, op, source_count), source_count);
}

KernelChoice ChooseFirst(weft_dtype_t dtype, weft_op_t op, int source_count) {
  if (op == WEFT_AVG) op = WEFT_SUM;
  const weft_dtype_t accumulator = AccumulatorDtype(dtype, op);
  if (accumulator == dtype) return ChooseReduce(dtype, op, source_count);
  return OfSources(StrCat("weft_first_", DtypeName(dtype), "_", OpName(op)), dtype, accumulator,
                   op == WEFT_SUM && IsTrainedIn(dtype) && IsCommon(source_count), source_count);
}

KernelChoice ChooseMerge(weft_dtype_t dtype, weft_op_t op) {
  if (op == kOpPremulSum) op = WEFT_SUM;
  if (!RoundsOnTheWay(dtype, op)) return {};
  const size_t accumulator_bytes = DtypeSize(AccumulatorDtype(dtype, op));
  return {"merge", StrCat("weft_merge_", OpName(op), "_", DtypeName(dtype)),
          static_cast<size_t>(device::MergeWidth(accumulator_bytes)), accumulator_bytes,
          DtypeSize(dtype)};
}

KernelChoice ChooseCast(weft_dtype_t from, weft_dtype_t to) {
  if (!IsFloatingDtype(from) || !IsFloatingDtype(to)) return {};
  return {"copy", StrCat("weft_cast_", DtypeName(from), "_", DtypeName(to)),
          static_cast<size_t>(device::CastWidth(DtypeSize(from), DtypeSize(to))), DtypeSize(from),
          DtypeSize(to)};
}

std::string SquaresKernel(weft_dtype_t dtype) {
  if (!IsFloatingDtype(dtype) || DtypeSize(dtype) < 2) return "";
  return StrCat("weft_squares_", DtypeName(dtype));
}

device::PacketRange PacketsOf(const KernelChoice& choice,
                              const device::ReduceParameters& parameters, uint64_t count) {
  CommonAlignment alignment;
  for (int s = 0; s < parameters.source_count; ++s)
    alignment.Add(parameters.sources[s], PacketAccess(choice.source_bytes, choice.width));
  for (int d = 0; d < parameters.destination_count; ++d)
    alignment.Add(parameters.destinations[d], PacketAccess(choice.result_bytes, choice.width));
  return alignment.RangeOf(count, choice.width);
}

device::PacketRange PacketsOf(const KernelChoice& choice, const device::CastParameters& parameters,
                              uint64_t count) {
  CommonAlignment alignment;
  alignment.Add(parameters.source, PacketAccess(choice.source_bytes, choice.width));
  alignment.Add(parameters.destination, PacketAccess(choice.result_bytes, choice.width));
  return alignment.RangeOf(count, choice.width);
}

device::PacketRange PacketsOf(const device::FillParameters& parameters, uint64_t bytes) {
  CommonAlignment alignment;
  alignment.Add(parameters.destination, PacketAccess(1, 16));
  return alignment.RangeOf(bytes, 16);
}

}  // namespace weft
