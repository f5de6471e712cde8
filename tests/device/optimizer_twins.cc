// Twins of the kernels of optimizers.
#include <iterator>

#include "shard/optimizer/device/kernel_list.h"
#include "shard/optimizer/device/lamb_moments.h"
#include "shard/optimizer/device/update.h"
#include "tests/device/twin_table.h"

namespace weft::test {
namespace {

using namespace weft::device;  // NOLINT(google-build-using-namespace)

template <typename G>
void MomentsOfLamb(const void* given, const TwinLaunch& launch) {
  const auto& parameters = *static_cast<const LambMomentsParameters*>(given);
  const uint64_t first = parameters.first_index / kSquareBlockElements;
  for (uint64_t block = first + launch.part; block < EndLambBlock(parameters);
       block += launch.parts) {
    Packet<double, kLambOwn> weights[kLambThreads];
    Packet<double, kLambOwn> updates[kLambThreads];
    for (int member = 0; member < kLambThreads; ++member) {
      const LambPartials partials = UpdateMoments<G>(parameters, block, member);
      weights[member] = partials.weights;
      updates[member] = partials.updates;
    }
    AddToWords(FoldPartials<kLambOwn>(weights),
               [&](int word, int64_t part) { parameters.weight_words[word] += part; });
    AddToWords(FoldPartials<kLambOwn>(updates),
               [&](int word, int64_t part) { parameters.update_words[word] += part; });
  }
}

#define WEFT_UPDATE_TWIN(name, Step, Update, G)                         \
  {"update", #name, sizeof(UpdateParameters<Step>),                     \
   [](const void* parameters, const TwinLaunch& launch) {               \
     RunThreads<UpdateParameters<Step>>(parameters, launch, Update<G>); \
   }},
#define WEFT_LAMB_TWIN(name, G) \
  {"lamb_moments", #name, sizeof(LambMomentsParameters), MomentsOfLamb<G>},

constexpr TwinEntry kTwins[] = {
    WEFT_UPDATE_KERNELS(WEFT_UPDATE_TWIN) WEFT_LAMB_MOMENTS_KERNELS(WEFT_LAMB_TWIN){
        "update", "weft_lamb_apply", sizeof(UpdateParameters<LambStep>),
        [](const void* parameters, const TwinLaunch& launch) {
          RunThreads<UpdateParameters<LambStep>>(
              parameters, launch,
              [](const UpdateParameters<LambStep>& of, const Worker& by) { ApplyByLamb(of, by); });
        }},
};

}  // namespace

TwinPart OptimizerTwins() {
  return {kTwins, std::size(kTwins)};
}

}  // namespace weft::test
