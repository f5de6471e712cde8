#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "cli/weftctl/tune_report.h"
#include "comm/select/predict.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json TuningAsJson(const MachineModel& model, int ranks) {
  Json tuning;
  tuning["ranks"] = ranks;
  for (const auto& [name, value] : MembersOf(Choose(model, ranks))) {
    if (value == kNever) {
      tuning[name] = nullptr;
    } else {
      tuning[name] = value;
    }
  }
  return tuning;
}

Json RowAsJson(const ModelRow& row, int ranks) {
  Json json;
  json["ranks"] = ranks;
  json["operation"] = row.operation;
  json["bytes"] = row.bytes;
  json["private"] = ProtocolName(row.private_protocol);
  json["symmetric"] = ProtocolName(row.symmetric_protocol);
  Json& ns = json["ns"] = Json::object();
  for (int p = 0; p < kProtocolCount; ++p) {
    const double value = row.ns[static_cast<size_t>(p)];
    if (std::isfinite(value)) ns[ProtocolName(static_cast<Protocol>(p))] = value;
  }
  return json;
}

Json MachineAsJson(const HostFacts& host, const MachineModel& model) {
  Json json;
  json["cpu"] = host.cpu_model;
  json["cpus"] = host.cpus;
  json["cores"] = model.cores;
  json["l1_bytes"] = model.l1_bytes;
  json["l2_bytes"] = model.l2_bytes;
  json["l3_bytes"] = model.l3_bytes;
  json["virtual"] = host.hypervisor;
  json["kernel"] = host.kernel_release;
  return json;
}

}  // namespace

std::string TuneAsJson(const HostFacts& host, const LoadedModel& loaded) {
  const MachineModel& model = loaded.model;
  Json whole;
  whole["version"] = 1;
  whole["machine"] = MachineAsJson(host, model);
  whole["origin"] = ModelOriginName(loaded.origin);
  whole["path"] = loaded.path;
  whole["age_s"] = loaded.age_s;
  whole["took_ns"] = loaded.took_ns;
  whole["complete"] = loaded.complete;
  Json costs = Json::object();
  for (const ModelField& field : ModelFields())
    costs[field.name] = model.*field.value;
  Json tunings = Json::array();
  Json predictions = Json::array();
  for (const int ranks : kTuneRankCounts) {
    tunings.push_back(TuningAsJson(model, ranks));
    for (const ModelRow& row : ModelTable(model, ranks))
      predictions.push_back(RowAsJson(row, ranks));
  }
  whole["model"] = std::move(costs);
  whole["tunings"] = std::move(tunings);
  whole["predictions"] = std::move(predictions);
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
