// Twins of reductions.
#include <iterator>

#include "comm/device/element/reduce.h"
#include "comm/device/kernels/kernel_list.h"
#include "tests/device/twin_table.h"

namespace weft::test {
namespace {

// The names of elements and operations, as kernel_list.h has them.
using namespace weft::device;  // NOLINT(google-build-using-namespace)

// Of the source that has the kernels of an element type.
template <typename E>
constexpr const char* kImage = "reduce_integer";
template <>
constexpr const char* kImage<Float32> = "reduce_float32";
template <>
constexpr const char* kImage<Float64> = "reduce_float64";
template <>
constexpr const char* kImage<Float16> = "reduce_float16";
template <>
constexpr const char* kImage<Bfloat16> = "reduce_bfloat16";
template <>
constexpr const char* kImage<Float8E4m3> = "reduce_float8_e4m3";
template <>
constexpr const char* kImage<Float8E5m2> = "reduce_float8_e5m2";

#define WEFT_TWIN(name, E, Op, kSources, Out)                                               \
  {kImage<E>, #name, sizeof(ReduceParameters),                                              \
   [](const void* parameters, const TwinLaunch& launch) {                                   \
     RunThreads<ReduceParameters>(parameters, launch, ReduceSources<E, Op, kSources, Out>); \
   }},

constexpr TwinEntry kTwins[] = {WEFT_REDUCE_KERNELS(WEFT_TWIN)};

}  // namespace

TwinPart ReduceTwins() {
  return {kTwins, std::size(kTwins)};
}

}  // namespace weft::test
