#include "trainer/curve.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "trainer/reports/line_chart.h"

namespace weft::trainer::curve_test {
namespace {

Curve Falling() {
  Curve curve;
  for (int i = 1; i <= 1000; i++)
    curve.train.push_back({double(i), 1 + 4.0 / i});
  curve.validation = {{500, 1.5}, {1000, 1.2}};
  curve.order3 = 1.3;
  return curve;
}

TEST(Ticks, AreRoundAndFewAndInside) {
  EXPECT_EQ(Ticks(0, 1000, 8), (std::vector<double>{0, 200, 400, 600, 800, 1000}));
  EXPECT_EQ(Ticks(0, 5, 5), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Ticks(0, 5, 2), (std::vector<double>{0, 5}));
  for (const double high : {0.003, 0.7, 1.0, 3.3, 99.0, 12345.0}) {
    const auto ticks = Ticks(0, high, 7);
    EXPECT_GE(ticks.size(), 2u) << high;
    EXPECT_LE(ticks.size(), 8u) << high;
    EXPECT_LE(ticks.back(), high * (1 + 1e-9));
  }
  EXPECT_TRUE(Ticks(1, 1, 5).empty());
}

TEST(CurveSvg, HasBothCurvesTheLineAndEscapedText) {
  const std::string svg = CurveSvg(Falling(), "a < b", "c & d", "byte");
  EXPECT_EQ(svg.find("<svg"), 0u);
  EXPECT_NE(svg.find("</svg>"), std::string::npos);
  for (const char* part : {"a &lt; b", "c &amp; d", "class=\"train\" d=\"M", "nats per byte",
                           "class=\"order3\"", "order-3 byte model 1.300"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

TEST(CurveSvg, SurvivesOnePointAndNone) {
  for (const Curve& curve : {Curve{}, Curve{.train = {{1, 2.5}}}}) {
    const std::string svg = CurveSvg(curve, "", "", "byte");
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
    EXPECT_EQ(svg.find("class=\"order3\""), std::string::npos);
  }
}

TEST(CurveText, HasTheRowsAskedForAndFallsToTheRight) {
  const std::string text = CurveText(Falling(), 60, 6);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
  const std::string top = text.substr(0, text.find('\n'));
  EXPECT_NE(top.find("█"), std::string::npos);
  EXPECT_EQ(top.back(), ' ');
  EXPECT_NE(text.find("1000 step"), std::string::npos);
  EXPECT_EQ(CurveText({}, 60, 6), "");
}

}  // namespace
}  // namespace weft::trainer::curve_test
