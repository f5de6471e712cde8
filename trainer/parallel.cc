// The trainer knows weft through its public headers alone, to show that they suffice, and only here. Where a param lies is
// asked for at each use (ViewOf), because it may be another place each time. weft's results become exceptions here, as the
// rest of the trainer has them.
#include "trainer/parallel.h"

#include <algorithm>

#include <fmt/core.h>

#include "weft/collective.h"
#include "weft/error.h"
#include "weft/shard_param_groups.h"

#include "trainer/failure.h"
#include "trainer/ops.h"
#include "trainer/optimizer_setup.h"

namespace weft::trainer {
namespace {

weft_dtype_t DtypeOf(NumberType type) {
  switch (type) {
    case NumberType::kFloat32:
      return WEFT_FLOAT32;
    case NumberType::kFloat64:
      return WEFT_FLOAT64;
    case NumberType::kBf16:
      return WEFT_BFLOAT16;
    case NumberType::kFp16:
      return WEFT_FLOAT16;
  }
  return WEFT_FLOAT32;
}

void Narrow(const float* values, NumberType type, std::vector<uint16_t>& half) {
  const Ops<float>& ops = GetOps<float>();
  (type == NumberType::kBf16 ? ops.to_bf16 : ops.to_fp16)(values, half.data(), half.size());
}

void MultiplyFloats(const float* a, const float* b, float* c, size_t m, size_t n, size_t k,
                    void* user) {
  static_cast<Matmul<float>*>(user)->Forward(a, b, {}, c, {m, k, n});
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

void DataParallel::CreateMesh(const TrainConfig& config) {
  weft_mesh_config_t mesh = {};
  mesh.struct_size = sizeof mesh;
  mesh.axis_count = 1;
  mesh.axis_names[0] = "data";
  mesh.axis_sizes[0] = int(size_);
  if (HasGroups(config.strategy)) {
    const size_t shard = config.shard_group == 0 ? DefaultGroup(size_) : config.shard_group;
    mesh.axis_count = 2;
    mesh.axis_names[0] = "replica";
    mesh.axis_sizes[0] = int(size_ / shard);
    mesh.axis_names[1] = "shard";
    mesh.axis_sizes[1] = int(shard);
  }
  Check(group_ == nullptr ? weft_mesh_create_dry(&mesh, int(rank_), &mesh_)
                          : weft_mesh_create(group_, &mesh, &mesh_),
        "making the mesh");
}

void DataParallel::Create(const std::vector<UnitSpec>& units, const TrainConfig& config) {
  try {
    CreateMesh(config);
    CreateContext(config);
    for (const UnitSpec& unit : units)
      Declare(unit, config);
    HintOrder(units);
    plan_.struct_size = sizeof plan_;
    if (group_ == nullptr) {
      Check(weft_shard_context_plan(context_, &plan_), "planning the run");
    } else {
      Check(weft_shard_context_finalize(context_, &plan_), "agreeing on the parameters");
    }
  } catch (...) {
    Destroy();
    throw;
  }
}

void DataParallel::CreateContext(const TrainConfig& config) {
  weft_shard_config_t shard = {};
  shard.struct_size = sizeof shard;
  shard.no_overlap = config.no_overlap;
  shard.bucket_bytes = config.bucket_bytes;
  shard.first_bucket_bytes = config.bucket_bytes;
  shard.accumulation = config.accumulation;
  shard.fields = WEFT_SHARD_PREFETCH;
  shard.prefetch = int(config.prefetch);
  shard.microbatches = int(config.accumulate);
  shard.memory_budget_bytes = config.memory_budget;
  shard.stable_views = config.views;
  shard.verify_steps = int64_t(config.verify_every);
  weft_shard_offload_t offload = {};
  offload.struct_size = sizeof offload;
  offload.directory = config.offload.c_str();
  offload.params = config.offload_params ? 1 : 0;
  if (!config.offload.empty()) shard.offload = &offload;
  Check(weft_shard_context_create(mesh_, &shard, &context_), "making the shard context");
  weft_optimizer_config_t optimizer = OptimizerOf(config);
  const bool muon = config.optimizer == WEFT_OPTIMIZER_MUON;
  if (muon) {
    // In float32 whatever the model is computed in.
    muon_product_ = MakeMatmul<float>(Precision::kFp32);
    optimizer.product = MultiplyFloats;
    optimizer.product_user = muon_product_.get();
  }
  Check(weft_shard_context_optimizer(context_, &optimizer), "adding the optimizer");
  if (muon) AddMuonGroup(config.muon_factor, optimizer.momentum);
}

void DataParallel::AddMuonGroup(double factor, double momentum) {
  weft_shard_param_group_t muon = {};
  muon.struct_size = sizeof muon;
  muon.kind = WEFT_OPTIMIZER_MUON;
  muon.nesterov = 1;
  muon.momentum = momentum;
  muon.learning_rate_factor = factor;
  muon.fields = WEFT_OPTIMIZER_KIND | WEFT_OPTIMIZER_MOMENTUM;
  Check(weft_shard_param_group_add(context_, &muon, &muon_group_), "adding Muon's params");
}

void DataParallel::Declare(const UnitSpec& spec, const TrainConfig& config) {
  weft_shard_policy_t policy = {};
  policy.struct_size = sizeof policy;
  policy.preset = config.strategy;
  policy.wire = config.reduce_type;
  policy.float32_gradients = BytesOf(param_type_) < sizeof(float) ? 1 : 0;
  // Muon wants whole matrices.
  if (muon_group_ > 0) policy.cut = WEFT_SHARD_CUT_TENSOR;
  Unit& unit = units_.emplace_back();
  Check(weft_shard_unit_begin(context_, spec.name.c_str(), &policy, &unit.handle),
        "declaring a unit");
  for (const ParamSpec& param : spec.params) {
    const weft_shard_param_config_t declared = {
        .struct_size = sizeof declared,
        .name = param.name.c_str(),
        .shape = param.shape.data(),
        .ndim = int(param.shape.size()),
        .dtype = DtypeOf(param_type_),
        .flags = param.decay ? 0 : WEFT_SHARD_PARAM_NO_DECAY};
    weft_shard_param_t handle = nullptr;
    Check(weft_shard_unit_add_param(unit.handle, &declared, &handle), "declaring a parameter");
    // The token table, which ends forward too, stays AdamW's, as in the paper.
    if (muon_group_ > 0 && param.shape.size() == 2 && !spec.ends_forward) {
      Check(weft_shard_param_set_group(handle, muon_group_), "giving Muon a parameter");
    }
    unit.params.push_back(handle);
    unit.counts.push_back(param.Count());
  }
  unit.view.resize(unit.params.size());
  Check(weft_shard_unit_seal(unit.handle), "closing a unit");
}

void DataParallel::HintOrder(const std::vector<UnitSpec>& units) {
  std::vector<weft_shard_unit_t> order;
  for (const Unit& unit : units_)
    order.push_back(unit.handle);
  for (size_t u = 0; u < units.size(); u++) {
    if (units[u].ends_forward) order.push_back(units_[u].handle);
  }
  Check(weft_shard_hint_order(context_, order.data(), order.size()),
        "telling the order of the units");
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

bool DataParallel::StatePart(weft_shard_param_t param, int kind, weft_shard_state_part_t& part) {
  part = {};
  part.struct_size = sizeof part;
  const weft_result_t result =
      weft_shard_state_part(param, static_cast<weft_shard_state_kind_t>(kind), &part);
  if (result == WEFT_BAD_STATE) return false;
  Check(result, "asking for the state of a parameter");
  return true;
}

bool DataParallel::ReadState(std::vector<std::byte>& values, weft_shard_state_scalars_t& scalars) {
  scalars = {};
  scalars.struct_size = sizeof scalars;
  const weft_result_t result = weft_shard_state_scalars_get(context_, &scalars);
  if (result == WEFT_BAD_STATE) return false;
  Check(result, "asking for the counts of updates");
  values.clear();
  for (const Unit& unit : units_) {
    for (weft_shard_param_t param : unit.params) {
      for (int kind = 0; kind < WEFT_SHARD_STATE_KINDS; kind++) {
        weft_shard_state_part_t part;
        if (!StatePart(param, kind, part)) return false;
        const size_t before = values.size();
        values.resize(before + part.count * weft_dtype_size(part.dtype));
        Check(weft_shard_state_read(param, static_cast<weft_shard_state_kind_t>(kind), part.begin,
                                    part.count, values.data() + before),
              "reading the state of a parameter");
      }
    }
  }
  return true;
}

void DataParallel::WriteState(const std::vector<std::byte>& values,
                              const weft_shard_state_scalars_t& scalars) {
  Check(weft_shard_state_scalars_set(context_, &scalars), "setting the counts of updates");
  const std::byte* from = values.data();
  for (const Unit& unit : units_) {
    for (weft_shard_param_t param : unit.params) {
      for (int kind = 0; kind < WEFT_SHARD_STATE_KINDS; kind++) {
        weft_shard_state_part_t part;
        if (!StatePart(param, kind, part) || size_t(values.data() + values.size() - from) <
                                                 part.count * weft_dtype_size(part.dtype)) {
          throw RunFailure("the state to go on from is not that of this model");
        }
        Check(weft_shard_state_write(param, static_cast<weft_shard_state_kind_t>(kind), part.begin,
                                     part.count, from),
              "writing the state of a parameter");
        from += part.count * weft_dtype_size(part.dtype);
      }
    }
  }
  Check(weft_shard_state_written(context_, WEFT_SHARD_STATE_ALL, nullptr),
        "going on from weights and optimizer state");
}

int64_t DataParallel::update_count() {
  weft_shard_state_scalars_t scalars = {};
  scalars.struct_size = sizeof scalars;
  Check(weft_shard_state_scalars_get(context_, &scalars), "asking for the counts of updates");
  return scalars.update_count;
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

uint64_t DataParallel::Any(uint64_t bits) {
  Check(weft_all_reduce(&bits, &bits, 1, WEFT_UINT64, WEFT_BIT_OR, group_, nullptr, nullptr),
        "asking what others were asked for");
  return bits;
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

int64_t DataParallel::Finish() {
  step_result_.struct_size = sizeof step_result_;
  Check(weft_shard_finish(context_, nullptr, &step_result_), "reducing the gradients");
  return step_result_.comm_exposed_ns + step_result_.gather_exposed_ns;
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
    unit.view[p] = {{view.data, param_type_}, static_cast<float*>(view.grad), view.count};
  }
  return unit.view;
}

UnitView<float> DataParallel::PreForward(size_t unit) {
  Check(weft_shard_pre_forward(units_[unit].handle, nullptr), "entering a unit");
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
