// Twins of reductions.
#include <iterator>

#include "comm/device/element/reduce.h"
#include "comm/device/kernels/kernel_list.h"
#include "tests/device/twin_table.h"

namespace weft::test {
namespace {

// The names of elements and operations, as kernel_list.h has them.
using namespace weft::device;  // NOLINT(google-build-using-namespace)

#define WEFT_TWIN(name, E, Op, kSources, Out)                                               \
  {#name, sizeof(ReduceParameters), [](const void* parameters, const TwinLaunch& launch) {  \
     RunThreads<ReduceParameters>(parameters, launch, ReduceSources<E, Op, kSources, Out>); \
   }},

constexpr TwinEntry kTwins[] = {WEFT_REDUCE_KERNELS(WEFT_TWIN)};

}  // namespace

TwinPart ReduceTwins() {
  return {kTwins, std::size(kTwins)};
}

}  // namespace weft::test
