// A plan needs the declarations only, so it is made before any peer is asked, and kept until they change: finalize, and
// a program that compares plans, ask for it several times. Finalize then goes in the order in which a failure can still
// be told apart: what was declared is compared first, memory is allocated, and all ranks say whether they have theirs
// before groups are split, so that no rank waits in a split for one that has given up.
#include "shard/context/context_builder.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "shard/checks/agreement.h"
#include "shard/context/declaration_agreement.h"
#include "shard/optimizer/resident_state.h"

namespace weft {
namespace {

absl::Status DeclareUnits(const std::vector<ParamSpec>& params,
                          const std::vector<ParamGroup>& groups, const Placement& placement,
                          Registry& registry) {
  for (const ParamGroup& group : groups) {
    const absl::StatusOr<int> unit = registry.BeginUnit(group.name, placement);
    if (!unit.ok()) return WithSubject(unit.status(), group.name, {});
    for (size_t i = group.first; i < group.first + group.count; ++i) {
      const ParamSpec& param = params[i];
      const absl::StatusOr<int> added =
          registry.AddParam(*unit, param.name, param.shape.data(),
                            static_cast<int>(param.shape.size()), param.dtype, FlagsOf(param));
      if (!added.ok()) return WithSubject(added.status(), group.name, param.name);
    }
    WEFT_RETURN_IF_ERROR(registry.SealUnit(*unit));
  }
  return absl::OkStatus();
}

}  // namespace

PlanInput PlanInputOf(const ContextCore& core) {
  const Declarations& declared = core.declared();
  const Mesh& mesh = core.mesh();
  const ContextOptions& options = core.options();
  return {.registry = &declared.registry,
          .order = declared.order.empty() ? nullptr : &declared.order,
          .runs = declared.runs.empty() ? nullptr : &declared.runs,
          .groups = declared.groups,
          .member = {.rank = mesh.rank(), .size = mesh.size()},
          .inner = {.rank = mesh.inner_rank(), .size = mesh.inner_size()},
          .limits = options.limits,
          .accumulate = options.accumulate(),
          .overlap = options.overlap,
          .prefetch = options.prefetch,
          .budget_bytes = options.budget_bytes,
          .microbatches = options.microbatches,
          .views = options.views,
          .offload_buffer_bytes = options.offload.any() ? options.offload.buffer_bytes : 0,
          .offload_params = options.offload.any() && options.offload.params};
}

absl::Status ContextBuilder::CheckDeclaring(const char* call) const {
  if (!core_.finalized()) return absl::OkStatus();
  return MakeError(WEFT_BAD_STATE, {.operation = call},
                   StrCat(call,
                          " is not legal here: the context is finalized; units and "
                          "parameters are declared before that, finalize is called once"));
}

absl::Status ContextBuilder::CheckSealed(std::string_view call) const {
  const Registry& registry = core_.declared().registry;
  if (registry.open_unit() < 0) return absl::OkStatus();
  return MakeError(
      WEFT_BAD_STATE, {.operation = std::string(call)},
      StrCat(call, ": unit ", registry.units()[static_cast<size_t>(registry.open_unit())].name,
             " is open; seal it first"));
}

absl::StatusOr<Declarations*> ContextBuilder::Declare(const char* call) {
  WEFT_RETURN_IF_ERROR(CheckDeclaring(call));
  planned_.reset();
  return &core_.Declare();
}

absl::StatusOr<int> ContextBuilder::BeginUnit(std::string_view name, const Placement& placement) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("unit_begin"));
  return declared->registry.BeginUnit(name, placement);
}

absl::StatusOr<int> ContextBuilder::AddParam(int unit, std::string_view name, const int64_t* shape,
                                             int ndim, weft_dtype_t dtype, uint32_t flags) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("unit_add_param"));
  return declared->registry.AddParam(unit, name, shape, ndim, dtype, flags);
}

absl::Status ContextBuilder::TieParam(int unit, std::string_view name, int param) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("unit_tie_param"));
  return declared->registry.TieParam(unit, name, param);
}

absl::Status ContextBuilder::SealUnit(int unit) {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(CheckDeclaring("unit_seal"));
  return core_.Declare().registry.SealUnit(unit);
}

absl::StatusOr<std::pair<int, int>> ContextBuilder::AddUnits(const std::vector<ParamSpec>& params,
                                                             const std::vector<ParamGroup>& groups,
                                                             const Placement& placement) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("shard_add_units"));
  Registry& registry = declared->registry;
  const std::pair<int, int> first(static_cast<int>(registry.units().size()),
                                  static_cast<int>(registry.params().size()));
  const absl::Status added = DeclareUnits(params, groups, placement, registry);
  if (added.ok()) return first;
  registry.DropUnits(static_cast<size_t>(first.first));
  return Annotate(added, "shard_add_units: ");
}

absl::Status ContextBuilder::NestUnit(int unit, int outer) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("unit_within"));
  return declared->registry.NestUnit(unit, outer);
}

absl::Status ContextBuilder::HintOrder(const std::vector<int>& order) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("hint_order"));
  declared->order = order;
  declared->runs.clear();
  return absl::OkStatus();
}

absl::Status ContextBuilder::HintRuns(const std::vector<UnitRun>& runs) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("hint_runs"));
  declared->runs = runs;
  declared->order.clear();
  return absl::OkStatus();
}

absl::Status ContextBuilder::SetOptimizer(const OptimizerConfig& config) {
  if (config.dynamic_scale) WEFT_RETURN_IF_ERROR(CheckLossScaleOptions(config.scale));
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("context_optimizer"));
  if (declared->optimizer.has_value()) {
    return MakeError(WEFT_BAD_STATE, {.operation = "context_optimizer"},
                     "context_optimizer: the context has an optimizer already; give it one");
  }
  declared->optimizer = config;
  declared->groups = {GroupOf(config)};
  return absl::OkStatus();
}

absl::StatusOr<int> ContextBuilder::AddGroup(const weft_shard_param_group_t& numbers) {
  constexpr char kCall[] = "param_group_add";
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare(kCall));
  std::vector<OptimizerGroup>& groups = declared->groups;
  WEFT_ASSIGN_OR_RETURN(const OptimizerGroup own, GroupAt(groups, 0, kCall));
  if (groups.size() >= WEFT_SHARD_PARAM_GROUPS_MAX) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = kCall},
                     StrCat(kCall, ": the context has ", groups.size(),
                            " param groups already, the most that are possible; put params that "
                            "are updated alike into one"));
  }
  WEFT_ASSIGN_OR_RETURN(const OptimizerGroup group, Changed(own, numbers, kCall));
  groups.push_back(group);
  return static_cast<int>(groups.size()) - 1;
}

absl::Status ContextBuilder::SetParamGroup(int param, int group) {
  constexpr char kCall[] = "param_set_group";
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare(kCall));
  WEFT_RETURN_IF_ERROR(GroupAt(declared->groups, group, kCall).status());
  declared->registry.SetGroup(param, group);
  return absl::OkStatus();
}

absl::Status ContextBuilder::SetParamGlobal(int param, std::string_view name, const int64_t* shape,
                                            int ndim, size_t begin) {
  Section section(core_.mutex);
  WEFT_ASSIGN_OR_RETURN(Declarations* const declared, Declare("param_global"));
  return declared->registry.SetGlobal(param, name, shape, ndim, begin);
}

absl::StatusOr<const ContextPlan*> ContextBuilder::Planned(std::string_view call) {
  constexpr std::string_view kFinalize = "finalize";  // adds its name itself, with the rank
  WEFT_RETURN_IF_ERROR(CheckSealed(call));
  WEFT_RETURN_IF_ERROR(CheckMesh(call));
  if (!planned_.has_value()) {
    absl::StatusOr<ContextPlan> made = MakePlan(PlanInputOf(core_));
    if (!made.ok() && call != kFinalize) return Annotate(made.status(), StrCat(call, ": "));
    WEFT_RETURN_IF_ERROR(made.status());
    planned_ = *std::move(made);
  }
  return &*planned_;
}

absl::StatusOr<weft_shard_plan_t> ContextBuilder::Plan() {
  Section section(core_.mutex);
  if (core_.finalized()) return core_.runtime().plan;
  WEFT_ASSIGN_OR_RETURN(const ContextPlan* const planned, Planned("context_plan"));
  return planned->numbers;
}

absl::StatusOr<OwnedElements> ContextBuilder::Interval(int param, int rank) {
  const Mesh& mesh = core_.mesh();
  Section section(core_.mutex);
  if (rank < 0 || rank >= mesh.size()) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "param_interval"},
                     StrCat("param_interval: rank is ", rank, ", the mesh has ", mesh.size(),
                            " ranks; pass one from 0"));
  }
  const Layout* layout = nullptr;
  if (core_.finalized()) {
    layout = &core_.runtime().layout;
  } else {
    WEFT_ASSIGN_OR_RETURN(const ContextPlan* const planned, Planned("param_interval"));
    layout = &planned->layout;
  }
  const ParamSpec& spec = core_.SpecOf(param);
  const Place& place = layout->places[static_cast<size_t>(param)];
  const Placement& placement = layout->spaces[static_cast<size_t>(place.space)].placement;
  const bool cut = spec.frozen ? placement.params_sharded : placement.optimizer_sharded;
  if (!cut || spec.count == 0) return OwnedElements{0, spec.count};
  const Extent& extent = layout->extents[static_cast<size_t>(place.extent)];
  const int owner = placement.replicated ? rank % layout->inner.size : rank;
  return OwnedBy(extent, place, spec.count, static_cast<size_t>(owner));
}

// HYBRID_SHARD's sums must be those of all ranks in one tree: a replica is a subtree if it has 2^k ranks
// (docs/design/001-numbers.md).
absl::Status ContextBuilder::CheckMesh(std::string_view call) const {
  const Declarations& declared = core_.declared();
  const Mesh& mesh = core_.mesh();
  const bool replicates =
      declared.Any([](const Placement& placement) { return placement.replicated; });
  const bool keeps_parts =
      declared.Any([](const Placement& placement) { return placement.inner_part; });
  if (!replicates && !keeps_parts) return absl::OkStatus();
  const auto invalid = [call](const std::string& what) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = std::string(call)},
                     StrCat(call, ": ", what));
  };
  if (mesh.axes().size() == 1) {
    return invalid(
        "HYBRID_SHARD and HPZ need a mesh of several axes: the last one is that of a replica, "
        "or of the part that is kept between forward and backward; give weft_mesh_create their "
        "sizes");
  }
  if (!replicates) return absl::OkStatus();
  const auto size = static_cast<unsigned>(mesh.inner_size());
  if (std::has_single_bit(size)) return absl::OkStatus();
  return invalid(StrCat("HYBRID_SHARD cuts along axis ", mesh.axes().back().name, " of ", size,
                        " ranks; its size must be a power of two, so that sums have the same "
                        "bits as without replicas"));
}

absl::StatusOr<weft_shard_plan_t> ContextBuilder::Finalize() {
  WEFT_RETURN_IF_ERROR(core_.CheckPeers("finalize"));
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(CheckDeclaring("finalize"));
    WEFT_RETURN_IF_ERROR(core_.failure());
    WEFT_RETURN_IF_ERROR(CheckSealed("finalize"));
  }
  WEFT_RETURN_IF_ERROR(CheckMesh("finalize"));
  WEFT_RETURN_IF_ERROR(CompareDeclarations(core_));
  absl::StatusOr<std::unique_ptr<Runtime>> made = MakeRuntime();
  WEFT_ASSIGN_OR_RETURN(const uint64_t number, AgreeOnMemory(made.status()));
  std::unique_ptr<Runtime> runtime = *std::move(made);
  core_.purposes().SetContext(number, &runtime->layout);
  if (runtime->watch != nullptr) runtime->watch->SetContext(number);
  if (AnythingSharded(core_.declared().registry)) WEFT_RETURN_IF_ERROR(SplitGroups(*runtime));
  const weft_shard_plan_t plan = runtime->plan;
  Section section(core_.mutex);
  core_.SetRuntime(std::move(runtime));
  return plan;
}

absl::StatusOr<std::unique_ptr<Runtime>> ContextBuilder::MakeRuntime() {
  const Declarations& declared = core_.declared();
  const ContextOptions& options = core_.options();
  const Mesh& mesh = core_.mesh();
  ContextPlan plan;
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(Planned("finalize").status());
    plan = *std::move(planned_);
    planned_.reset();
  }
  const bool cut = AnythingSharded(declared.registry);
  WEFT_ASSIGN_OR_RETURN(Storage storage,
                        Storage::Allocate(plan.layout, options.accumulate(), options.memory));
  WEFT_ASSIGN_OR_RETURN(ExtentCalls calls, ExtentCalls::Make(plan.layout, options.timeout_ns));
  const bool chains = cut || declared.Any([](const Placement& placement) {
    return placement.wire != WEFT_SHARD_WIRE_GRADIENTS;
  });
  const Reduction::Options reduction{.op = options.average ? WEFT_AVG : WEFT_SUM,
                                     .timeout_ns = options.timeout_ns,
                                     .doorbell = chains ? core_.doorbell() : nullptr,
                                     .isa = core_.isa(),
                                     .purposes = &core_.purposes()};
  std::unique_ptr<WaitWatch> watch;
  if (cut) {
    watch = WaitWatch::Make(mesh.group(), {mesh.size(), mesh.inner_size()},
                            [core = &core_](Work& work) { return core->Await(work); });
  }
  auto runtime =
      std::make_unique<Runtime>(declared.registry, std::move(plan.layout), std::move(storage),
                                std::move(calls), mesh, std::move(watch), reduction);
  runtime->plan = plan.numbers;
  if (declared.optimizer.has_value()) {
    WEFT_ASSIGN_OR_RETURN(std::unique_ptr<StateStore> store,
                          MakeStore(plan.offload, runtime.get()));
    WEFT_ASSIGN_OR_RETURN(
        runtime->optimizer,
        ShardOptimizer::Make(*declared.optimizer, declared.groups, declared.registry,
                             runtime->layout, core_.isa(), std::move(store), options.memory));
    runtime->callers_turn = CallersTurn(declared.groups, declared.registry, runtime->layout);
    runtime->state.ExpectUpdates();
  }
  if (!declared.runs.empty()) {
    runtime->recorded.ExpectRuns(
        WEFT_SHARD_TRAIN,
        RunsOf(ExpectedEvents(PlanInputOf(core_), WEFT_SHARD_TRAIN), declared.registry.units()));
  }
  if (!cut) return runtime;
  for (const weft_shard_mode_t mode : {WEFT_SHARD_TRAIN, WEFT_SHARD_EVAL}) {
    runtime->recorded.Expect(mode, std::move(plan.expected[mode]));
  }
  runtime->unshard_manager.SetSource(options.memory);
  if (options.views != WEFT_SHARD_VIEWS_MOVE) {
    WEFT_RETURN_IF_ERROR(runtime->unit_places.Fix(std::move(plan.places), options.memory));
  }
  WEFT_RETURN_IF_ERROR(runtime->unshard_manager.Reserve(plan.moving_bytes));
  return runtime;
}

absl::StatusOr<std::unique_ptr<StateStore>> ContextBuilder::MakeStore(const OffloadPlan& offload,
                                                                      Runtime* runtime) const {
  const ContextOptions& options = core_.options();
  if (!options.offload.any()) {
    return ResidentState::Allocate(core_.declared().groups, core_.declared().registry,
                                   runtime->layout, options.memory);
  }
  // A part that has come may let its gather begin.
  WEFT_ASSIGN_OR_RETURN(
      Offloaded offloaded,
      OffloadToFile(runtime->layout, offload, options.offload, options.timeout_ns, options.memory,
                    [doorbell = core_.doorbell()] { doorbell->Ring(); }));
  runtime->parts = std::move(offloaded.params);
  runtime->unit_gathers.SetParts(runtime->parts.get());
  return std::move(offloaded.state);
}

// Tells the others whether this rank has its memory, so that none goes on without it. Returns rank 0's number of the
// context, which no other one on the group has.
absl::StatusOr<uint64_t> ContextBuilder::AgreeOnMemory(const absl::Status& own) {
  ProcessGroup& group = core_.group();
  static std::atomic<uint64_t> context_count{0};
  const absl::StatusOr<std::vector<uint64_t>> numbers =
      GatherValue<uint64_t>(group, own.ok() ? ++context_count : 0, core_.options().timeout_ns,
                            core_.purposes().Of(Purpose::Kind::kAllocate));
  if (!own.ok()) return Annotate(own, StrCat("finalize on rank ", group.rank(), ": "));
  if (!numbers.ok()) return core_.LatchUnlocked(Annotate(numbers.status(), "finalize: "));
  for (size_t rank = 0; rank < numbers->size(); ++rank) {
    if ((*numbers)[rank] != 0) continue;
    return MakeError(WEFT_REMOTE_ERROR, CulpritOf(group, static_cast<int>(rank), "finalize"),
                     StrCat("finalize on group ", group.name(), ": rank ", rank,
                            " could not allocate its parameters and gradients; see its message"));
  }
  return numbers->front();
}

// Gathers, and the reductions of HYBRID_SHARD, have groups of their own, so that none waits for another. All ranks
// split them together, so that all learn of it if one cannot.
absl::Status ContextBuilder::SplitGroups(Runtime& runtime) {
  const Declarations& declared = core_.declared();
  const Mesh& mesh = core_.mesh();
  const int replica = mesh.outer_rank();
  const auto split = [&](const ProcessGroup& among, int color,
                         const char* name) -> absl::StatusOr<std::shared_ptr<ProcessGroup>> {
    absl::StatusOr<std::shared_ptr<ProcessGroup>> made = core_.group().Split(
        color, mesh.rank(),
        {.name = StrCat(among.name(), ".", name), .timeout_ns = core_.options().timeout_ns});
    if (made.ok()) return made;
    return core_.LatchUnlocked(Annotate(made.status(), StrCat("finalize, splitting ", name, ": ")));
  };
  std::shared_ptr<ProcessGroup> all;
  std::shared_ptr<ProcessGroup> inner;
  if (declared.Any([](const Placement& placement) {
        return placement.optimizer_sharded && !placement.replicated;
      })) {
    WEFT_ASSIGN_OR_RETURN(all, split(core_.group(), 0, "gather"));
  }
  if (declared.Any([](const Placement& placement) {
        return placement.replicated || placement.inner_part;
      })) {
    WEFT_ASSIGN_OR_RETURN(inner, split(*mesh.inner(), replica, "gather"));
  }
  if (declared.Any([](const Placement& placement) { return placement.replicated; })) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> scatter,
                          split(*mesh.inner(), replica, "reduce_scatter"));
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> inter_replica,
                          split(*mesh.outer(), mesh.inner_rank(), "all_reduce"));
    runtime.reduction.SetReplicaGroups(
        runtime.Watched(ContextGroup::kInnerScatter, std::move(scatter)),
        runtime.Watched(ContextGroup::kOuterReduce, std::move(inter_replica)));
  }
  runtime.gather_groups.Set(runtime.Watched(ContextGroup::kGather, std::move(all)),
                            runtime.Watched(ContextGroup::kInnerGather, std::move(inner)));
  return absl::OkStatus();
}

}  // namespace weft
