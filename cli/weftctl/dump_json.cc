#include <utility>

#include <nlohmann/json.hpp>

#include "cli/weftctl/dump_report.h"
#include "comm/group/purpose.h"
#include "comm/kernels/dtype.h"
#include "comm/recorder/describe.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// Members are assigned one by one: an initializer list makes the compiler write a constructor for each
// length of a name, which takes seconds.
Json CallAsJson(const RecordedCall& call) {
  Json json;
  json["sequence"] = call.sequence;
  json["operation"] = OpKindName(call.kind);
  json["dtype"] = DtypeName(call.dtype);
  json["op"] = OpName(call.op);
  json["count"] = call.count;
  json["root"] = call.root;
  json["state"] = RecordStateName(call.state);
  json["ticks"] = call.ticks;
  json["epoch"] = call.epoch;
  json["algorithm"] = call.algorithm;
  json["signature"] = call.signature;
  json["tag"] = call.tag;
  if (call.purpose != 0) json["purpose"] = PurposeText(UnpackPurpose(call.purpose), nullptr);
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

}  // namespace

std::string DumpsAsJson(const std::vector<DumpReport>& reports) {
  Json whole;
  whole["version"] = 1;
  Json& dumps = whole["dumps"] = Json::array();
  for (const DumpReport& report : reports)
    dumps.push_back(ReportAsJson(report));
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
