#include "shard/pipeline/pipeline_svg.h"

#include <algorithm>

#include <fmt/format.h>

namespace weft {
namespace {

constexpr double kLeft = 60, kTop = 34, kLane = 26, kBox = 20, kWidth = 1100, kRight = 12;
constexpr double kNarrow = 12;  // boxes below this have no number

// Light for forward, dark for backward, between them its halves.
const char* FillOf(PipelineActionKind kind) {
  switch (kind) {
    case PipelineActionKind::kForward:
      return "#9ec9e8";
    case PipelineActionKind::kBackward:
      return "#2f6fa8";
    case PipelineActionKind::kBackwardInput:
      return "#5b9bd0";
    default:
      return "#7fae63";
  }
}

bool IsLight(PipelineActionKind kind) {
  return kind == PipelineActionKind::kForward;
}

std::string LegendOf(const PipelineSchedule& schedule) {
  constexpr struct {
    PipelineActionKind kind;
    const char* name;
  } kEntries[] = {{PipelineActionKind::kForward, "forward"},
                  {PipelineActionKind::kBackward, "backward"},
                  {PipelineActionKind::kBackwardInput, "backward, input"},
                  {PipelineActionKind::kBackwardWeight, "backward, weights"}};

  std::string svg;
  double x = kLeft;
  for (const auto& entry : kEntries) {
    const bool used =
        std::any_of(schedule.actions.begin(), schedule.actions.end(), [&](const auto& actions) {
          return std::any_of(actions.begin(), actions.end(), [&](const PipelineAction& action) {
            return action.kind == entry.kind;
          });
        });
    if (!used) continue;
    svg += fmt::format(
        "<rect x=\"{:.0f}\" y=\"8\" width=\"12\" height=\"12\" fill=\"{}\"/>"
        "<text x=\"{:.0f}\" y=\"18\">{}</text>\n",
        x, FillOf(entry.kind), x + 17, entry.name);
    x += 40 + 7 * double(std::string(entry.name).size());
  }
  return svg;
}

}  // namespace

std::string PipelineAsSvg(const PipelineSchedule& schedule, const PipelineTimeline& timeline) {
  const double scale = kWidth / timeline.seconds;
  const double height = kTop + kLane * double(schedule.actions.size()) + 8;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      kLeft + kWidth + kRight, height);
  svg += LegendOf(schedule);
  for (size_t rank = 0; rank < schedule.actions.size(); rank++) {
    const double y = kTop + kLane * double(rank);
    svg += fmt::format(
        "<text x=\"8\" y=\"{:.0f}\">rank {}</text>"
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"#f0f0f0\"/>\n",
        y + kBox - 6, rank, kLeft, y, kWidth, kBox);
    for (size_t i = 0; i < schedule.actions[rank].size(); i++) {
      const PipelineAction& action = schedule.actions[rank][i];
      if (IsMessage(action.kind)) continue;
      const PipelineSpan& span = timeline.spans[rank][i];
      const double x = kLeft + span.begin * scale, width = (span.end - span.begin) * scale;
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\" "
          "fill-opacity=\"{:.2f}\" stroke=\"#ffffff\" "
          "stroke-width=\"0.5\"><title>{}</title></rect>",
          x, y, width, kBox, FillOf(action.kind), action.chunk % 2 == 0 ? 1.0 : 0.65,
          Describe(action));
      if (width >= kNarrow) {
        svg += fmt::format(
            "<text x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
            x + width / 2, y + kBox - 6, IsLight(action.kind) ? "#123" : "#fff", action.microbatch);
      }
      svg += "\n";
    }
  }
  return svg + "</svg>\n";
}

}  // namespace weft
