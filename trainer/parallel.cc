// The trainer knows weft through its public headers alone, to show that they suffice, and only
// here. Where a param lies is asked for at each use (ViewOf), because it may be another place each
// time. weft's results become exceptions here, as the rest of the trainer has them.
#include "trainer/parallel.h"

#include <algorithm>
#include <chrono>

#include <fmt/core.h>

#include "weft/collective.h"
#include "weft/error.h"

#include "trainer/failure.h"
#include "trainer/ops.h"

namespace weft::trainer {
namespace {

void Narrow(const float* values, NumberType type, std::vector<uint16_t>& half) {
  const Ops<float>& ops = GetOps<float>();
  (type == NumberType::kBf16 ? ops.to_bf16 : ops.to_fp16)(values, half.data(), half.size());
}

}  // namespace

void Check(weft_result_t result, const char* attempted) {
  if (result == WEFT_SUCCESS) return;
  weft_error_info_t info = {};
  info.struct_size = sizeof info;
  weft_last_error_info(&info);
  throw WeftFailure(
      fmt::format("{}: {} ({})", attempted, weft_last_error(), weft_result_name(result)), result,
      info.world_rank, info.pid);
}

DataParallel::DataParallel(weft_group_t group, const std::vector<UnitSpec>& units,
                           const TrainConfig& config)
    : group_(group), param_type_(config.param_type) {
  int rank = 0, size = 1;
  Check(weft_group_rank(group, &rank), "asking for the rank");
  Check(weft_group_size(group, &size), "asking for the group's size");
  rank_ = size_t(rank);
  size_ = size_t(size);
  Create(units, config);
}

DataParallel::DataParallel(const std::vector<UnitSpec>& units, const TrainConfig& config,
                           size_t rank, size_t size)
    : group_(nullptr), param_type_(config.param_type), rank_(rank), size_(size) {
  Create(units, config);
}

weft_shard_plan_t DataParallel::PlanOf(const std::vector<UnitSpec>& units,
                                       const TrainConfig& config, size_t rank, size_t size) {
  return DataParallel(units, config, rank, size).plan();
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

void DataParallel::Load(size_t unit, size_t param, const float* values) {
  std::vector<uint16_t> half;
  const void* from = values;
  if (param_type_ != NumberType::kFloat32 && values != nullptr) {
    half.resize(units_[unit].counts[param]);
    Narrow(values, param_type_, half);
    from = half.data();
  }
  const weft_shard_load_t load = {.struct_size = sizeof load, .values = from};
  Check(weft_shard_param_load(units_[unit].params[param], &load), "sending the initial parameters");
}

std::vector<float> DataParallel::Read(size_t unit, size_t param) {
  const size_t count = units_[unit].counts[param];
  std::vector<std::byte> bytes(count * BytesOf(param_type_));
  const weft_shard_read_t read = {
      .struct_size = sizeof read, .values = bytes.data(), .root = WEFT_SHARD_EVERY_RANK};
  Check(weft_shard_param_read(units_[unit].params[param], &read), "reading a parameter");
  std::vector<float> values(count);
  GetOps<float>().widen({bytes.data(), param_type_}, values.data(), count);
  return values;
}

double DataParallel::loss_scale() {
  double scale = 1;
  Check(weft_shard_loss_scale(context_, &scale), "asking for the loss scale");
  return scale;
}

double DataParallel::Sum(double value) {
  double sum = 0;
  Check(weft_all_reduce(&value, &sum, 1, WEFT_FLOAT64, WEFT_SUM, group_, nullptr, nullptr),
        "adding up the loss");
  return sum;
}

std::vector<double> DataParallel::Gather(double value) {
  std::vector<double> all(size_);
  Check(weft_all_gather(&value, all.data(), 1, WEFT_FLOAT64, group_, nullptr, nullptr),
        "collecting the losses");
  return all;
}

uint64_t DataParallel::Any(uint64_t bits) {
  Check(weft_all_reduce(&bits, &bits, 1, WEFT_UINT64, WEFT_BIT_OR, group_, nullptr, nullptr),
        "asking what others were asked for");
  return bits;
}

void DataParallel::HearFirst(void* values, size_t bytes) {
  Check(weft_broadcast(values, values, bytes, WEFT_UINT8, 0, group_, nullptr, nullptr),
        "hearing what rank 0 has chosen");
}

RankReports DataParallel::Report() const {
  RankReports report;
  report.summary.struct_size = sizeof report.summary;
  report.ranks.resize(size_);
  report.ranks[0].struct_size = sizeof report.ranks[0];
  Check(weft_shard_context_report(context_, &report.summary, report.ranks.data(), int(size_)),
        "asking what the ranks keep");
  return report;
}

void DataParallel::CheckSamples(const void* samples, size_t bytes) {
  Check(weft_shard_check_samples(context_, samples, bytes), "comparing samples");
}

void DataParallel::BeginStep() {
  Check(weft_shard_step_begin(context_, nullptr), "beginning a step");
}

void DataParallel::BeginEvaluation(size_t microbatches) {
  // The count is the tag: steps of as many micro-batches use the units in the same order.
  const weft_shard_step_t step = {
      .struct_size = sizeof step, .mode = WEFT_SHARD_EVAL, .tag = microbatches};
  Check(weft_shard_step_begin(context_, &step), "beginning an evaluation");
}

void DataParallel::BeginMicrobatch(size_t index, bool last) {
  const weft_shard_microbatch_t microbatch = {
      .struct_size = sizeof microbatch, .index = int(index), .last = last ? 1 : 0};
  Check(weft_shard_microbatch_begin(context_, &microbatch), "beginning a micro-batch");
}

void DataParallel::EndMicrobatch() {
  Check(weft_shard_microbatch_end(context_, nullptr), "ending a micro-batch");
}

StepWaits DataParallel::Finish() {
  step_result_.struct_size = sizeof step_result_;
  Check(weft_shard_finish(context_, nullptr, &step_result_), "reducing the gradients");
  // weft says how long pre_ calls have waited in all. Forward's take little time beside that.
  const int64_t in_forward = std::min(entering_ns_, step_result_.gather_exposed_ns);
  entering_ns_ = 0;
  return {.gather_forward_s = double(in_forward) * 1e-9,
          .gather_backward_s = double(step_result_.gather_exposed_ns - in_forward) * 1e-9,
          .reduce_s = double(step_result_.comm_exposed_ns) * 1e-9};
}

weft_shard_update_result_t DataParallel::Update(double learning_rate, double clip,
                                                uint64_t requests, const weft_shard_norm_t* norm) {
  weft_shard_update_t update = {};
  update.struct_size = sizeof update;
  update.learning_rate = learning_rate;
  update.norm_max = clip;
  update.requests = requests;
  update.norm = norm;
  weft_shard_update_result_t result = {};
  result.struct_size = sizeof result;
  Check(weft_shard_optimizer_step(context_, &update, &result), "updating the parameters");
  return result;
}

weft_shard_norm_t DataParallel::GradientNorm() {
  weft_shard_norm_t norm = {};
  norm.struct_size = sizeof norm;
  Check(weft_shard_gradient_norm(context_, nullptr, &norm), "finding the norm of the gradients");
  return norm;
}

void DataParallel::DropGradients() {
  Check(weft_shard_drop_gradients(context_, nullptr), "dropping the gradients");
}

void DataParallel::EndStep() {
  Check(weft_shard_step_end(context_), "ending a step");
}

void DataParallel::Abort(const std::string& reason) {
  weft_shard_abort_step(context_, reason.c_str());
}

UnitView<float> DataParallel::ViewOf(Unit& unit) {
  for (size_t p = 0; p < unit.params.size(); p++) {
    weft_shard_view_t view = {};
    view.struct_size = sizeof view;
    Check(weft_shard_param_view(unit.params[p], &view), "asking where a parameter is");
    unit.view[p] = {
        {view.data, param_type_}, static_cast<float*>(view.grad), view.count, view.grad_unset != 0};
  }
  return unit.view;
}

UnitView<float> DataParallel::PreForward(size_t unit) {
  const auto before = std::chrono::steady_clock::now();
  Check(weft_shard_pre_forward(units_[unit].handle, nullptr), "entering a unit");
  entering_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - before).count();
  return ViewOf(units_[unit]);
}

void DataParallel::PostForward(size_t unit) {
  Check(weft_shard_post_forward(units_[unit].handle, nullptr), "leaving a unit");
}

UnitView<float> DataParallel::PreBackward(size_t unit) {
  Check(weft_shard_pre_backward(units_[unit].handle, nullptr), "entering a unit backward");
  return ViewOf(units_[unit]);
}

void DataParallel::GradReady(size_t unit, size_t param) {
  Check(weft_shard_grad_ready(units_[unit].params[param], nullptr, nullptr),
        "announcing a gradient");
}

void DataParallel::PostBackward(size_t unit) {
  Check(weft_shard_post_backward(units_[unit].handle, nullptr), "leaving a unit backward");
}

}  // namespace weft::trainer
