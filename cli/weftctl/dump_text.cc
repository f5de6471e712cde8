#include <algorithm>
#include <ctime>

#include <fmt/format.h>

#include "cli/weftctl/dump_report.h"
#include "comm/kernels/dtype.h"
#include "comm/recorder/describe.h"

namespace weft {
namespace {

constexpr size_t kShownCalls = 16;
constexpr size_t kShownDifferences = 16;

uint64_t LastSequence(const std::vector<RecordedCall>& calls) {
  return calls.empty() ? 0 : calls.back().sequence;
}

std::string UtcTime(int64_t wall_time_ns) {
  const time_t seconds = wall_time_ns / 1'000'000'000;
  tm parts{};
  if (gmtime_r(&seconds, &parts) == nullptr) return "at an unknown time";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02} UTC", parts.tm_year + 1900,
                     parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// Milliseconds before the newest call of any rank; empty if the clock's speed is not known.
std::string Age(const DumpReport& report, const RecordedCall& call) {
  if (report.dump.ticks_per_second == 0) return "";
  return fmt::format("{:.3f}", static_cast<double>(report.newest_ticks - call.ticks) * 1e3 /
                                   static_cast<double>(report.dump.ticks_per_second));
}

// Text from a file may hold anything; a terminal shall not obey it.
std::string Printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string RankList(const std::vector<size_t>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return text;
}

std::string FormatHead(const DumpReport& report) {
  const RecorderDump& dump = report.dump;
  return fmt::format(
      "{}\n  group {}, {} ranks, epoch {}; written by rank {} (host {}, pid {}), {}\n  because: "
      "{}\n",
      report.path, Printable(dump.group), dump.ranks.size(), dump.epoch, dump.writer_rank,
      Printable(dump.host), dump.writer_pid, UtcTime(dump.wall_time_ns), Printable(dump.reason));
}

std::string FormatCall(const DumpReport& report, const RecordedCall& call) {
  return fmt::format("  {:>10}  {:<14}  {:<13}  {:<5}  {:>14}  {:>4}  {:<7}  {:>12}\n",
                     call.sequence, OpKindName(call.kind),
                     call.kind != OpKind::kBarrier ? DtypeName(call.dtype) : "-",
                     TraitsOf(call.kind).reduces ? OpName(call.op) : "-", call.count,
                     HasRoot(call.kind) ? std::to_string(call.root) : "-",
                     RecordStateName(call.state), Age(report, call));
}

std::string FormatRank(const DumpReport& report, size_t index) {
  const DumpedRank& rank = report.dump.ranks[index];
  const std::vector<RecordedCall>& calls = report.calls[index];
  std::string text =
      fmt::format("\nrank {}: pid {}, {}, ", index, rank.pid, DumpedRankStateName(rank.state));
  if (calls.empty()) return text + "no call\n";
  text += fmt::format("last call {} #{}\n", OpKindName(calls.back().kind), calls.back().sequence);
  text += fmt::format("  {:>10}  {:<14}  {:<13}  {:<5}  {:>14}  {:>4}  {:<7}  {:>12}\n", "sequence",
                      "operation", "dtype", "redop", "count", "root", "state",
                      report.dump.ticks_per_second == 0 ? "" : "age [ms]");
  for (size_t i = calls.size() - std::min(calls.size(), kShownCalls); i < calls.size(); ++i)
    text += FormatCall(report, calls[i]);
  return text;
}

// Who called something else, and who is behind.
std::string FormatDifferences(const DumpReport& report) {
  std::string text;
  const std::map<uint64_t, DumpParties> differences = DifferencesOf(report);
  size_t shown = 0;
  for (const auto& [sequence, parties] : differences) {
    if (++shown > kShownDifferences) break;
    text += fmt::format("  #{}:", sequence);
    const char* separator = " ";
    for (const auto& [call, ranks] : parties) {
      text += fmt::format("{}{} called {}", separator, RankList(ranks), call);
      separator = "; ";
    }
    text += "\n";
  }
  if (differences.size() > kShownDifferences) {
    text += fmt::format("  and {} more\n", differences.size() - kShownDifferences);
  }
  uint64_t newest = 0;
  for (const auto& calls : report.calls)
    newest = std::max(newest, LastSequence(calls));
  for (size_t rank = 0; rank < report.calls.size(); ++rank) {
    const uint64_t last = LastSequence(report.calls[rank]);
    if (last == newest) continue;
    text += fmt::format("  rank {} stopped at #{}, the group's newest call is #{}\n", rank, last,
                        newest);
  }
  if (text.empty()) text = "  none: all ranks made the same calls\n";
  return "\ndifferences:\n" + text;
}

}  // namespace

std::string DumpAsText(const DumpReport& report) {
  std::string text = FormatHead(report);
  for (size_t rank = 0; rank < report.calls.size(); ++rank)
    text += FormatRank(report, rank);
  return text + FormatDifferences(report);
}

}  // namespace weft
