// Lines over the steps of a run, as an SVG picture.
//
//   LineChart chart{.title = "tokens/s", .y_label = "tokens per second", .from_zero = true};
//   chart.lines.push_back({"train", "rate", Smoothed(points)});
//   const std::string svg = LineChartSvg(chart);
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_REPORTS_LINE_CHART_H_
#define WEFT_TRAINER_REPORTS_LINE_CHART_H_

#include <cstddef>
#include <string>
#include <vector>

namespace weft::trainer {

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct ChartLine {
  const char* style = "";  // step (pale), train, largest (thin), validation, order3 (dashed)
  std::string label;       // empty: not in the legend
  std::vector<ChartPoint> points;
  bool dots = false;  // at the points
};

struct LineChart {
  std::string title, subtitle;
  std::string y_label;
  bool from_zero = false;  // the picture begins at 0; else a little below the lowest point
  std::vector<ChartLine> lines;
};

std::string LineChartSvg(const LineChart& chart);

// Distances of 1, 2 or 5 times a power of ten that put at most `count` ticks into [low, high].
std::vector<double> Ticks(double low, double high, size_t count);

// Means of successive stretches, so that the file and the eye get at most `count` points.
std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t count);

// Means over about a thirtieth of the run: single steps are noisy. Ends get shorter stretches.
std::vector<ChartPoint> Smoothed(const std::vector<ChartPoint>& points);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_LINE_CHART_H_
