#include "trainer/evaluation.h"

#include <algorithm>

namespace weft::trainer {
namespace {

// Well below a second of a slow core. A forward of more of them is one look.
constexpr double kFlopsBetweenLooks = 4e9;
constexpr double kForwardsBetweenLooksMax = 16;

}  // namespace

size_t ForwardsBetweenLooks(const ModelConfig& config, size_t tokens) {
  const double forward = FlopsPerToken(config) / 3 * double(tokens);  // backward has twice as many
  return size_t(std::clamp(kFlopsBetweenLooks / forward, 1.0, kForwardsBetweenLooksMax));
}

std::vector<size_t> SpreadWindows(size_t text_tokens, size_t seq, size_t count) {
  const size_t windows = text_tokens == 0 ? 0 : (text_tokens - 1) / seq;
  count = std::min(count, windows);
  std::vector<size_t> offsets;
  for (size_t i = 0; i < count; i++)
    offsets.push_back(i * windows / count * seq);
  return offsets;
}

Evaluation::Evaluation(const ModelConfig& config, size_t micro_batch, DataParallel& parallel,
                       Model<float>& model)
    : config_(config),
      micro_batch_(micro_batch),
      parallel_(parallel),
      model_(model),
      batch_(config.seq, micro_batch) {}

std::optional<double> Evaluation::MeanLoss(const TokenText& text,
                                           const std::vector<size_t>& offsets,
                                           Activations<float>& kept,
                                           const std::function<bool()>& asked_to_end) {
  const size_t skip = ContextTokens(config_.seq);
  const size_t begin = offsets.size() * parallel_.rank() / parallel_.size();
  const size_t end = offsets.size() * (parallel_.rank() + 1) / parallel_.size();
  double loss = 0;
  // Every rank makes the same number of calls: a strategy that gathers parameters needs that.
  const size_t longest = (offsets.size() + parallel_.size() - 1) / parallel_.size();
  const size_t batches = (longest + micro_batch_ - 1) / micro_batch_;
  const size_t look_every = ForwardsBetweenLooks(config_, micro_batch_ * config_.seq);
  for (size_t first = 0; first < batches; first += look_every) {
    if (first > 0 && asked_to_end()) return std::nullopt;
    const size_t count = std::min(look_every, batches - first);
    parallel_.BeginEvaluation(count);
    for (size_t b = first; b < first + count; b++) {
      const size_t from = std::min(end, begin + b * micro_batch_);
      const std::vector<size_t> some(offsets.begin() + long(from),
                                     offsets.begin() + long(std::min(end, from + micro_batch_)));
      batch_.Fill(text, some);
      parallel_.BeginMicrobatch(b - first, b + 1 == first + count);
      // A rank that has run out computes something all the same and does not count it.
      const double sum = model_.Score(batch_.inputs(), batch_.targets(),
                                      std::max<size_t>(1, some.size()), skip, kept);
      if (!some.empty()) loss += sum;
      parallel_.EndMicrobatch();
    }
    parallel_.Finish();
    parallel_.EndStep();
  }
  return parallel_.Sum(loss) / double(offsets.size() * (config_.seq - skip));
}

}  // namespace weft::trainer
