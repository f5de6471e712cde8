// Boxes are measured from the inside out and placed from the outside in. What lies in a box stands in grids of equal cells, one below the other:
// objects, then network devices; a grid has the number of columns that comes nearest to a wide shape.
#include "topology/topology_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/check.h"
#include "topology/topology_text.h"
#include "topology/topology_tree.h"

namespace weft {
namespace {

constexpr double kGap = 8;
constexpr double kLineHeight = 14;
constexpr double kCharacterWidth = 6.6;  // of 11 px in a sans-serif font, on the wide side
constexpr double kGridShape = 2.2;       // width over height
constexpr double kEmptyCells = 8;  // how bad they are, so that eight boxes are no three columns
constexpr char kNetworkFill[] = "#fff3d6";
constexpr std::array<const char*, 4> kKindFills = {"#eef3f9", "#e3efe1", "#dfe8f5", "#ffffff"};
// For ranks, in turns; black text is readable on all of them.
constexpr std::array<const char*, 8> kRankFills = {"#f7b6a8", "#a9cdf0", "#b9e3a6", "#f5dd8c",
                                                   "#d3bdf0", "#9fe0d8", "#f3b7d8", "#d2c5ae"};

struct Box {
  std::vector<std::string> lines;
  const char* fill = "#ffffff";
  std::vector<std::vector<Box>> grids;
  double width = 0;
  double height = 0;
};

struct Grid {
  double cell_width = 0;
  double cell_height = 0;
  size_t columns = 1;
  size_t rows = 1;

  double width() const { return static_cast<double>(columns) * (cell_width + kGap) - kGap; }

  double height() const { return static_cast<double>(rows) * (cell_height + kGap) - kGap; }
};

Grid GridOf(const std::vector<Box>& boxes) {
  Grid cell;
  for (const Box& box : boxes) {
    cell.cell_width = std::max(cell.cell_width, box.width);
    cell.cell_height = std::max(cell.cell_height, box.height);
  }
  Grid best = cell;
  double least = 1e9;
  for (size_t columns = 1; columns <= boxes.size(); ++columns) {
    Grid grid = cell;
    grid.columns = columns;
    grid.rows = (boxes.size() + columns - 1) / columns;
    // Cells that stay empty make a grid look like less than it is.
    const auto empty = static_cast<double>(grid.rows * columns - boxes.size());
    const double badness = std::abs(std::log(grid.width() / grid.height() / kGridShape)) +
                           kEmptyCells * empty / static_cast<double>(boxes.size());
    if (badness >= least) continue;
    least = badness;
    best = grid;
  }
  return best;
}

void Measure(Box* box) {
  box->width = 0;
  for (const std::string& line : box->lines)
    box->width = std::max(box->width, static_cast<double>(line.size()) * kCharacterWidth);
  box->height = static_cast<double>(box->lines.size()) * kLineHeight + kGap;
  for (std::vector<Box>& boxes : box->grids) {
    for (Box& child : boxes)
      Measure(&child);
    const Grid grid = GridOf(boxes);
    for (Box& child : boxes) {
      child.width = grid.cell_width;
      child.height = grid.cell_height;
    }
    box->width = std::max(box->width, grid.width());
    box->height += grid.height() + kGap;
  }
  box->width += 2 * kGap;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

void Draw(const Box& box, double x, double y, std::string* svg) {
  *svg += fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n", x, y,
      box.width, box.height, box.fill);
  double line_y = y + kLineHeight;
  for (const std::string& line : box.lines) {
    *svg +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x + kGap, line_y, Escaped(line));
    line_y += kLineHeight;
  }
  double grid_y = y + static_cast<double>(box.lines.size()) * kLineHeight + kGap;
  for (const std::vector<Box>& boxes : box.grids) {
    const Grid grid = GridOf(boxes);
    for (size_t i = 0; i < boxes.size(); ++i) {
      const size_t row = i / grid.columns;
      const size_t column = i % grid.columns;
      Draw(boxes[i], x + kGap + static_cast<double>(column) * (grid.cell_width + kGap),
           grid_y + static_cast<double>(row) * (grid.cell_height + kGap), svg);
    }
    grid_y += grid.height() + kGap;
  }
}

// Ranks that share `cpus`: "rank 0", "ranks 0-3"; `first` becomes the lowest of them, -1 if there is none.
std::string RanksOn(const CpuSet& cpus, const std::vector<CpuSet>& shares, int* first) {
  CpuSet ranks;
  for (size_t rank = 0; rank < std::min<size_t>(shares.size(), kCpusMax); ++rank) {
    if (shares[rank].Intersects(cpus)) ranks.Add(static_cast<int>(rank));
  }
  *first = ranks.first();
  return ranks.empty() ? "" : (ranks.count() == 1 ? "rank " : "ranks ") + ranks.ToList();
}

// The devices near a node, -1: those of which that is not known.
void AddDevices(const Topology& topology, int numa_node, Box* box) {
  std::vector<Box> devices;
  for (const NetworkDevice& device : topology.network) {
    if (device.numa_node != numa_node) continue;
    Box one{.lines = {DeviceText(device)}, .fill = kNetworkFill};
    // The path on a line of its own.
    if (const size_t path = one.lines.front().find(", PCI "); path != std::string::npos) {
      one.lines.push_back(one.lines.front().substr(path + 2));
      one.lines.front().resize(path);
    }
    devices.push_back(std::move(one));
  }
  if (!devices.empty()) box->grids.push_back(std::move(devices));
}

Box BoxOf(const Topology& topology, const TopologyTree& tree, const std::vector<CpuSet>& shares) {
  Box box{.lines = {ObjectText(tree.kind, *tree.object)},
          .fill = kKindFills[static_cast<size_t>(tree.kind)]};
  if (tree.kind == ObjectKind::kCore || tree.children.empty()) {
    box.lines.push_back((tree.object->cpus.count() == 1 ? "CPU " : "CPUs ") +
                        tree.object->cpus.ToList());
    int first = -1;
    const std::string ranks = RanksOn(tree.object->cpus, shares, &first);
    if (first >= 0) box.fill = kRankFills[static_cast<size_t>(first) % kRankFills.size()];
    if (!shares.empty()) box.lines.push_back(ranks);  // empty of a core without: all have one size
  }
  std::vector<Box> children;
  for (const TopologyTree& child : tree.children)
    children.push_back(BoxOf(topology, child, shares));
  if (!children.empty()) box.grids.push_back(std::move(children));
  if (tree.kind == ObjectKind::kNumaNode) AddDevices(topology, tree.object->number, &box);
  return box;
}

Box MachineBox(const Topology& topology, const std::vector<CpuSet>& shares) {
  const absl::StatusOr<TopologyTree> tree = BuildTopologyTree(topology);
  WEFT_CHECK(tree.ok());
  Box box{.lines = {topology.host.empty() ? "machine" : topology.host, SummaryText(topology)}};
  std::vector<Box> children;
  for (const TopologyTree& child : tree->children)
    children.push_back(BoxOf(topology, child, shares));
  for (const TopologyObject& node : topology.numa_nodes) {
    if (!node.cpus.empty()) continue;
    children.push_back({.lines = {ObjectText(ObjectKind::kNumaNode, node), "no CPUs"},
                        .fill = kKindFills[static_cast<size_t>(ObjectKind::kNumaNode)]});
    AddDevices(topology, node.number, &children.back());
  }
  if (!children.empty()) box.grids.push_back(std::move(children));
  AddDevices(topology, -1, &box);
  return box;
}

}  // namespace

std::string TopologyAsSvg(const Topology& topology, const std::vector<CpuSet>& shares) {
  Box machine = MachineBox(topology, shares);
  Measure(&machine);
  const double width = machine.width + 2 * kGap;
  const double height = machine.height + 2 * kGap;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<style>rect {{ stroke: #556; stroke-width: 1; }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\" style=\"stroke: none\"/>\n",
      width, height);
  Draw(machine, kGap, kGap, &svg);
  return svg + "</svg>\n";
}

}  // namespace weft
