#include "trainer/reports/phase_bars.h"

#include <algorithm>
#include <array>

#include <fmt/core.h>

#include "trainer/dry_run.h"
#include "trainer/reports/xml_text.h"

namespace weft::trainer {
namespace {

constexpr double kBarsWidth = 860, kBarsLeft = 90, kBarsRight = 90, kBarsTop = 34, kRow = 26,
                 kBar = 18;
// Computing is blue, waiting is red, what is between steps of computing is grey and green.
constexpr std::array<const char*, kPhases> kColors = {"#8f8f8f", "#6ba3d6", "#2f6ea8", "#f0a35e",
                                                      "#c2410c", "#7a9a4d", "#b9a4d6"};

std::string PhaseLegend() {
  std::string out;
  double x = kBarsLeft;
  for (size_t i = 0; i < kPhases; i++) {
    const std::string name = kPhaseNames[i];
    out += fmt::format(
        "<rect x=\"{0:.1f}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{1}\"/><text x=\"{2:.1f}\" "
        "y=\"18\">{3}</text>\n",
        x, kColors[i], x + 17, name);
    x += 17 + 7.4 * double(name.size()) + 20;
  }
  return out;
}

}  // namespace

std::string PhaseBarsSvg(const std::vector<PhaseBar>& bars) {
  double longest = 1e-12;
  for (const PhaseBar& bar : bars)
    longest = std::max(longest, bar.phases.Sum());
  const double height = kBarsTop + double(bars.size()) * kRow + 6;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\" role=\"img\">\n<title>phases of a step</title>\n"
      "<style>svg text{{font:13px system-ui,sans-serif;fill:#333}}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"#fff\"/>\n",
      kBarsWidth, height);
  out += PhaseLegend();
  for (size_t row = 0; row < bars.size(); row++) {
    const PhaseBar& bar = bars[row];
    const double y = kBarsTop + double(row) * kRow;
    out += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kBarsLeft - 8,
                       y + 14, XmlText(bar.label));
    double x = kBarsLeft;
    for (size_t i = 0; i < kPhases; i++) {
      const double seconds = bar.phases[Phase(i)];
      const double width = seconds / longest * (kBarsWidth - kBarsLeft - kBarsRight);
      if (width <= 0) continue;
      out += fmt::format(
          "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\" "
          "fill=\"{}\"><title>{} {}</title></rect>\n",
          kPhaseNames[i], x, y, width, kBar, kColors[i], kPhaseNames[i], FormatSeconds(seconds));
      x += width;
    }
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + 6, y + 14,
                       FormatSeconds(bar.phases.Sum()));
  }
  return out + "</svg>\n";
}

}  // namespace weft::trainer
