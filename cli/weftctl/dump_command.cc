// PrintDumps. The text is for a terminal and ends with the last calls and differences; JSON has all of them. A dump comes from
// a run that failed, perhaps from another machine, so its texts are not trusted: neither a control character nor a byte that is
// no UTF-8 reaches the output.
#include <algorithm>
#include <cstdint>
#include <ctime>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/weftctl/commands.h"
#include "comm/group/purpose.h"
#include "comm/kernels/dtype.h"
#include "comm/recorder/describe.h"
#include "comm/recorder/dump.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShownCalls = 16;
constexpr size_t kShownDifferences = 16;
constexpr size_t kShownMessages = 8;

// A dump with its calls made readable.
struct DumpReport {
  std::string path;
  RecorderDump dump;
  // By rank, oldest first.
  std::vector<std::vector<RecordedCall>> calls;
  std::vector<std::vector<RecordedMessage>> messages;
  std::vector<std::vector<LifecycleEvent>> events;
  uint64_t newest_ticks = 0;  // of the last call, message or event of any rank
};

// Ranks by what they called, in words.
using DumpParties = std::map<std::string, std::vector<size_t>>;

// `path` is where `dump` was read from.
DumpReport MakeDumpReport(std::string path, RecorderDump dump) {
  DumpReport report{std::move(path), std::move(dump), {}, {}, {}, 0};
  const auto note = [&](const auto& records) {
    for (const auto& record : records)
      report.newest_ticks = std::max(report.newest_ticks, record.ticks);
  };
  for (const DumpedRank& rank : report.dump.ranks) {
    note(report.calls.emplace_back(rank.Calls()));
    note(report.messages.emplace_back(rank.Messages()));
    note(report.events.emplace_back(rank.Events()));
  }
  return report;
}

// Sequence numbers at which ranks called different things, and who called what.
std::map<uint64_t, DumpParties> DifferencesOf(const DumpReport& report) {
  std::map<uint64_t, DumpParties> by_sequence;
  for (size_t rank = 0; rank < report.calls.size(); ++rank) {
    for (const RecordedCall& call : report.calls[rank])
      by_sequence[call.sequence][Describe(call)].push_back(rank);
  }
  std::erase_if(by_sequence, [](const auto& item) { return item.second.size() < 2; });
  return by_sequence;
}

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

// Milliseconds before the newest call, message or event of any rank; empty if the clock's speed is not known.
std::string Age(const DumpReport& report, uint64_t ticks) {
  if (report.dump.ticks_per_second == 0) return "";
  return fmt::format("{:.3f}", static_cast<double>(report.newest_ticks - ticks) * 1e3 /
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
  const std::string progress = DescribeProgress(call.progress);
  return fmt::format(
      "  {:>10}  {:<14}  {:<13}  {:<5}  {:>14}  {:>4}  {:<7}  {:>12}{}{}\n", call.sequence,
      CallName(call), call.kind != OpKind::kBarrier ? DtypeName(call.dtype) : "-",
      TraitsOf(call.kind).reduces ? OpName(call.op) : "-", call.count,
      HasRoot(call.kind) ? std::to_string(call.root) : "-", RecordStateName(call.state),
      Age(report, call.ticks), progress.empty() ? "" : "  ", progress);
}

std::string FormatMessages(const DumpReport& report, size_t index) {
  const std::vector<RecordedMessage>& messages = report.messages[index];
  if (messages.empty()) return "";
  std::string text = "  messages:\n";
  for (size_t i = messages.size() - std::min(messages.size(), kShownMessages); i < messages.size();
       ++i) {
    const RecordedMessage& message = messages[i];
    const std::string moved =
        message.moved_bytes == 0 ? "" : fmt::format(", {} bytes were moved", message.moved_bytes);
    text += fmt::format("  {:>10}  {:<7}  {:>12}  {}{}\n", message.number,
                        MessageStateName(message.state), Age(report, message.ticks),
                        Describe(message), moved);
  }
  return text;
}

std::string FormatEvents(const DumpReport& report, size_t index) {
  const std::vector<LifecycleEvent>& events = report.events[index];
  if (events.empty()) return "";
  std::string text = "  events:\n";
  for (const LifecycleEvent& event : events) {
    text += fmt::format("  {:>10}  {:>21}  {}\n", event.number, Age(report, event.ticks),
                        Describe(event));
  }
  return text;
}

std::string FormatRank(const DumpReport& report, size_t index) {
  const DumpedRank& rank = report.dump.ranks[index];
  const std::vector<RecordedCall>& calls = report.calls[index];
  std::string text =
      fmt::format("\nrank {}: pid {}, {}, ", index, rank.pid, DumpedRankStateName(rank.state));
  if (rank.state == DumpedRank::kElsewhere) return text + "where the dumps have what it did\n";
  const std::string others = FormatMessages(report, index) + FormatEvents(report, index);
  if (calls.empty()) return text + "no call\n" + others;
  text += fmt::format("last call {} #{}\n", CallName(calls.back()), calls.back().sequence);
  text += fmt::format("  {:>10}  {:<14}  {:<13}  {:<5}  {:>14}  {:>4}  {:<7}  {:>12}\n", "sequence",
                      "operation", "dtype", "redop", "count", "root", "state",
                      report.dump.ticks_per_second == 0 ? "" : "age [ms]");
  for (size_t i = calls.size() - std::min(calls.size(), kShownCalls); i < calls.size(); ++i)
    text += FormatCall(report, calls[i]);
  return text + others;
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
    if (last == newest || report.dump.ranks[rank].state == DumpedRank::kElsewhere) continue;
    text += fmt::format("  rank {} stopped at #{}, the group's newest call is #{}\n", rank, last,
                        newest);
  }
  if (text.empty()) text = "  none: all ranks made the same calls\n";
  return "\ndifferences:\n" + text;
}

std::string DumpAsText(const DumpReport& report) {
  std::string text = FormatHead(report);
  for (size_t rank = 0; rank < report.calls.size(); ++rank)
    text += FormatRank(report, rank);
  return text + FormatDifferences(report);
}

// Members are assigned one by one: an initializer list makes the compiler write a constructor for each
// length of a name, which takes seconds.
Json ProgressAsJson(const CallProgress& progress) {
  Json json;
  json["phase"] = CallPhaseName(progress.phase);
  json["waits_for"] = progress.waited_for;
  json["round"] = progress.round;
  json["rounds"] = progress.rounds;
  json["text"] = DescribeProgress(progress);
  return json;
}

Json CallAsJson(const RecordedCall& call) {
  Json json;
  json["sequence"] = call.sequence;
  json["operation"] = CallName(call);
  json["dtype"] = DtypeName(call.dtype);
  json["op"] = OpName(call.op);
  json["count"] = call.count;
  json["root"] = call.root;
  json["state"] = RecordStateName(call.state);
  json["ticks"] = call.ticks;
  json["epoch"] = call.epoch;
  json["algorithm"] = call.algorithm;
  json["numerics"] = call.numerics == WEFT_NUMERICS_FAST ? "fast" : "canonical";
  json["signature"] = call.signature;
  json["tag"] = call.tag;
  const std::string purpose = PurposeText(UnpackPurpose(call.purpose), nullptr);
  if (!purpose.empty()) json["purpose"] = purpose;
  if (call.progress.phase != CallPhase::kIssued) json["progress"] = ProgressAsJson(call.progress);
  return json;
}

Json MessageAsJson(const RecordedMessage& message) {
  Json json;
  json["number"] = message.number;
  json["kind"] = message.is_send ? "send" : "recv";
  json["peer"] = message.peer;
  json["source"] = message.source;
  json["dtype"] = DtypeName(message.dtype);
  json["count"] = message.count;
  json["tag"] = message.tag;
  json["state"] = MessageStateName(message.state);
  json["moved_bytes"] = message.moved_bytes;
  json["ticks"] = message.ticks;
  return json;
}

Json EventAsJson(const LifecycleEvent& event) {
  Json json;
  json["number"] = event.number;
  json["kind"] = LifecycleKindName(event.kind);
  json["text"] = Describe(event);
  json["epoch"] = event.epoch;
  json["rank"] = event.rank;
  json["result"] = event.result;
  json["signal"] = event.signal;
  json["exit_code"] = event.exit_code;
  json["sequence"] = event.sequence;
  json["other"] = event.other;
  json["ticks"] = event.ticks;
  return json;
}

Json RankAsJson(const DumpReport& report, size_t index) {
  const DumpedRank& rank = report.dump.ranks[index];
  Json json;
  json["rank"] = index;
  json["pid"] = rank.pid;
  json["start_time"] = rank.start_time;
  json["state"] = DumpedRankStateName(rank.state);
  Json& calls = json["calls"] = Json::array();
  for (const RecordedCall& call : report.calls[index])
    calls.push_back(CallAsJson(call));
  Json& messages = json["messages"] = Json::array();
  for (const RecordedMessage& message : report.messages[index])
    messages.push_back(MessageAsJson(message));
  Json& events = json["events"] = Json::array();
  for (const LifecycleEvent& event : report.events[index])
    events.push_back(EventAsJson(event));
  return json;
}

Json DifferencesAsJson(const DumpReport& report) {
  Json json = Json::array();
  for (const auto& [sequence, parties] : DifferencesOf(report)) {
    Json difference;
    difference["sequence"] = sequence;
    Json& calls = difference["calls"] = Json::object();
    for (const auto& [call, ranks] : parties) {
      Json& list = calls[call] = Json::array();
      for (const size_t rank : ranks)
        list.push_back(rank);
    }
    json.push_back(std::move(difference));
  }
  return json;
}

Json ReportAsJson(const DumpReport& report) {
  const RecorderDump& dump = report.dump;
  Json json;
  json["file"] = report.path;
  json["group"] = dump.group;
  json["group_id"] = dump.group_id;
  json["host"] = dump.host;
  json["reason"] = dump.reason;
  json["result"] = dump.result;
  json["writer_rank"] = dump.writer_rank;
  json["writer_pid"] = dump.writer_pid;
  json["epoch"] = dump.epoch;
  json["ticks_per_second"] = dump.ticks_per_second;
  json["ticks_now"] = dump.ticks_now;
  json["wall_time_ns"] = dump.wall_time_ns;
  Json& ranks = json["ranks"] = Json::array();
  for (size_t rank = 0; rank < dump.ranks.size(); ++rank)
    ranks.push_back(RankAsJson(report, rank));
  json["differences"] = DifferencesAsJson(report);
  return json;
}

// Text that is not UTF-8 is replaced, so that the rest stays readable.
std::string DumpsAsJson(const std::vector<DumpReport>& reports) {
  Json whole;
  whole["version"] = 1;
  Json& dumps = whole["dumps"] = Json::array();
  for (const DumpReport& report : reports)
    dumps.push_back(ReportAsJson(report));
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

CommandOutput PrintDumps(const std::vector<std::string>& paths, bool json) {
  CommandOutput output;
  std::vector<DumpReport> reports;
  for (const std::string& path : paths) {
    absl::StatusOr<RecorderDump> dump = ReadDumpFile(path);
    if (dump.ok()) {
      reports.push_back(MakeDumpReport(path, *std::move(dump)));
    } else {
      output.problems.emplace_back(dump.status().message());
    }
  }
  if (json) {
    output.text = DumpsAsJson(reports);
    return output;
  }
  for (const DumpReport& report : reports)
    output.text += (output.text.empty() ? "" : "\n") + DumpAsText(report);
  return output;
}

}  // namespace weft
