// The JSON of report.h. Keys and types are those of nccl-tests, so that its readers can read it: that is why booleans are texts
// and a root is padded. What it has no key for is under "weft", "groups" and "reproducibility". Reports are passed on, so of
// the environment only what names no secret is written.
#include <array>
#include <cerrno>
#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "bench/weft_perf/report.h"

namespace weft::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFileVersion = 3;

Json Number(double value) {
  return std::isnan(value) ? Json("nan") : Json(value);
}

const char* Bool(bool value) {
  return value ? "true" : "false";
}

Json ConfigJson(const Report& report) {
  const Options& o = report.options;
  Json config;
  config["nthreads"] = o.threads;
  config["ngpus"] = o.ranks_per_thread;
  config["minimum_bytes"] = o.min_bytes;
  config["maximum_bytes"] = o.max_bytes;
  if (o.step_factor > 1) {
    config["step_factor"] = o.step_factor;
  } else {
    config["step_bytes"] = o.step_bytes;
  }
  config["warmup_iters"] = o.warmup;
  config["iterations"] = o.iterations;
  config["aggregated_iterations"] = o.aggregated;
  config["validation"] = o.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = Bool(o.blocking != Blocking::kNone);
  config["per_iter_timing"] = Bool(o.per_iteration);
  config["per_iter_skip"] = o.per_iteration_skip;
  config["parallel_init"] = Bool(o.parallel_init != 0);
  config["devices"] = Json::array();
  for (const Device& device : report.devices) {
    config["devices"].push_back({{"rank", device.rank},
                                 {"group", device.group},
                                 {"pid", device.pid},
                                 {"hostname", device.host},
                                 {"device", device.device},
                                 {"device_hex", device.place},
                                 {"device_info", device.model}});
  }
  return config;
}

Json CellJson(const Cell& cell, bool cpu_time) {
  Json json;
  json[cpu_time ? "cpu_time" : "time"] = Number(cell.time_us);
  json["alg_bw"] = Number(cell.bandwidth.algorithm);
  json["bus_bw"] = Number(cell.bandwidth.bus);
  json["nwrong"] = cell.wrong.has_value() ? Number(*cell.wrong) : Json(nullptr);
  return json;
}

// What each group of NCCL_TESTS_SPLIT measured.
Json GroupsJson(const Row& row, const Report& report) {
  Json groups = Json::array();
  for (size_t i = 0; i < row.out_of_place.groups.size(); ++i) {
    Json json;
    json["group"] = report.groups[i].color;
    json["ranks"] = report.groups[i].ranks.size();
    const auto add = [&](const char* name, const GroupCell& cell) {
      json[name] = {{"time", Number(cell.time_us)},
                    {"alg_bw", Number(cell.bandwidth.algorithm)},
                    {"bus_bw", Number(cell.bandwidth.bus)}};
    };
    add("out_of_place", row.out_of_place.groups[i]);
    add("in_place", row.in_place.groups[i]);
    groups.push_back(std::move(json));
  }
  return groups;
}

Json IterationsJson(const Iterations& iterations, int skipped) {
  const IterationSummary& summary = iterations.summary;
  Json json;
  json["skipped_iterations"] = skipped;
  json["min_us"] = Number(summary.min);
  json["max_us"] = Number(summary.max);
  json["avg_us"] = Number(summary.mean);
  json["p50_us"] = Number(summary.p50);
  json["p95_us"] = Number(summary.p95);
  json["p99_us"] = Number(summary.p99);
  json["stdev_us"] = Number(summary.deviation);
  json["cv_pct"] = Number(summary.variation_percent());
  json["times_us"] = iterations.times_us;
  json["per_process_max_times_us"] = iterations.of_ranks_us;
  return json;
}

Json RowJson(const Row& row, const Report& report) {
  const Options& options = report.options;
  Json json;
  json["size"] = row.bytes;
  json["count"] = row.count;
  json["type"] = row.type;
  json["redop"] = row.reduction;
  json["root"] = Printf("%6d", row.root);
  json["out_of_place"] = CellJson(row.out_of_place, options.cpu_time);
  if (row.out_of_place.iterations.has_value()) {
    json["out_of_place_per_iter"] =
        IterationsJson(*row.out_of_place.iterations, options.per_iteration_skip);
  }
  json["in_place"] = CellJson(row.in_place, options.cpu_time);
  if (row.in_place.iterations.has_value()) {
    json["in_place_per_iter"] =
        IterationsJson(*row.in_place.iterations, options.per_iteration_skip);
  }
  if (!row.out_of_place.groups.empty()) json["groups"] = GroupsJson(row, report);
  json["actual_iterations"] = options.iterations;
  json["experiment_name"] = options.operation->title;
  return json;
}

// What nccl-tests has no key for.
Json WeftJson(const Report& report) {
  const Options& o = report.options;
  Json json;
  json["buffer_mode"] = o.hot ? "hot" : "rotating";
  json["memory"] = MemoryName(o.memory);
  json["asynchronous"] = o.asynchronous;
  json["ranks"] = report.devices.size();
  json["cpu_model"] = report.devices.empty() ? "" : report.devices.front().model;
  json["governor"] = report.governor;
  return json;
}

}  // namespace

std::string JsonText(const Report& report) {
  Json json;
  json["version"] = kFileVersion;
  json["start_time"] = report.start_time;
  json["args"] = report.arguments;
  json["env"] = report.environment;
  json["nccl_version"] = report.library_version;
  json["weft"] = WeftJson(report);
  json["config"] = ConfigJson(report);
  json["results"] = Json::array();
  for (const Row& row : report.rows)
    json["results"].push_back(RowJson(row, report));
  if (report.totals.has_value()) {
    const Totals& totals = *report.totals;
    json["out_of_bounds"] = {{"count", totals.out_of_bounds},
                             {"okay", Bool(totals.out_of_bounds == 0)}};
    json["average_bus_bandwidth"] = {
        {"bandwidth", Number(totals.bus_bandwidth)},
        {"okay", totals.least_bandwidth == -1 ? "unchecked" : Bool(!totals.slow())}};
  }
  if (report.repro.has_value()) {
    json["reproducibility"] = Json::parse(report.repro->JsonText());
  }
  json["errors"] = report.errors;
  json["end_time"] = report.end_time;
  // Names from the system need not be UTF-8; a bad byte must not cost the report.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<std::string> ReportedEnvironment(std::span<const std::string> environment) {
  constexpr std::array kPrefixes = {"WEFT_", "NCCL_", "UCX_", "SLURM_", "PMI", "OMP_"};
  constexpr std::array kSecretWords = {"SECRET", "TOKEN", "PASSWORD", "_KEY", "JWT"};
  std::vector<std::string> reported;
  for (const std::string& entry : environment) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    bool keep = false;
    for (const char* prefix : kPrefixes)
      keep = keep || name.starts_with(prefix);
    for (const char* word : kSecretWords) {
      keep = keep && name.find(word) == std::string_view::npos;
    }
    if (keep) reported.push_back(entry);
  }
  return reported;
}

std::FILE* CreateReportFile(const std::string& path, std::string* used) {
  *used = path;
  // x: an existing report is never overwritten.
  std::FILE* file = std::fopen(path.c_str(), "wx");
  for (int i = 0; file == nullptr && errno == EEXIST && i < 10000; ++i) {
    *used = Printf("%s.%d", path.c_str(), i);
    file = std::fopen(used->c_str(), "wx");
  }
  return file;
}

}  // namespace weft::perf
