#include "trainer/parallel.h"

#include <fmt/core.h>

#include "weft/collective.h"
#include "weft/error.h"

#include "trainer/failure.h"

namespace weft::trainer {

void Check(weft_result_t result, const char* attempted) {
  if (result == WEFT_SUCCESS) return;
  throw RunFailure(
      fmt::format("{}: {} ({})", attempted, weft_last_error(), weft_result_name(result)));
}

DataParallel::DataParallel(weft_group_t group, const std::vector<UnitSpec>& units,
                           const ParallelConfig& config)
    : group_(group) {
  int rank = 0, size = 1;
  Check(weft_group_rank(group, &rank), "asking for the rank");
  Check(weft_group_size(group, &size), "asking for the group's size");
  rank_ = size_t(rank);
  size_ = size_t(size);
  try {
    Create(units, config);
  } catch (...) {
    Destroy();
    throw;
  }
}

DataParallel::~DataParallel() {
  Destroy();
}

void DataParallel::Destroy() {
  weft_shard_context_destroy(context_);
  weft_mesh_destroy(mesh_);
  context_ = nullptr;
  mesh_ = nullptr;
}

void DataParallel::Create(const std::vector<UnitSpec>& units, const ParallelConfig& config) {
  Check(weft_mesh_create(group_, nullptr, &mesh_), "making the mesh");
  weft_shard_config_t shard = {};
  shard.struct_size = sizeof shard;
  shard.no_overlap = config.no_overlap;
  shard.bucket_bytes = config.bucket_bytes;
  Check(weft_shard_context_create(mesh_, &shard, &context_), "making the shard context");
  for (const UnitSpec& unit : units)
    Declare(unit);
  weft_shard_plan_t plan = {};
  plan.struct_size = sizeof plan;
  Check(weft_shard_context_finalize(context_, &plan), "agreeing on the parameters");
  bucket_count_ = plan.bucket_count;
  for (const Unit& unit : units_) {
    std::vector<ParamView<float>>& views = views_.emplace_back();
    for (weft_shard_param_t param : unit.params) {
      weft_shard_view_t view = {};
      view.struct_size = sizeof view;
      Check(weft_shard_param_view(param, &view), "asking where a parameter lives");
      views.push_back({static_cast<float*>(view.data), static_cast<float*>(view.grad), view.count});
    }
  }
}

void DataParallel::Declare(const UnitSpec& spec) {
  Unit& unit = units_.emplace_back();
  Check(weft_shard_unit_begin(context_, spec.name.c_str(), nullptr, &unit.handle),
        "declaring a unit");
  for (const ParamSpec& param : spec.params) {
    weft_shard_param_t handle = nullptr;
    Check(weft_shard_unit_add_param(unit.handle, param.name.c_str(), param.shape.data(),
                                    int(param.shape.size()), WEFT_FLOAT32, 0, &handle),
          "declaring a parameter");
    unit.params.push_back(handle);
  }
  Check(weft_shard_unit_seal(unit.handle), "closing a unit");
}

void DataParallel::Broadcast() {
  Check(weft_shard_context_broadcast(context_, 0), "sending the initial parameters");
}

double DataParallel::Sum(double value) {
  double sum = 0;
  Check(weft_all_reduce(&value, &sum, 1, WEFT_FLOAT64, WEFT_SUM, group_, nullptr, nullptr),
        "adding up the loss");
  return sum;
}

void DataParallel::BeginStep(bool train) {
  Check(weft_shard_step_begin(context_, train ? WEFT_SHARD_TRAIN : WEFT_SHARD_EVAL, 0),
        "beginning a step");
}

void DataParallel::BeginMicrobatch(size_t index, bool last) {
  Check(weft_shard_microbatch_begin(context_, int(index), last), "beginning a micro-batch");
}

void DataParallel::EndMicrobatch() {
  Check(weft_shard_microbatch_end(context_, nullptr), "ending a micro-batch");
}

StepComm DataParallel::Finish() {
  weft_shard_step_result_t result = {};
  result.struct_size = sizeof result;
  Check(weft_shard_finish(context_, nullptr, &result), "reducing the gradients");
  return {result.comm_exposed_ns, result.reduced_bytes};
}

void DataParallel::EndStep() {
  Check(weft_shard_step_end(context_), "ending a step");
}

void DataParallel::Abort(const std::string& reason) {
  weft_shard_abort_step(context_, reason.c_str());
}

void DataParallel::PreForward(size_t unit) {
  Check(weft_shard_pre_forward(units_[unit].handle, nullptr), "entering a unit");
}

void DataParallel::PostForward(size_t unit) {
  Check(weft_shard_post_forward(units_[unit].handle, nullptr), "leaving a unit");
}

void DataParallel::PreBackward(size_t unit) {
  Check(weft_shard_pre_backward(units_[unit].handle, nullptr), "entering a unit backward");
}

void DataParallel::GradReady(size_t unit, size_t param) {
  Check(weft_shard_grad_ready(units_[unit].params[param], nullptr, nullptr),
        "announcing a gradient");
}

void DataParallel::PostBackward(size_t unit) {
  Check(weft_shard_post_backward(units_[unit].handle, nullptr), "leaving a unit backward");
}

}  // namespace weft::trainer
