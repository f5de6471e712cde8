// Points are means over stretches and never every n-th value: of a noisy curve, those would show whatever they happen to hit.
// The SVG is written by hand, because one picture is not worth a dependency.
#include "trainer/curve.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>

namespace weft::trainer {
namespace {

constexpr double kWidth = 860, kHeight = 480;
constexpr double kLeft = 70, kRight = 30, kTop = 76, kBottom = 56;

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else {
      out += c;
    }
  }
  return out;
}

// What of the plane is shown, and where a point of it lies in the picture.
struct Frame {
  double step_high = 1;
  double loss_low = 0;
  double loss_high = 1;

  double X(double step) const { return kLeft + step / step_high * (kWidth - kLeft - kRight); }

  double Y(double loss) const {
    const double clamped = std::clamp(loss, loss_low, loss_high);
    return kTop + (loss_high - clamped) / (loss_high - loss_low) * (kHeight - kTop - kBottom);
  }
};

Frame FrameOf(const Curve& curve) {
  Frame frame;
  double low = 1e300, high = -1e300;
  for (const auto* points : {&curve.train, &curve.validation}) {
    for (const CurvePoint& p : *points) {
      low = std::min(low, p.loss);
      high = std::max(high, p.loss);
      frame.step_high = std::max(frame.step_high, p.step);
    }
  }
  if (curve.order3 > 0) {
    low = std::min(low, curve.order3);
    high = std::max(high, curve.order3);
  }
  if (low > high) low = 0, high = 1;
  const double margin = std::max(1e-3, 0.05 * (high - low));
  frame.loss_low = std::max(0.0, low - margin);
  frame.loss_high = high + margin;
  return frame;
}

std::string Path(const Frame& frame, const std::vector<CurvePoint>& points) {
  std::string path;
  for (const CurvePoint& p : points) {
    path +=
        fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", frame.X(p.step), frame.Y(p.loss));
  }
  return path;
}

double MeanLoss(const std::vector<CurvePoint>& points, size_t begin, size_t end) {
  double loss = 0;
  for (size_t i = begin; i < end; i++)
    loss += points[i].loss;
  return loss / double(end - begin);
}

// Means of successive stretches, so that the file and the eye get at most `count` points.
std::vector<CurvePoint> Thinned(const std::vector<CurvePoint>& points, size_t count) {
  if (points.size() <= count) return points;
  std::vector<CurvePoint> out;
  for (size_t i = 0; i < count; i++) {
    const size_t begin = i * points.size() / count;
    const size_t end = (i + 1) * points.size() / count;
    out.push_back({points[end - 1].step, MeanLoss(points, begin, end)});
  }
  return out;
}

std::string Axes(const Frame& frame) {
  std::string out;
  const double bottom = kHeight - kBottom, right = kWidth - kRight;
  for (const double loss : Ticks(frame.loss_low, frame.loss_high, 8)) {
    const double y = frame.Y(loss);
    out += fmt::format("<path class=\"grid\" d=\"M{} {:.1f}H{}\"/>\n", kLeft, y, right);
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.6g}</text>\n", kLeft - 8,
                       y + 4, loss);
  }
  for (const double step : Ticks(0, frame.step_high, 8)) {
    const double x = frame.X(step);
    out += fmt::format("<path class=\"axis\" d=\"M{:.1f} {}v5\"/>\n", x, bottom);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>\n", x,
                       bottom + 20, step);
  }
  out += fmt::format("<path class=\"axis\" d=\"M{} {}V{}H{}\"/>\n", kLeft, kTop, bottom, right);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">step</text>\n",
                     (kLeft + right) / 2, kHeight - 14);
  out += fmt::format(
      "<text transform=\"translate(20 {}) rotate(-90)\" text-anchor=\"middle\">loss, nats per "
      "byte</text>\n",
      (kTop + bottom) / 2);
  return out;
}

// Ends where the plot ends; the fonts of readers differ, so the width of a letter is a guess on the
// wide side.
std::string Legend(const Curve& curve) {
  constexpr double kLetter = 7.2, kMark = 30, kGap = 22;

  struct Entry {
    const char* style;
    std::string label;
  };

  std::vector<Entry> entries = {{"train", "training"}, {"validation", "validation"}};
  if (curve.order3 > 0) {
    entries.push_back({"order3", fmt::format("order-3 byte model {:.3f}", curve.order3)});
  }
  std::string out;
  double x = kWidth - kRight + kGap;
  for (const Entry& entry : entries)
    x -= kMark + double(entry.label.size()) * kLetter + kGap;
  for (const Entry& entry : entries) {
    out += fmt::format("<path class=\"{}\" d=\"M{} 62h24\"/>", entry.style, x);
    out += fmt::format("<text x=\"{}\" y=\"66\">{}</text>\n", x + kMark, entry.label);
    x += kMark + double(entry.label.size()) * kLetter + kGap;
  }
  return out;
}

// Means over about a thirtieth of the run: single steps are noisy. Ends get shorter stretches.
std::vector<CurvePoint> Smoothed(const std::vector<CurvePoint>& points) {
  const size_t reach = points.size() / 60;
  std::vector<CurvePoint> out;
  out.reserve(points.size());
  for (size_t i = 0; i < points.size(); i++) {
    const size_t around = std::min({reach, i, points.size() - 1 - i});
    out.push_back({points[i].step, MeanLoss(points, i - around, i + around + 1)});
  }
  return out;
}

}  // namespace

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

std::string CurveSvg(const Curve& curve, const std::string& title, const std::string& subtitle) {
  const Frame frame = FrameOf(curve);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" role=\"img\">\n",
      kWidth, kHeight);
  out += "<title>" + Escaped(title) + "</title>\n";
  out +=
      "<style>text{font:13px system-ui,sans-serif;fill:#333}.head{font-size:17px;font-weight:600}"
      ".sub{fill:#777}path{fill:none;stroke-linejoin:round}.grid{stroke:#e6e6e6}.axis{stroke:#888}"
      ".step{stroke:#cfe0f2;stroke-width:1.2}.train{stroke:#3f82c4;stroke-width:2}"
      ".validation{stroke:#c2410c;stroke-width:2.5}"
      ".order3{stroke:#555;stroke-width:1.5;stroke-dasharray:6 4}.dot{fill:#c2410c}</style>\n";
  out += fmt::format("<rect width=\"{}\" height=\"{}\" fill=\"#fff\"/>\n", kWidth, kHeight);
  out += fmt::format("<text class=\"head\" x=\"{}\" y=\"28\">{}</text>\n", kLeft, Escaped(title));
  out += fmt::format("<text class=\"sub\" x=\"{}\" y=\"45\">{}</text>\n", kLeft, Escaped(subtitle));
  out += Legend(curve) + Axes(frame);
  if (curve.order3 > 0) {
    out += fmt::format("<path class=\"order3\" d=\"M{} {:.1f}H{}\"/>\n", kLeft,
                       frame.Y(curve.order3), kWidth - kRight);
  }
  const std::vector<CurvePoint> train = Thinned(curve.train, 400);
  out += fmt::format("<path class=\"step\" d=\"{}\"/>\n", Path(frame, train));
  out += fmt::format("<path class=\"train\" d=\"{}\"/>\n", Path(frame, Smoothed(train)));
  out += fmt::format("<path class=\"validation\" d=\"{}\"/>\n", Path(frame, curve.validation));
  for (const CurvePoint& p : curve.validation) {
    out += fmt::format("<circle class=\"dot\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\"/>\n",
                       frame.X(p.step), frame.Y(p.loss));
  }
  return out + "</svg>\n";
}

std::string CurveText(const Curve& curve, size_t columns, size_t rows) {
  static const char* const kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (curve.train.empty() || columns < 10 || rows == 0) return "";
  const std::vector<CurvePoint> points = Thinned(curve.train, columns - 8);
  double low = points[0].loss, high = points[0].loss;
  for (const CurvePoint& p : points) {
    low = std::min(low, p.loss);
    high = std::max(high, p.loss);
  }
  // The lowest point still gets one eighth of a row.
  const double unit = std::max(high - low, 1e-9) / (double(rows) * 8 - 1);
  std::string out;
  for (size_t row = rows; row-- > 0;) {
    const double label = low + (double(row) * 8 + 7) * unit;
    out += fmt::format("{:6.2f} ", label);
    for (const CurvePoint& p : points) {
      const double eighths = (p.loss - low) / unit + 1 - double(row) * 8;
      out += kBlocks[size_t(std::clamp(std::lround(eighths), 0L, 8L))];
    }
    out += "\n";
  }
  const std::string last = fmt::format("{:.0f}", curve.train.back().step);
  out += fmt::format("{:7}1{:>{}} step\n", "", last, std::max(points.size(), size_t{2}) - 1);
  return out;
}

}  // namespace weft::trainer
