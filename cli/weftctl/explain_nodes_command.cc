// PrintNodesExplanation.
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "cli/weftctl/explained_call.h"
#include "comm/hierarchy/explain_span.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/span_price.h"
#include "comm/rendezvous/membership.h"
#include "comm/select/link_model.h"

namespace weft {
namespace {

// Of an all_to_all of more the simulation takes minutes.
constexpr int kRanksMax = 256;
constexpr double kBitsPerByte = 8;

constexpr const char* kOperations[] = {"barrier",   "all_reduce", "reduce",
                                       "broadcast", "all_gather", "reduce_scatter",
                                       "gather",    "scatter",    "all_to_all"};
constexpr const char* kSizes[] = {"8", "1K", "32K", "1M", "32M"};

absl::Status NoNodes(const std::string& text) {
  return MakeError(WEFT_INVALID_ARGUMENT,
                   fmt::format("--nodes {}: give NODESxRANKS as 2x4, or the ranks of each node as "
                               "3,1, with :cyclic behind it if ranks go to nodes by turns; two "
                               "nodes or more, and {} ranks at most",
                               text, kRanksMax));
}

bool ReadNumber(absl::string_view text, int* number) {
  return absl::SimpleAtoi(text, number) && *number >= 1 && *number <= kRanksMax;
}

// Ranks of each node.
absl::StatusOr<std::vector<int>> ReadSizes(absl::string_view spec, const std::string& text) {
  const std::vector<absl::string_view> product = absl::StrSplit(spec, 'x');
  if (product.size() == 2) {
    int nodes = 0;
    int ranks = 0;
    if (!ReadNumber(product[0], &nodes) || !ReadNumber(product[1], &ranks)) return NoNodes(text);
    return std::vector<int>(static_cast<size_t>(nodes), ranks);
  }
  std::vector<int> sizes;
  for (const absl::string_view part : absl::StrSplit(spec, ',')) {
    if (!ReadNumber(part, &sizes.emplace_back())) return NoNodes(text);
  }
  return sizes;
}

absl::StatusOr<Islands> ReadNodes(const std::string& text) {
  absl::string_view spec = ToAbsl(text);
  const bool cyclic = absl::ConsumeSuffix(&spec, ":cyclic");
  WEFT_ASSIGN_OR_RETURN(std::vector<int> left, ReadSizes(spec, text));
  int ranks = 0;
  for (const int size : left)
    ranks += size;
  if (left.size() < 2 || ranks > kRanksMax) return NoNodes(text);
  Membership membership;
  for (size_t node = 0; static_cast<int>(membership.members.size()) < ranks;
       node = (node + 1) % left.size()) {
    const int in_a_row = cyclic ? std::min(1, left[node]) : left[node];
    left[node] -= in_a_row;
    for (int i = 0; i < in_a_row; ++i) {
      const auto rank = static_cast<int>(membership.members.size());
      membership.members.push_back({.rank = rank, .fake_node = static_cast<int>(node)});
    }
  }
  return IslandsOf(membership);
}

absl::StatusOr<LinkModel> ModelOf(const ExplainNodesArguments& arguments) {
  LinkModel model = LinkModel::Default();
  const auto good = [](double number) {
    return std::isfinite(number) && number <= 1e9;
  };
  if (!good(arguments.latency_us) || !good(arguments.gbit) || arguments.gbit == 0) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     fmt::format("--latency-us {} --gbit {}: links have no such latency or speed",
                                 arguments.latency_us, arguments.gbit));
  }
  if (arguments.latency_us >= 0 || arguments.gbit > 0) model.source = LinkSource::kGiven;
  if (arguments.latency_us >= 0)
    model.far.latency_ns = static_cast<int64_t>(arguments.latency_us * 1e3);
  if (arguments.gbit > 0) model.far.ns_per_byte = kBitsPerByte / arguments.gbit;
  return model;
}

std::string Heading(const Islands& islands, const LinkModel& model, const std::string& dtype) {
  std::string text = fmt::format("{} ranks on {} nodes, {}; by a model, and not measured\n",
                                 islands.island_of.size(), islands.count(), dtype);
  text += LinksText(model);
  const int pieces = PiecesMax(islands);
  text += fmt::format("pieces: {} of the node that has most{}\n", pieces,
                      pieces > 1 ? "; 1 of integers, bits, min and max" : "");
  if (const std::string price = PriceSentence(islands); !price.empty())
    text += fmt::format("price: {}\n", price);
  return text;
}

absl::StatusOr<std::string> Explain(const ExplainArguments& arguments,
                                    const ExplainNodesArguments& of_nodes, bool csv) {
  WEFT_ASSIGN_OR_RETURN(const Islands islands, ReadNodes(of_nodes.nodes));
  WEFT_ASSIGN_OR_RETURN(const LinkModel model, ModelOf(of_nodes));
  std::vector<std::string> operations(std::begin(kOperations), std::end(kOperations));
  std::vector<std::string> sizes(std::begin(kSizes), std::end(kSizes));
  if (!arguments.operation.empty()) operations = {arguments.operation};
  if (!arguments.bytes.empty()) sizes = {arguments.bytes};
  std::string text =
      csv ? "operation,dtype,bytes,schedule,segments,levels,node_bytes,far_bytes,near_bytes,pieces,"
            "predicted_ns\n"
          : Heading(islands, model, arguments.dtype) +
                fmt::format("\n{:<15} {:>12} {:>7} {:>14} {:>14}  {}\n", "operation", "bytes",
                            "levels", "node sends", "predicted us", "schedule");
  for (const std::string& operation : operations) {
    for (const std::string& bytes : sizes) {
      WEFT_ASSIGN_OR_RETURN(Collective call, ReadExplainedCall(operation, bytes, arguments.dtype));
      const bool barrier = call.kind == OpKind::kBarrier;
      if (barrier) call.count = 0;
      WEFT_ASSIGN_OR_RETURN(const SpanExplanation all, ExplainSpan(call, islands, model));
      const uint64_t count_bytes = call.count * ElementBytes(call);
      if (csv) {
        text += fmt::format("{},{},{},\"{}\",{},{},{},{},{},{},{}\n", operation, arguments.dtype,
                            count_bytes, all.schedule, all.segments, all.levels, all.node_bytes,
                            all.all_far_bytes, all.all_near_bytes, all.pieces, all.predicted_ns);
      } else {
        text += fmt::format("{:<15} {:>12} {:>7} {:>14} {:>14.1f}  {}\n", operation, count_bytes,
                            all.levels, all.node_bytes, static_cast<double>(all.predicted_ns) / 1e3,
                            all.schedule);
      }
      if (barrier) break;
    }
  }
  return text;
}

}  // namespace

CommandOutput PrintNodesExplanation(const ExplainArguments& arguments,
                                    const ExplainNodesArguments& nodes, bool csv) {
  const absl::StatusOr<std::string> text = Explain(arguments, nodes, csv);
  if (!text.ok()) return {"", {std::string(text.status().message())}};
  return {*text, {}};
}

}  // namespace weft
