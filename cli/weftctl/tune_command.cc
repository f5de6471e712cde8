// PrintTuning. Nothing is computed here: model, choices and times come from LoadModel, Choose and ModelTable, which groups go by,
// so what is shown is what they do, but for WEFT_COMBINE. MembersOf is the one list of a Tuning's members for text and JSON.
#include <cmath>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/host.h"
#include "base/options.h"
#include "base/pages.h"
#include "cli/weftctl/commands.h"
#include "comm/select/load_model.h"
#include "comm/select/model_cache.h"
#include "comm/select/predict.h"
#include "comm/select/tuning.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

// The numbers of ranks that are shown.
constexpr int kTuneRankCounts[] = {2, 4, 8};

// The choices of a Tuning by name, in the order in which they are shown; kNever is "never".
std::vector<std::pair<const char*, uint64_t>> MembersOf(const Tuning& tuning) {
  return {{"slot_limit_bytes", tuning.slot_limit_bytes},
          {"stage_piece_bytes", tuning.stage_piece_bytes},
          {"stage_ring_bytes", tuning.stage_ring_bytes},
          {"stage_lap_bytes", tuning.stage_lap_bytes},
          {"slot_ring_bytes", tuning.slot_ring_bytes},
          {"stream_stage", tuning.stream_stage},
          {"combine", tuning.combine},
          {"stream_stage_min_bytes", tuning.stream_stage_min_bytes},
          {"stream_out_min_bytes", tuning.stream_out_min_bytes},
          {"single_copy_min_bytes", tuning.single_copy_min_bytes},
          {"single_copy_broadcast_min_bytes", tuning.single_copy_broadcast_min_bytes},
          {"single_copy_rooted_min_bytes", tuning.single_copy_rooted_min_bytes},
          {"single_copy_message_min_bytes", tuning.single_copy_message_min_bytes},
          {"spins", tuning.spins},
          {"yields", tuning.yields}};
}

std::string Number(uint64_t value) {
  return value == kNever ? "never" : std::to_string(value);
}

std::string Microseconds(double ns) {
  return std::isfinite(ns) ? fmt::format("{:.2f}", ns / 1e3) : "-";
}

std::string Origin(const LoadedModel& loaded) {
  const char* const note = loaded.complete ? "" : ", not all of it for lack of time";
  switch (loaded.origin) {
    case ModelOrigin::kStatic:
      return "constants (WEFT_TUNE=static)";
    case ModelOrigin::kFile:
      return fmt::format("from {}, measured {} s ago{}", loaded.path, loaded.age_s, note);
    case ModelOrigin::kMeasured:
      break;
  }
  return fmt::format("measured now, in {:.1f} ms{}; {}", static_cast<double>(loaded.took_ns) / 1e6,
                     note, loaded.path.empty() ? "not kept" : "kept in " + loaded.path);
}

std::string Predictions(const MachineModel& model, int ranks) {
  std::string text = fmt::format("\n{} ranks, predicted us:\n  {:<14} {:>9}  {:<11}  {:<9}", ranks,
                                 "operation", "bytes", "private", "symmetric");
  for (const Protocol protocol : kRankProtocols)
    text += fmt::format(" {:>11}", ProtocolName(protocol));
  text += "\n";
  for (const ModelRow& row : ModelTable(model, ranks)) {
    text += fmt::format("  {:<14} {:>9}  {:<11}  {:<9}", row.operation, row.bytes,
                        ProtocolName(row.private_protocol), ProtocolName(row.symmetric_protocol));
    for (const double ns : row.ns)
      text += fmt::format(" {:>11}", Microseconds(ns));
    text += "\n";
  }
  return text;
}

std::string TuneAsText(const HostFacts& host, const LoadedModel& loaded) {
  const MachineModel& model = loaded.model;
  std::string text = fmt::format(
      "machine: {}, {:g} cores on {} CPUs, caches {}, {} and {}{}, kernel {}\ncosts: {}\n",
      host.cpu_model, host.cores, host.cpus, FormatBytes(model.l1_bytes),
      FormatBytes(model.l2_bytes), FormatBytes(model.l3_bytes), host.hypervisor ? ", virtual" : "",
      host.kernel_release, Origin(loaded));
  for (const ModelField& field : ModelFields())
    text += fmt::format("  {:<27} {:>10.2f}  {}\n", field.name, model.*field.value, field.meaning);
  text += fmt::format("\n{:<33}", "tuning");
  for (const int ranks : kTuneRankCounts)
    text += fmt::format(" {:>10}", fmt::format("{} ranks", ranks));
  text += "\n";
  const size_t count = MembersOf(Tuning{}).size();
  for (size_t i = 0; i < count; ++i) {
    text += fmt::format("  {:<31}", MembersOf(Tuning{})[i].first);
    for (const int ranks : kTuneRankCounts)
      text += fmt::format(" {:>10}", Number(MembersOf(Choose(model, ranks))[i].second));
    text += "\n";
  }
  for (const int ranks : kTuneRankCounts)
    text += Predictions(model, ranks);
  return text;
}

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
  for (size_t i = 0; i < kRankProtocols.size(); ++i) {
    if (std::isfinite(row.ns[i])) ns[ProtocolName(kRankProtocols[i])] = row.ns[i];
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

}  // namespace

CommandOutput PrintTuning(bool measure, bool json) {
  const HostFacts host = ReadHostFacts();
  const LoadedModel loaded =
      LoadModel(measure ? "measure" : GetOptions().tune, host, ModelCacheFolder(), UnixSeconds());
  return {json ? TuneAsJson(host, loaded) : TuneAsText(host, loaded), {}};
}

}  // namespace weft
