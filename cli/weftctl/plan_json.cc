#include <utility>

#include <nlohmann/json.hpp>

#include "cli/weftctl/plan_report.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

Json InputAsJson(const EstimateInput& input) {
  Json json;
  json["params"] = input.param_count;
  json["ranks"] = input.ranks;
  json["element_bytes"] = {{"params", input.mix.params},
                           {"main", input.mix.main},
                           {"gradients", input.mix.gradients},
                           {"optimizer", input.mix.optimizer}};
  json["largest_unit"] = input.largest_unit;
  json["micro_batches"] = input.micro_batches;
  json["accumulation"] = AccumulationName(input.accumulation);
  json["shard_group"] = input.shard_group > 0 ? Json(input.shard_group) : Json();
  json["budget_bytes"] = input.budget_bytes > 0 ? Json(input.budget_bytes) : Json();
  return json;
}

Json EstimateAsJson(const Estimate& estimate, bool budget) {
  const RestBytes& rest = estimate.rest;
  Json json;
  json["strategy"] = StrategyName(estimate.strategy);
  json["rest_bytes"] = {{"params", rest.params},
                        {"main", rest.main},
                        {"gradients", rest.gradients},
                        {"optimizer", rest.optimizer},
                        {"total", rest.Total()}};
  json["kept_params"] = estimate.kept_params;
  json["forward_bytes"] = estimate.forward_bytes;
  json["backward_bytes"] = estimate.backward_bytes;
  json["peak_bytes"] = estimate.peak_bytes;
  json["sent_elements"] = {{"all", estimate.sent.all},
                           {"inside", estimate.sent.inside},
                           {"across", estimate.sent.across},
                           {"total", estimate.sent.Total()}};
  json["sent_bytes"] = estimate.sent_bytes;
  json["fits"] = budget ? Json(estimate.fits) : Json();
  return json;
}

Json DeepSpeedAsJson(const DeepSpeedRow& row) {
  Json json;
  json["stage"] = row.stage;
  json["offload_params"] = row.offloads_params;
  json["offload_optimizer"] = row.offloads_optimizer;
  json["device_bytes"] = row.device_bytes;
  json["host_bytes"] = row.host_bytes;
  json["host_bytes_zero_init"] = row.host_bytes_cut;
  return json;
}

}  // namespace

std::string PlanAsJson(const PlanReport& report) {
  const bool budget = report.input.budget_bytes > 0;
  Json strategies = Json::array();
  for (const Estimate& one : report.estimates)
    strategies.push_back(EstimateAsJson(one, budget));
  const Estimate* const choice = budget ? ChooseEstimate(report.estimates) : nullptr;
  Json whole;
  whole["version"] = 1;
  whole["input"] = InputAsJson(report.input);
  whole["strategies"] = std::move(strategies);
  whole["choice"] = choice == nullptr ? Json() : Json(StrategyName(choice->strategy));
  if (!report.deepspeed.empty()) {
    Json& rows = whole["deepspeed"] = Json::array();
    for (const DeepSpeedRow& row : report.deepspeed)
      rows.push_back(DeepSpeedAsJson(row));
  }
  return whole.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace weft
