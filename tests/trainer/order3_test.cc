#include "trainer/order3.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trainer/random.h"

namespace weft::trainer::order3_test {
namespace {

const std::string kText = "abracadabra abracadabra; the cat sat on the mat, the rat ate the cat";

// The same models straight from their definitions, counting by substring.
class BruteForce {
 public:
  explicit BruteForce(const std::string& text) {
    for (size_t order = 0; order <= 3; order++) {
      for (size_t i = order; i < text.size(); i++) {
        counts_[order][text.substr(i - order, order)][text[i]]++;
        if (i > order) before_[text.substr(i - order, order + 1)].insert(text[i - order - 1]);
      }
    }
  }

  double WittenBell(const std::string& context, char next) const {
    const double shorter = context.empty() ? 1.0 / 256 : WittenBell(context.substr(1), next);
    const auto found = counts_[context.size()].find(context);
    if (found == counts_[context.size()].end()) return shorter;
    double total = 0;
    for (const auto& [byte, count] : found->second)
      total += count;
    const auto hit = found->second.find(next);
    const double types = double(found->second.size());
    return ((hit == found->second.end() ? 0 : hit->second) + types * shorter) / (total + types);
  }

  double KneserNey(const std::string& context, char next) const {
    const size_t order = context.size();
    const double shorter = order == 0 ? 1.0 / 256 : KneserNey(context.substr(1), next);
    const auto found = counts_[order].find(context);
    if (found == counts_[order].end()) return shorter;
    double total = 0, types = 0;
    for (const auto& [byte, count] : found->second) {
      const double value = Value(order, context, byte);
      total += value;
      types += value > 0;
    }
    if (total == 0) return shorter;
    const double discount = DiscountOf(order);
    const double hit = found->second.contains(next) ? Value(order, context, next) : 0;
    return (std::max(hit - discount, 0.0) + discount * types * shorter) / total;
  }

 private:
  double Value(size_t order, const std::string& context, char next) const {
    if (order == 3) return counts_[3].at(context).at(next);
    const auto found = before_.find(context + next);
    return found == before_.end() ? 0 : double(found->second.size());
  }

  double DiscountOf(size_t order) const {
    double ones = 0, twos = 0;
    for (const auto& [context, followers] : counts_[order]) {
      for (const auto& [byte, count] : followers) {
        ones += Value(order, context, byte) == 1;
        twos += Value(order, context, byte) == 2;
      }
    }
    return ones == 0 ? 0.5 : ones / (ones + 2 * twos);
  }

  std::map<std::string, std::map<char, double>> counts_[4];
  std::map<std::string, std::set<char>> before_;
};

TEST(Order3Model, EqualsTheDefinitionsOnASmallText) {
  const Order3Model model(kText);
  const BruteForce brute(kText);
  for (const std::string context :
       {"", "a", "br", "abr", "the", "he ", " ca", "zzz", "zab", "xx"}) {
    for (const char next : std::string("abcdert ,;z")) {
      EXPECT_NEAR(model.Probability(context, uint8_t(next), Smoothing::kWittenBell),
                  brute.WittenBell(context, next), 1e-12)
          << context << next;
      EXPECT_NEAR(model.Probability(context, uint8_t(next), Smoothing::kKneserNey),
                  brute.KneserNey(context, next), 1e-12)
          << context << next;
    }
  }
}

TEST(Order3Model, ProbabilitiesSumToOne) {
  const Order3Model model(kText);
  for (const Smoothing smoothing : {Smoothing::kWittenBell, Smoothing::kKneserNey}) {
    for (const std::string context : {"", "a", "abr", "cat", "\xff\xfe\xfd", "the"}) {
      double sum = 0;
      for (int next = 0; next < 256; next++) {
        const double p = model.Probability(context, uint8_t(next), smoothing);
        EXPECT_GT(p, 0);
        sum += p;
      }
      EXPECT_NEAR(sum, 1, 1e-12) << context;
    }
  }
}

TEST(Order3Model, UsesThreeBytesOfContextAndNoMore) {
  const Order3Model model(kText);
  EXPECT_EQ(model.Probability("xyzabr", 'a', Smoothing::kWittenBell),
            model.Probability("abr", 'a', Smoothing::kWittenBell));
  EXPECT_DOUBLE_EQ(model.Loss("abra", 3, Smoothing::kWittenBell),
                   -std::log(model.Probability("abr", 'a', Smoothing::kWittenBell)));
  EXPECT_DOUBLE_EQ(model.Loss("abra", 0, Smoothing::kWittenBell),
                   -std::log(model.Probability("", 'a', Smoothing::kWittenBell)));
}

TEST(Order3Model, NoTextMeansUniform) {
  const Order3Model model("");
  EXPECT_DOUBLE_EQ(model.Probability("abc", 'd', Smoothing::kWittenBell), 1.0 / 256);
  EXPECT_DOUBLE_EQ(model.Probability("abc", 'd', Smoothing::kKneserNey), 1.0 / 256);
}

TEST(SampleText, IsSpreadOverTheTextAndHasNoByteTwice) {
  constexpr size_t kPart = 64 << 10;
  for (const size_t bytes : {size_t{1}, kPart - 1, 2 * kPart, 10 * kPart + 1, size_t{1'000'003}}) {
    const std::string text(bytes, 'x');
    for (const size_t most :
         {size_t{1}, size_t{1000}, kPart, 2 * kPart + 5, bytes - 1, bytes, bytes + 1}) {
      if (most == 0) continue;
      const std::vector<std::string_view> sample = SampleText(text, most);
      size_t taken = 0;
      const char* end = text.data();
      for (const std::string_view part : sample) {
        ASSERT_GE(part.data(), end) << bytes << " " << most;
        end = part.data() + part.size();
        taken += part.size();
      }
      ASSERT_LE(end, text.data() + text.size());
      if (bytes <= most) {
        EXPECT_EQ(taken, bytes);
      } else {
        EXPECT_LE(taken, most);
        EXPECT_GT(taken + sample.size(), most);  // but for what does not divide
        EXPECT_EQ(sample.front().data(), text.data());
        if (sample.size() > 1) {
          EXPECT_EQ(end, text.data() + text.size());
        }
      }
    }
  }
  EXPECT_EQ(SampleText("", 10).size(), 1u);
}

TEST(Order3Model, OfSeveralTextsHasNoContextAcrossTheirEnds) {
  const Order3Model model(std::vector<std::string_view>{"xabc", "dxab", "", "z"});
  // "abc" is followed by nothing: what follows are the shorter contexts, which know no "cd" either.
  EXPECT_EQ(model.Probability("abc", 'd', Smoothing::kWittenBell),
            model.Probability("", 'd', Smoothing::kWittenBell));
  const Order3Model one("xabcdxabz");
  EXPECT_GT(one.Probability("abc", 'd', Smoothing::kWittenBell),
            2 * model.Probability("abc", 'd', Smoothing::kWittenBell));
}

// The parts have of a text what it has all over.
TEST(Order3Model, OfASampleIsNearlyThatOfTheText) {
  std::string text;
  for (uint64_t i = 0; text.size() < 3'000'000; i++)
    text += kText.substr(BitsAt(5, i) % 40, 1 + BitsAt(6, i) % 20);
  // The second half is of another kind: a sample from the beginning alone would know nothing of it.
  for (size_t i = text.size() / 2; i < text.size(); i++)
    text[i] = char(std::toupper(uint8_t(text[i])));
  const Order3Model all(text), sample(SampleText(text, 500'000)), same(SampleText(text, 500'000));
  const Order3Model beginning(std::string_view(text).substr(0, 500'000));
  double loss_of_all = 0, loss_of_sample = 0, loss_of_same = 0, loss_of_beginning = 0;
  for (size_t at = 0; at < text.size(); at += 997) {
    loss_of_all += all.Loss(text, at, Smoothing::kWittenBell);
    loss_of_sample += sample.Loss(text, at, Smoothing::kWittenBell);
    loss_of_same += same.Loss(text, at, Smoothing::kWittenBell);
    loss_of_beginning += beginning.Loss(text, at, Smoothing::kWittenBell);
  }
  EXPECT_NEAR(loss_of_sample / loss_of_all, 1, 0.05);
  EXPECT_GT(loss_of_beginning / loss_of_all, 1.2);
  EXPECT_EQ(loss_of_same, loss_of_sample);
}

// A text of several pieces: their number and the share that is told change nothing of the model.
TEST(Order3Model, SaysHowFarItIsAndCountsTheSame) {
  std::string text;
  for (uint64_t i = 0; text.size() < (size_t{2} << 20) + 12345; i++)
    text += kText.substr(BitsAt(1, i) % 40, 1 + BitsAt(2, i) % 20);
  std::vector<double> shares;
  const Order3Model model(text, [&](double share) { shares.push_back(share); });
  EXPECT_GT(shares.size(), 8u);
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.front(), 0);
  EXPECT_LT(shares.back(), 1);
  // What follows "cat", by counting: the context of three bytes alone, without the shorter ones.
  std::map<char, double> after;
  double total = 0;
  for (size_t i = 0; i + 3 < text.size(); i++) {
    if (text.compare(i, 3, "cat") != 0) continue;
    after[text[i + 3]]++;
    total++;
  }
  ASSERT_GT(total, 1000);
  for (const auto& [next, count] : after) {
    EXPECT_NEAR(model.Probability("cat", uint8_t(next), Smoothing::kWittenBell), count / total,
                double(after.size()) / total);
  }
}

}  // namespace
}  // namespace weft::trainer::order3_test
