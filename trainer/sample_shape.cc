// What costs accuracy is given up last: first layers above two, since a line through two counts of
// layers tells the rest, then sequences of a micro-batch, then the second layer, and positions of a
// sequence at the end.
#include "trainer/sample_shape.h"

#include <algorithm>

#include "trainer/model.h"

namespace weft::trainer {
namespace {

constexpr size_t kRanksMost = 8;
constexpr size_t kFewestPositions = 64;
// Of a step of each model, one after the other: there is a warm-up, and two rounds at least.
constexpr double kRoundSeconds = 1.1;
// A step's time over that of its products alone, and the bytes per second of an update and its
// exchange. For choosing only: what is predicted is measured.
constexpr double kBesideProducts = 1.4;
constexpr double kUpdateBytesPerS = 4e9;
// Of all ranks. Two layers of a wide model take more; they are tried out all the same if they leave
// most of what is free, and if values for them can be drawn within the time.
constexpr double kUsualBytes = 256e6;
constexpr double kMostBytes = 3e9;
constexpr double kFreePart = 0.25;
// Of a parameter: weight, gradient and two moments, and the first two once more in the pool.
constexpr double kBytesPerParameter = 24;

SampleShape WithLayers(SampleShape shape, size_t layers, size_t all_layers) {
  shape.layers = layers;
  shape.fewer_layers = layers < all_layers ? layers / 2 : 0;
  return shape;
}

// What trying out a shape takes, roughly.
class Cost {
 public:
  Cost(const TrainConfig& config, double flops_per_s)
      : config_(config), flops_per_s_(flops_per_s) {}

  double Bytes(const SampleShape& s) const {
    double bytes = 0;
    ForEachModel(s, [&](const ModelConfig& model, size_t) {
      bytes += ParameterBytes(model) + double(WorkingBytes(model, s.sequences, config_.recompute,
                                                           InputTypeOf(config_.precision)));
    });
    return bytes * double(s.ranks);
  }

  // Of one step of each model.
  double Seconds(const SampleShape& s) const {
    double seconds = 0;
    ForEachModel(s, [&](const ModelConfig& model, size_t microbatches) {
      const double tokens = double(microbatches * s.sequences * s.seq);
      seconds += kBesideProducts * tokens * FlopsPerToken(model) / flops_per_s_ +
                 ParameterBytes(model) / kUpdateBytesPerS;
    });
    return seconds;
  }

 private:
  template <typename Visit>
  void ForEachModel(const SampleShape& s, const Visit& visit) const {
    ModelConfig model = config_.model;
    model.seq = s.seq;
    model.layers = s.layers;
    visit(model, 1);
    if (config_.accumulate > 1) visit(model, 2);
    model.layers = s.fewer_layers;
    if (s.fewer_layers > 0) visit(model, 1);
  }

  static double ParameterBytes(const ModelConfig& model) {
    return kBytesPerParameter * double(ParameterCount(ModelUnits(model)));
  }

  const TrainConfig& config_;
  const double flops_per_s_;
};

}  // namespace

double Placement::Sharing(size_t local_ranks, int threads) const {
  return std::max(1.0, double(local_ranks) * double(threads) / double(cores));
}

size_t SampleRanks(const TrainConfig& config, const Placement& placement) {
  const size_t local = std::min(placement.ranks, placement.ranks_per_machine);
  const size_t with_cores = std::max<size_t>(1, placement.cores / size_t(config.threads));
  return std::min({local, std::max<size_t>(2, with_cores), kRanksMost});
}

std::optional<SampleShape> ChooseSampleShape(const TrainConfig& config, const Placement& placement,
                                             double flops_per_s, uint64_t free_bytes) {
  const Cost cost(config, flops_per_s);
  const double most = std::min(kMostBytes, kFreePart * double(free_bytes));
  const double usual = std::min(kUsualBytes, most);
  const auto fits = [&](const SampleShape& s, double bytes) {
    return cost.Seconds(s) <= kRoundSeconds && cost.Bytes(s) <= bytes;
  };
  const size_t all = config.model.layers;
  SampleShape whole;
  whole.ranks = SampleRanks(config, placement);
  whole.all_ranks = whole.ranks == placement.ranks;
  whole.sequences = LargestMicroBatch(config, placement.ranks);
  whole.seq = config.model.seq;
  for (size_t layers = all; layers > 2; layers--) {
    const SampleShape s = WithLayers(whole, layers, all);
    if (fits(s, usual)) return s;
  }
  for (size_t layers = std::min<size_t>(2, all); layers > 0; layers--) {
    SampleShape s = WithLayers(whole, layers, all);
    for (; s.sequences > 0; s.sequences /= 2) {
      if (fits(s, most)) return s;
    }
  }
  SampleShape least = WithLayers(whole, 1, all);
  least.sequences = 1;
  while (cost.Seconds(least) > kRoundSeconds && least.seq > kFewestPositions)
    least.seq = std::max(kFewestPositions, least.seq / 2);
  if (cost.Bytes(least) > most) return std::nullopt;
  return least;
}

TrainConfig SampleConfig(const TrainConfig& config, const SampleShape& shape, size_t layers,
                         size_t microbatches) {
  TrainConfig sample = config;
  sample.model.layers = layers;
  sample.model.seq = shape.seq;
  sample.accumulate = microbatches;
  sample.global_batch = shape.ranks * microbatches * shape.sequences;
  const bool groups = HasGroups(config.strategy) && !shape.all_ranks;
  if (groups || config.strategy == WEFT_SHARD_FRACTION) sample.strategy = WEFT_SHARD_FULL_SHARD;
  if (groups) sample.shard_group = 0;
  sample.memory_budget = 0;  // it is the whole model's
  sample.offload.clear();
  sample.offload_params = false;
  sample.elastic = false;
  sample.verify_every = 0;
  sample.check_samples = 0;
  sample.nonfinite_steps = kStepsMax;
  return sample;
}

}  // namespace weft::trainer
