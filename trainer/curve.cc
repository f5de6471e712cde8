#include "trainer/curve.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "trainer/reports/line_chart.h"

namespace weft::trainer {
namespace {

std::vector<ChartPoint> PointsOf(const std::vector<CurvePoint>& points) {
  std::vector<ChartPoint> out;
  out.reserve(points.size());
  for (const CurvePoint& p : points)
    out.push_back({p.step, p.loss});
  return out;
}

}  // namespace

std::string CurveSvg(const Curve& curve, const std::string& title, const std::string& subtitle,
                     const char* unit) {
  const std::vector<ChartPoint> train = Thinned(PointsOf(curve.train), 400);
  const std::vector<ChartPoint> validation = PointsOf(curve.validation);
  LineChart chart{
      .title = title, .subtitle = subtitle, .y_label = fmt::format("loss, nats per {}", unit)};
  const std::vector<ChartPoint> train_max = Thinned(PointsOf(curve.train_max), 400);
  chart.lines = {{"step", "", train},
                 {"train", "training", Smoothed(train)},
                 {"validation", "validation", validation, /*dots=*/true}};
  if (!train_max.empty())
    chart.lines.push_back({"largest", "largest of a rank", Smoothed(train_max)});
  if (curve.order3 > 0) {
    double end = 1;
    for (const std::vector<ChartPoint>* points : {&train, &validation}) {
      if (!points->empty()) end = std::max(end, points->back().x);
    }
    chart.lines.push_back({"order3",
                           fmt::format("order-3 byte model {:.3f}", curve.order3),
                           {{0, curve.order3}, {end, curve.order3}}});
  }
  return LineChartSvg(chart);
}

std::string CurveText(const Curve& curve, size_t columns, size_t rows) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (curve.train.empty() || columns < 10 || rows == 0) return "";
  const std::vector<ChartPoint> points = Thinned(PointsOf(curve.train), columns - 8);
  double low = points[0].y, high = points[0].y;
  for (const ChartPoint& p : points) {
    low = std::min(low, p.y);
    high = std::max(high, p.y);
  }
  // The lowest point still gets one eighth of a row.
  const double unit = std::max(high - low, 1e-9) / (double(rows) * 8 - 1);
  std::string out;
  for (size_t row = rows; row-- > 0;) {
    const double label = low + (double(row) * 8 + 7) * unit;
    out += fmt::format("{:6.2f} ", label);
    for (const ChartPoint& p : points) {
      const double eighths = (p.y - low) / unit + 1 - double(row) * 8;
      out += kBlocks[size_t(std::clamp(std::lround(eighths), 0L, 8L))];
    }
    out += "\n";
  }
  const std::string last = fmt::format("{:.0f}", curve.train.back().step);
  out += fmt::format("{:7}1{:>{}} step\n", "", last, std::max(points.size(), size_t{2}) - 1);
  return out;
}

}  // namespace weft::trainer
