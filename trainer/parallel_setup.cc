// How a run is told to the shard context: the mesh of its ranks, units and params, the optimizer,
// and in which order units are used.
#include "weft/shard_param_groups.h"

#include "trainer/optimizer_setup.h"
#include "trainer/parallel.h"

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

void MultiplyFloats(const float* a, const float* b, float* c, size_t m, size_t n, size_t k,
                    void* user) {
  static_cast<Matmul<float>*>(user)->Forward(a, b, {}, c, {m, k, n});
}

}  // namespace

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
  if (config.weights_only) return;
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
  policy.float32_gradients = !config.weights_only && BytesOf(param_type_) < sizeof(float) ? 1 : 0;
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
        .flags = (param.decay ? 0 : WEFT_SHARD_PARAM_NO_DECAY) |
                 (config.weights_only ? WEFT_SHARD_PARAM_FROZEN : 0) |
                 (param.multiplied ? WEFT_SHARD_PARAM_WRITES_GRAD : 0)};
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

}  // namespace weft::trainer
