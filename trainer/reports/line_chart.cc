// Points are means over stretches and never every n-th value: of a noisy curve, those would show
// whatever they happen to hit. The SVG is written by hand, because a few pictures are not worth a
// dependency.
#include "trainer/reports/line_chart.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include "trainer/reports/xml_text.h"

namespace weft::trainer {
namespace {

constexpr double kWidth = 860, kHeight = 480;
constexpr double kLeft = 70, kRight = 30, kTop = 76, kBottom = 56;

// What of the plane is shown, and where a point of it lies in the picture.
struct Frame {
  double x_high = 1;
  double y_low = 0;
  double y_high = 1;

  double X(double x) const { return kLeft + x / x_high * (kWidth - kLeft - kRight); }

  double Y(double y) const {
    const double clamped = std::clamp(y, y_low, y_high);
    return kTop + (y_high - clamped) / (y_high - y_low) * (kHeight - kTop - kBottom);
  }
};

Frame ChartFrameOf(const LineChart& chart) {
  Frame frame;
  double low = 1e300, high = -1e300;
  for (const ChartLine& line : chart.lines) {
    for (const ChartPoint& p : line.points) {
      low = std::min(low, p.y);
      high = std::max(high, p.y);
      frame.x_high = std::max(frame.x_high, p.x);
    }
  }
  if (low > high) low = 0, high = 1;
  if (chart.from_zero) low = 0;
  const double margin = std::max(1e-3, 0.05 * (high - low));
  frame.y_low = std::max(0.0, low - margin);
  frame.y_high = high + margin;
  return frame;
}

std::string Path(const Frame& frame, const std::vector<ChartPoint>& points) {
  std::string path;
  for (const ChartPoint& p : points)
    path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.X(p.x), frame.Y(p.y));
  return path;
}

double MeanY(const std::vector<ChartPoint>& points, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; i++)
    sum += points[i].y;
  return sum / double(end - begin);
}

std::string Axes(const Frame& frame, const std::string& y_label) {
  std::string out;
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (const double value : Ticks(frame.y_low, frame.y_high, 8)) {
    const double y = frame.Y(value);
    out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", kLeft, y, right);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n", kLeft - 8,
                       y + 4, value);
  }
  for (const double step : Ticks(0, frame.x_high, 8)) {
    const double x = frame.X(step);
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {}v5\"/>\n", x, bottom);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>\n", x,
                       bottom + 20, step);
  }
  out += fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\"/>\n", kLeft, kTop, bottom, right);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n",
                     (kLeft + right) / 2, kHeight - 14);
  out += fmt::format(
      "<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
      (kTop + bottom) / 2, XmlText(y_label));
  return out;
}

// It ends where the plot ends; the fonts of readers differ, so the width of a letter is a guess on
// the wide side.
std::string ChartLegend(const std::vector<ChartLine>& lines) {
  constexpr double kLetter = 7.2, kMark = 30, kGap = 22;
  std::string out;
  double x = kWidth - kRight + kGap;
  for (const ChartLine& line : lines) {
    if (!line.label.empty()) x -= kMark + double(line.label.size()) * kLetter + kGap;
  }
  for (const ChartLine& line : lines) {
    if (line.label.empty()) continue;
    out += fmt::format("<path class=\"{}\" d=\"M{} 62h24\"/>", line.style, x);
    out += fmt::format("<text x=\"{}\" y=\"66\">{}</text>\n", x + kMark, XmlText(line.label));
    x += kMark + double(line.label.size()) * kLetter + kGap;
  }
  return out;
}

}  // namespace

std::vector<ChartPoint> Thinned(const std::vector<ChartPoint>& points, size_t count) {
  if (points.size() <= count) return points;
  std::vector<ChartPoint> out;
  for (size_t i = 0; i < count; i++) {
    const size_t begin = i * points.size() / count;
    const size_t end = (i + 1) * points.size() / count;
    out.push_back({points[end - 1].x, MeanY(points, begin, end)});
  }
  return out;
}

std::vector<ChartPoint> Smoothed(const std::vector<ChartPoint>& points) {
  const size_t reach = points.size() / 60;
  std::vector<ChartPoint> out;
  out.reserve(points.size());
  for (size_t i = 0; i < points.size(); i++) {
    const size_t around = std::min({reach, i, points.size() - 1 - i});
    out.push_back({points[i].x, MeanY(points, i - around, i + around + 1)});
  }
  return out;
}

std::vector<double> Ticks(double low, double high, size_t count) {
  std::vector<double> ticks;
  if (!(high > low) || count == 0) return ticks;
  double distance = std::pow(10, std::floor(std::log10((high - low) / double(count))));
  while ((high - low) / distance > double(count)) {
    const double lead = distance / std::pow(10, std::floor(std::log10(distance) + 1e-9));
    distance *= lead > 1.5 && lead < 3 ? 2.5 : 2;
  }
  for (double k = std::ceil(low / distance); k * distance <= high * (1 + 1e-12); k++) {
    ticks.push_back(k * distance);
  }
  return ticks;
}

std::string LineChartSvg(const LineChart& chart) {
  const Frame frame = ChartFrameOf(chart);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" role=\"img\">\n",
      kWidth, kHeight);
  out += "<title>" + XmlText(chart.title) + "</title>\n";
  out +=
      "<style>svg text{font:13px system-ui,sans-serif;fill:#333}svg "
      ".head{font-size:17px;font-weight:600}"
      "svg .sub{fill:#777}svg path{fill:none;stroke-linejoin:round}.grid{stroke:#e6e6e6}"
      ".axis{stroke:#888}"
      ".step{stroke:#cfe0f2;stroke-width:1.2}.train{stroke:#3f82c4;stroke-width:2}"
      ".largest{stroke:#7c5cbf;stroke-width:1.2}"
      ".validation{stroke:#c2410c;stroke-width:2.5}"
      ".order3{stroke:#555;stroke-width:1.5;stroke-dasharray:6 4}.dot{fill:#c2410c}</style>\n";
  out += fmt::format("<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n", kWidth, kHeight);
  out += fmt::format("<text class=\"head\" x=\"{}\" y=\"28\">{}</text>\n", kLeft,
                     XmlText(chart.title));
  out += fmt::format("<text class=\"sub\" x=\"{}\" y=\"45\">{}</text>\n", kLeft,
                     XmlText(chart.subtitle));
  out += ChartLegend(chart.lines) + Axes(frame, chart.y_label);
  for (const ChartLine& line : chart.lines) {
    out += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", line.style, Path(frame, line.points));
    if (!line.dots) continue;
    for (const ChartPoint& p : line.points) {
      out += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>\n",
                         frame.X(p.x), frame.Y(p.y));
    }
  }
  return out + "</svg>\n";
}

}  // namespace weft::trainer
