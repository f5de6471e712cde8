#include "trainer/order3.h"

#include <algorithm>
#include <cmath>

namespace weft::trainer {
namespace {

// n1 / (n1 + 2 n2), where n1 and n2 are how many values are 1 and 2.
double Discount(size_t ones, size_t twos) {
  return ones == 0 ? 0.5 : double(ones) / double(ones + 2 * twos);
}

// As std::sort, which nobody can watch.
void SortInPieces(std::vector<uint32_t>& keys, const std::function<void(double)>& done) {
  constexpr size_t kPiece = size_t{1} << 20;
  constexpr double kSorting = 0.8;  // of the time; the rest is for merging
  const size_t count = keys.size();
  const auto at = [&](size_t i) {
    return keys.begin() + long(std::min(i, count));
  };
  for (size_t i = 0; i < count; i += kPiece) {
    std::sort(at(i), at(i + kPiece));
    done(kSorting * double(i) / double(count));
  }
  for (size_t piece = kPiece; piece < count; piece *= 2) {
    for (size_t i = 0; i < count; i += 2 * piece)
      std::inplace_merge(at(i), at(i + piece), at(i + 2 * piece));
    done(kSorting);
  }
}

}  // namespace

std::vector<std::string_view> SampleText(std::string_view text, size_t bytes_max) {
  constexpr size_t kPartBytes = 64 << 10;  // a few contexts are lost at its ends, of thousands
  if (text.size() <= bytes_max) return {text};
  const size_t parts = std::max<size_t>(bytes_max / kPartBytes, 1);
  const size_t bytes = bytes_max / parts;
  // The first part begins with the text, the last one ends with it, and no two have a byte in common.
  std::vector<std::string_view> sample;
  for (size_t i = 0; i < parts; i++) {
    const size_t begin = parts == 1 ? 0 : i * (text.size() - bytes) / (parts - 1);
    sample.push_back(text.substr(begin, bytes));
  }
  return sample;
}

Order3Model::Order3Model(const std::vector<std::string_view>& texts,
                         const std::function<void(double)>& progress) {
  size_t bytes = 0;
  for (const std::string_view text : texts)
    bytes += text.size();
  for (size_t order = kOrder + 1; order-- > 0;) {
    const auto done = [&](double part) {
      if (progress) progress((double(kOrder - order) + part) / double(kOrder + 1));
    };
    done(0);
    const uint32_t mask = order == kOrder ? ~uint32_t{0} : (uint32_t{1} << (8 * (order + 1))) - 1;
    std::vector<uint32_t> keys;
    keys.reserve(bytes);
    for (const std::string_view text : texts) {
      uint32_t key = 0;
      for (size_t i = 0; i < text.size(); i++) {
        key = ((key << 8) | uint8_t(text[i])) & mask;
        if (i >= order) keys.push_back(key);
      }
    }
    SortInPieces(keys, done);
    std::vector<Gram>& grams = tables_[order].grams;
    for (const uint32_t k : keys) {
      if (grams.empty() || grams.back().key != k) grams.push_back({k, 0, 0});
      grams.back().count++;
    }
    if (order == kOrder) {
      for (Gram& g : grams)
        g.types = g.count;  // the longest grams count themselves
    } else {
      for (const Gram& longer : tables_[order + 1].grams)
        std::ranges::lower_bound(grams, longer.key & mask, {}, &Gram::key)->types++;
    }
    std::array<size_t, 4> n{};
    for (const Gram& g : grams) {
      if (g.count <= 2) n[g.count - 1]++;
      if (g.types >= 1 && g.types <= 2) n[1 + g.types]++;
    }
    tables_[order].discount_count = Discount(n[0], n[1]);
    tables_[order].discount_types = Discount(n[2], n[3]);
  }
}

double Order3Model::Blend(size_t order, uint32_t context, uint8_t next, Smoothing smoothing) const {
  const double shorter =
      order == 0
          ? 1.0 / 256
          : Blend(order - 1, context & ((uint32_t{1} << (8 * (order - 1))) - 1), next, smoothing);
  const Table& table = tables_[order];
  const uint32_t first = context << 8;
  auto it = std::ranges::lower_bound(table.grams, first, {}, &Gram::key);
  double total = 0, distinct = 0, hit = 0;
  for (; it != table.grams.end() && (it->key >> 8) == context; ++it) {
    const double value = smoothing == Smoothing::kWittenBell ? it->count : it->types;
    total += value;
    distinct += value > 0;
    if (uint8_t(it->key) == next) hit = value;
  }
  if (total == 0) return shorter;
  if (smoothing == Smoothing::kWittenBell) return (hit + distinct * shorter) / (total + distinct);
  const double discount = order == kOrder ? table.discount_count : table.discount_types;
  return (std::max(hit - discount, 0.0) + discount * distinct * shorter) / total;
}

double Order3Model::Probability(std::string_view context, uint8_t next, Smoothing smoothing) const {
  const size_t order = std::min(context.size(), kOrder);
  uint32_t key = 0;
  for (const char c : context.substr(context.size() - order))
    key = (key << 8) | uint8_t(c);
  return Blend(order, key, next, smoothing);
}

double Order3Model::Loss(std::string_view text, size_t at, Smoothing smoothing) const {
  const size_t begin = at < kOrder ? 0 : at - kOrder;
  return -std::log(Probability(text.substr(begin, at - begin), uint8_t(text[at]), smoothing));
}

}  // namespace weft::trainer
