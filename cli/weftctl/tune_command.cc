#include "cli/weftctl/tune_command.h"

#include <cmath>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "base/pages.h"
#include "comm/select/model_cache.h"
#include "comm/select/predict.h"
#include "comm/select/tuning.h"

namespace weft {
namespace {

constexpr int kRankCounts[] = {2, 4, 8};

using Members = std::vector<std::pair<const char*, uint64_t>>;

Members MembersOf(const Tuning& tuning) {
  return {{"slot_limit_bytes", tuning.slot_limit_bytes},
          {"stage_piece_bytes", tuning.stage_piece_bytes},
          {"stream_stage", tuning.stream_stage},
          {"stream_stage_min_bytes", tuning.stream_stage_min_bytes},
          {"stream_out_min_bytes", tuning.stream_out_min_bytes},
          {"single_copy_min_bytes", tuning.single_copy_min_bytes},
          {"single_copy_broadcast_min_bytes", tuning.single_copy_broadcast_min_bytes},
          {"single_copy_rooted_min_bytes", tuning.single_copy_rooted_min_bytes},
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
  for (int p = 0; p < kProtocolCount; ++p)
    text += fmt::format(" {:>11}", ProtocolName(static_cast<Protocol>(p)));
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

std::string AsText(const HostFacts& host, const LoadedModel& loaded) {
  const MachineModel& model = loaded.model;
  std::string text = fmt::format(
      "machine: {}, {:g} cores on {} CPUs, caches {}, {} and {}{}, kernel {}\ncosts: {}\n",
      host.cpu_model, host.cores, host.cpus, FormatBytes(model.l1_bytes),
      FormatBytes(model.l2_bytes), FormatBytes(model.l3_bytes), host.hypervisor ? ", virtual" : "",
      host.kernel_release, Origin(loaded));
  for (const ModelField& field : ModelFields())
    text += fmt::format("  {:<27} {:>10.2f}  {}\n", field.name, model.*field.value, field.meaning);
  text += fmt::format("\n{:<33}", "tuning");
  for (const int ranks : kRankCounts)
    text += fmt::format(" {:>10}", fmt::format("{} ranks", ranks));
  text += "\n";
  const size_t count = MembersOf(Tuning{}).size();
  for (size_t i = 0; i < count; ++i) {
    text += fmt::format("  {:<31}", MembersOf(Tuning{})[i].first);
    for (const int ranks : kRankCounts)
      text += fmt::format(" {:>10}", Number(MembersOf(Choose(model, ranks))[i].second));
    text += "\n";
  }
  for (const int ranks : kRankCounts)
    text += Predictions(model, ranks);
  return text;
}

nlohmann::ordered_json TuningAsJson(const MachineModel& model, int ranks) {
  nlohmann::ordered_json tuning = {{"ranks", ranks}};
  for (const auto& [name, value] : MembersOf(Choose(model, ranks))) {
    if (value == kNever) {
      tuning[name] = nullptr;
    } else {
      tuning[name] = value;
    }
  }
  return tuning;
}

nlohmann::ordered_json RowAsJson(const ModelRow& row, int ranks) {
  nlohmann::ordered_json ns = nlohmann::ordered_json::object();
  for (int p = 0; p < kProtocolCount; ++p) {
    const double value = row.ns[static_cast<size_t>(p)];
    if (std::isfinite(value)) ns[ProtocolName(static_cast<Protocol>(p))] = value;
  }
  return {{"ranks", ranks},
          {"operation", row.operation},
          {"bytes", row.bytes},
          {"private", ProtocolName(row.private_protocol)},
          {"symmetric", ProtocolName(row.symmetric_protocol)},
          {"ns", ns}};
}

std::string AsJson(const HostFacts& host, const LoadedModel& loaded) {
  const MachineModel& model = loaded.model;
  nlohmann::ordered_json costs = nlohmann::ordered_json::object();
  for (const ModelField& field : ModelFields())
    costs[field.name] = model.*field.value;
  nlohmann::ordered_json tunings = nlohmann::ordered_json::array();
  nlohmann::ordered_json predictions = nlohmann::ordered_json::array();
  for (const int ranks : kRankCounts) {
    tunings.push_back(TuningAsJson(model, ranks));
    for (const ModelRow& row : ModelTable(model, ranks))
      predictions.push_back(RowAsJson(row, ranks));
  }
  const nlohmann::ordered_json whole = {{"version", 1},
                                        {"machine",
                                         {{"cpu", host.cpu_model},
                                          {"cpus", host.cpus},
                                          {"cores", model.cores},
                                          {"l1_bytes", model.l1_bytes},
                                          {"l2_bytes", model.l2_bytes},
                                          {"l3_bytes", model.l3_bytes},
                                          {"virtual", host.hypervisor},
                                          {"kernel", host.kernel_release}}},
                                        {"origin", ModelOriginName(loaded.origin)},
                                        {"path", loaded.path},
                                        {"age_s", loaded.age_s},
                                        {"took_ns", loaded.took_ns},
                                        {"complete", loaded.complete},
                                        {"model", costs},
                                        {"tunings", tunings},
                                        {"predictions", predictions}};
  return whole.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string FormatTune(const HostFacts& host, const LoadedModel& loaded, bool json) {
  return json ? AsJson(host, loaded) : AsText(host, loaded);
}

std::string FormatTune(bool measure, bool json) {
  const HostFacts host = ReadHostFacts();
  const LoadedModel loaded =
      LoadModel(measure ? "measure" : GetOptions().tune, host, ModelCacheFolder(), UnixSeconds());
  return FormatTune(host, loaded, json);
}

}  // namespace weft
