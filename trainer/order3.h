// A byte model with three bytes of context, for comparison: what counting alone can do.
//
//   Order3Model model(train_text);
//   double nats = model.Loss(validation_text, i);      // -log p(text[i] | the three bytes before)
//
// Probabilities of contexts of 3, 2, 1 and 0 bytes are interpolated, either after Witten and Bell or
// by absolute discounting with Kneser-Ney counts; the trainer compares itself with the better one.
//
// Of a text that would take too long to count, parts are counted that come from all of it:
//
//   Order3Model model(SampleText(train_text, 16'000'000));
//
// Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_ORDER3_H_
#define WEFT_TRAINER_ORDER3_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace weft::trainer {

enum class Smoothing { kWittenBell, kKneserNey };

// Parts of a text, `bytes_max` bytes together, which is at least 1, and evenly spread over it; the whole
// of a text that is no longer. The same parts each time.
std::vector<std::string_view> SampleText(std::string_view text, size_t bytes_max);

class Order3Model {
 public:
  static constexpr size_t kOrder = 3;

  // `progress`, if it is there, is told now and then which part of the counting is done, from 0 to 1.
  explicit Order3Model(std::string_view train,
                       const std::function<void(double)>& progress = nullptr)
      : Order3Model(std::vector<std::string_view>{train}, progress) {}

  // Of several texts: no context reaches from one into the next.
  explicit Order3Model(const std::vector<std::string_view>& texts,
                       const std::function<void(double)>& progress = nullptr);

  // p(next | last bytes of `context`); sums to 1 over next.
  double Probability(std::string_view context, uint8_t next, Smoothing smoothing) const;
  // -log p(text[at]), in nats. Earlier bytes of `text` are the context.
  double Loss(std::string_view text, size_t at, Smoothing smoothing) const;

 private:
  // The followers of one context are successive entries of grams, ordered by the last byte.
  struct Gram {
    uint32_t key;    // context bytes and the follower, big end first
    uint32_t count;  // how often
    uint32_t types;  // how many different bytes stand before it (Kneser-Ney's count)
  };

  struct Table {
    std::vector<Gram> grams;
    double discount_count = 0;  // absolute discounts n1 / (n1 + 2 n2) of the two kinds of count
    double discount_types = 0;
  };

  double Blend(size_t order, uint32_t context, uint8_t next, Smoothing smoothing) const;

  std::array<Table, kOrder + 1> tables_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_ORDER3_H_
