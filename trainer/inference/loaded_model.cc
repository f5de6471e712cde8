#include "trainer/inference/loaded_model.h"

#ifdef _OPENMP
#include <omp.h>
#endif

#include <optional>
#include <sstream>
#include <utility>

#include <fmt/core.h>

#include "trainer/checkpoints.h"
#include "trainer/config.h"
#include "trainer/failure.h"
#include "trainer/load_params.h"
#include "trainer/plan.h"
#include "trainer/run_folder.h"
#include "trainer/verdict.h"

namespace weft::trainer {
namespace {

constexpr const char* kOption = "--from";

// What ranks need to know that may not see the files of another program.
std::string ShapeText(const SavedModel& saved) {
  const ModelConfig& m = saved.model();
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", int(saved.kind()), m.vocabulary, m.seq,
                     m.width, m.layers, m.heads, int(m.tied_head), int(m.architecture), m.kv_heads,
                     m.hidden, m.rope_theta, m.norm_epsilon);
}

SavedModel::Kind ReadShape(const std::string& text, ModelConfig* model) {
  std::istringstream in(text);
  int kind = 0, architecture = 0;
  in >> kind >> model->vocabulary >> model->seq >> model->width >> model->layers >> model->heads >>
      model->tied_head >> architecture >> model->kv_heads >> model->hidden >> model->rope_theta >>
      model->norm_epsilon;
  model->architecture = Architecture(architecture);
  return SavedModel::Kind(kind);
}

TrainConfig ConfigOf(const UseConfig& use, const RunModel& run, size_t ranks) {
  TrainConfig config;
  config.model = run.model;
  config.param_type = run.param_type;
  config.strategy = use.strategy;
  config.threads = use.threads;
  config.global_batch = ranks;
  config.weights_only = true;
  return config;
}

size_t SizeOf(weft_group_t group) {
  int size = 1;
  Check(weft_group_size(group, &size), "asking for the group's size");
  return size_t(size);
}

}  // namespace

ResolvedConfig OptionsOf(const UseConfig& use) {
  const std::string strategy = weft_shard_preset_name(use.strategy);
  return {{.key = "from", .value = use.from, .scope = Scope::kStart},
          {.key = "strategy", .value = strategy, .scope = Scope::kStart}};
}

LoadedModel::LoadedModel(const UseConfig& use, weft_group_t group)
    : use_(use), group_(group), ranks_(SizeOf(group)) {
#ifdef _OPENMP
  omp_set_num_threads(use.threads);
#endif
  const std::string shape =
      HearOfFirst(group, [&] { return ShapeText(SavedModel(use.from, kOption)); });
  kind_ = ReadShape(shape, &run_.model);
  // Checkpoints are read by all ranks.
  if (kind_ == SavedModel::Kind::kRun) run_ = ReadRunModel(use.from, kOption);
  CheckConfig(ConfigOf(use, run_, ranks_), ranks_);
}

void LoadedModel::Load(const WorkingMemory& working) {
  const TrainConfig config = ConfigOf(use_, run_, ranks_);
  const std::vector<UnitSpec> units = ModelUnits(run_.model);
  int rank = 0;
  Check(weft_group_rank(group_, &rank), "asking for the rank");
  RunPlan plan;
  plan.sharding = DataParallel::PlanOf(units, config, size_t(rank), ranks_);
  plan.activation_bytes =
      working.bytes + ProductBytes(run_.model, working.precision, run_.param_type, working.rows,
                                   size_t(use_.threads));
  CheckMemory(group_, plan, working.advice);
  parallel_ = std::make_unique<DataParallel>(group_, units, config);
  path_ = use_.from;
  if (kind_ == SavedModel::Kind::kRun) {
    const std::string source = CheckpointsIn(use_.from);
    Checkpoints checkpoints(group_, *parallel_, source, /*keep=*/1, {}, {});
    const std::optional<InitialValues> values = checkpoints.TakeValues(source, /*partial=*/false);
    if (!values)
      throw BadInput(fmt::format(
          "{} {}: there is no checkpoint there; give the directory of a run that has saved",
          kOption, use_.from));
    path_ = values->path;
    return;
  }
  std::optional<ParamValues> values;
  DecideOnFirst(group_, [&] { values = OtherProgramsValues(use_.from, run_.model); });
  LoadParams(*parallel_, units, [&](const ParamSpec& spec, size_t) { return (*values)(spec); });
}

std::string LoadedModel::Describe() const {
  const ModelConfig& m = run_.model;
  return fmt::format(
      "model  {}: {}, {} layers x {} wide, {}, {} tokens of context, {} tokens: {} "
      "parameters\n",
      path_, ArchitectureName(m), m.layers, m.width, DescribeHeads(m), m.seq, m.vocabulary,
      FormatCount(double(ParameterCount(ModelUnits(m)))));
}

}  // namespace weft::trainer
