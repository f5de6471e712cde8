// Context, the collective part of set-up: finalize.
#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/agreement.h"
#include "shard/context.h"
#include "shard/digest.h"

namespace weft {
namespace {

// What a rank has at the place where declarations differ.
std::string Declared(const std::string& text, bool same_subject) {
  if (text.empty()) return "nothing more";
  const std::vector<std::string> parts = absl::StrSplit(text, absl::MaxSplits('\n', 1));
  const bool both = parts.size() == 2 && !parts[1].empty();
  if (same_subject) return both ? parts[1] : "";
  return both ? StrCat(parts[0], " ", parts[1]) : parts[0];
}

std::string Subject(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

const char* AccumulationName(weft_shard_accumulation_t accumulation) {
  switch (accumulation) {
    case WEFT_SHARD_REDUCE_EVERY:
      return "REDUCE_EVERY";
    case WEFT_SHARD_INNER_EVERY_OUTER_LAST:
      return "INNER_EVERY_OUTER_LAST";
    default:
      return "LOCAL_THEN_REDUCE";
  }
}

Digest DigestOfEntry(const RegistryEntry& entry) {
  const std::string text = StrCat(entry.subject, "\n", entry.facts);
  return DigestOf(text.data(), text.size());
}

}  // namespace

absl::StatusOr<weft_shard_plan_t> Context::Finalize() {
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckDeclaring("finalize"));
    if (!failure_.ok()) return failure_;
    if (registry_.open_unit() >= 0) {
      return MakeError(WEFT_BAD_STATE, {.operation = "finalize"},
                       StrCat("finalize: unit ",
                              registry_.units()[static_cast<size_t>(registry_.open_unit())].name,
                              " is open; seal it first"));
    }
  }
  WEFT_RETURN_IF_ERROR(CheckMesh());
  WEFT_RETURN_IF_ERROR(CompareRegistry());
  absl::StatusOr<std::unique_ptr<Machine>> made = MakeMachine();
  WEFT_RETURN_IF_ERROR(AgreeOnMemory(made.status()));
  std::unique_ptr<Machine> machine = *std::move(made);
  if (AnythingCut()) WEFT_RETURN_IF_ERROR(SplitGroups(*machine));
  const weft_shard_plan_t plan = PlanOf(*machine);
  MutexLock lock(mutex_);
  machine_ = std::move(machine);
  return plan;
}

// HYBRID_SHARD's sums must be those of all ranks in one tree: a replica is a subtree if it has 2^k ranks
// (docs/design/001-numbers.md).
absl::Status Context::CheckMesh() const {
  const bool replicates = Any([](const Placement& placement) { return placement.replicated; });
  const bool keeps_parts = Any([](const Placement& placement) { return placement.inner_part; });
  if (!replicates && !keeps_parts) return absl::OkStatus();
  const auto invalid = [](const std::string& what) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "finalize"}, StrCat("finalize: ", what));
  };
  if (mesh_->outer() == nullptr) {
    return invalid(
        "HYBRID_SHARD and HPZ need a mesh of two or three axes: the last one is that of a replica, "
        "or of the part that is kept between forward and backward; give weft_mesh_create their "
        "sizes");
  }
  if (!replicates) return absl::OkStatus();
  const auto size = static_cast<unsigned>(mesh_->inner()->size());
  if (std::has_single_bit(size)) return absl::OkStatus();
  return invalid(StrCat("HYBRID_SHARD cuts along axis ", mesh_->axes().back().name, " of ", size,
                        " ranks; its size must be a power of two, so that sums have the same "
                        "bits as without replicas"));
}

absl::StatusOr<std::unique_ptr<Context::Machine>> Context::MakeMachine() {
  const ProcessGroup& inner = *mesh_->inner();
  Layout layout =
      MakeLayout(registry_, options_.limits, {.rank = group().rank(), .size = group().size()},
                 {.rank = inner.rank(), .size = inner.size()});
  const Accumulate accumulate = keeps_sums()      ? Accumulate::kSumsOfReplicas
                                : reduces_every() ? Accumulate::kReduced
                                                  : Accumulate::kNothing;
  WEFT_ASSIGN_OR_RETURN(Storage storage, Storage::Allocate(layout, accumulate, options_.memory));
  WEFT_ASSIGN_OR_RETURN(ExtentCalls calls, ExtentCalls::Make(layout, options_.timeout_ns));
  const bool chains = AnythingCut() || Any([](const Placement& placement) {
                        return placement.wire != WEFT_SHARD_WIRE_GRADIENTS;
                      });
  const Reduction::Options reduction{.op = options_.average ? WEFT_AVG : WEFT_SUM,
                                     .timeout_ns = options_.timeout_ns,
                                     .doorbell = chains ? doorbell_ : nullptr,
                                     .isa = isa_};
  auto machine = std::make_unique<Machine>(registry_, std::move(layout), std::move(storage),
                                           std::move(calls), mesh_->group(), reduction);
  if (optimizer_config_.has_value()) {
    WEFT_ASSIGN_OR_RETURN(machine->optimizer,
                          ShardOptimizer::Allocate(*optimizer_config_, registry_, machine->layout,
                                                   isa_, options_.memory));
  }
  if (!AnythingCut()) return machine;
  size_t pool_bytes = 0;
  for (const weft_shard_mode_t mode : {WEFT_SHARD_TRAIN, WEFT_SHARD_EVAL}) {
    Habit& habit = machine->expected[mode];
    habit.schedule = MakeSchedule(
        InputOf(machine->layout, mode),
        PredictEvents(registry_.units().size(), mode == WEFT_SHARD_TRAIN, options_.microbatches));
    habit.agreed = true;
    pool_bytes = std::max(pool_bytes, habit.schedule.pool_bytes);
  }
  if (options_.budget_bytes != 0 && pool_bytes > options_.budget_bytes) {
    return MakeError(WEFT_OUT_OF_MEMORY, {.operation = "finalize"},
                     StrCat("finalize: what is gathered needs at least ", pool_bytes,
                            " bytes at a time, the budget is ", options_.budget_bytes,
                            "; allow more, or declare smaller units"));
  }
  machine->residence.SetSource(options_.memory);
  WEFT_RETURN_IF_ERROR(machine->residence.Reserve(pool_bytes));
  machine->pool_bytes = pool_bytes;
  return machine;
}

ScheduleInput Context::InputOf(const Layout& layout, weft_shard_mode_t mode) const {
  return {.layout = &layout,
          .units = &registry_.units(),
          .train = mode == WEFT_SHARD_TRAIN,
          .reduces_every = reduces_every(),
          .overlap = options_.overlap,
          .prefetch = options_.overlap ? options_.prefetch : 0,
          .budget_bytes = options_.budget_bytes};
}

bool Context::Any(bool (*is)(const Placement&)) const {
  return std::any_of(registry_.units().begin(), registry_.units().end(),
                     [is](const UnitSpec& unit) { return is(unit.placement); });
}

bool Context::AnythingCut() const {
  return Any([](const Placement& placement) { return placement.optimizer_cut; });
}

// Gathers, and the reductions of HYBRID_SHARD, have groups of their own, so that none waits for another.
absl::Status Context::SplitGroups(Machine& machine) {
  const auto split = [&](ProcessGroup& from,
                         const char* name) -> absl::StatusOr<std::shared_ptr<ProcessGroup>> {
    absl::StatusOr<std::shared_ptr<ProcessGroup>> made =
        from.Split(0, from.rank(),
                   {.name = StrCat(from.name(), ".", name), .timeout_ns = options_.timeout_ns});
    if (made.ok()) return made;
    return LatchUnlocked(Annotate(made.status(), StrCat("finalize, splitting ", name, ": ")));
  };
  std::shared_ptr<ProcessGroup> all;
  std::shared_ptr<ProcessGroup> inner;
  if (Any([](const Placement& placement) {
        return placement.optimizer_cut && !placement.replicated;
      })) {
    WEFT_ASSIGN_OR_RETURN(all, split(group(), "gather"));
  }
  if (Any([](const Placement& placement) {
        return placement.replicated || placement.inner_part;
      })) {
    WEFT_ASSIGN_OR_RETURN(inner, split(*mesh_->inner(), "gather"));
  }
  if (Any([](const Placement& placement) { return placement.replicated; })) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> scatter,
                          split(*mesh_->inner(), "reduce_scatter"));
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> across,
                          split(*mesh_->outer(), "all_reduce"));
    machine.reduction.SetReplicaGroups(std::move(scatter), std::move(across));
  }
  machine.residence.SetGroups(std::move(all), std::move(inner));
  return absl::OkStatus();
}

// What decides the buckets, their reductions and the gathers stands first. Deadlines are local, and so is
// overlap as long as nothing is gathered.
std::vector<RegistryEntry> Context::AgreedEntries() const {
  std::vector<RegistryEntry> entries = registry_.Entries();
  std::string facts =
      StrCat("bucket_bytes ", options_.limits.bucket_bytes, ", first_bucket_bytes ",
             options_.limits.first_bucket_bytes, ", accumulation ",
             AccumulationName(options_.accumulation), options_.average ? ", average" : ", sum",
             options_.uneven ? ", uneven" : "");
  if (AnythingCut()) {
    absl::StrAppend(&facts, ", prefetch ", options_.overlap ? options_.prefetch : 0,
                    options_.overlap ? "" : " without overlap", ", memory_budget_bytes ",
                    options_.budget_bytes, ", microbatches ", options_.microbatches);
  }
  absl::StrAppend(&facts, ", optimizer ",
                  optimizer_config_.has_value() ? OptimizerText(*optimizer_config_) : "none");
  entries.insert(entries.begin(), {"the context's config", facts});
  return entries;
}

absl::Status Context::CompareRegistry() {
  const std::vector<RegistryEntry> entries = AgreedEntries();
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const RegistryEntry& entry : entries)
    digests.push_back(DigestOfEntry(entry));
  absl::StatusOr<std::optional<Difference>> difference =
      FirstDifference(group(), digests, options_.timeout_ns);
  if (!difference.ok()) {
    return LatchUnlocked(Annotate(difference.status(), "finalize, comparing declarations: "));
  }
  if (!difference->has_value()) return absl::OkStatus();
  return ExplainDifference(entries, (*difference)->index, (*difference)->ranks);
}

absl::Status Context::ExplainDifference(const std::vector<RegistryEntry>& entries, size_t index,
                                        const std::vector<int>& ranks) {
  std::string own;
  if (index < entries.size()) own = StrCat(entries[index].subject, "\n", entries[index].facts);
  const absl::StatusOr<std::vector<std::string>> texts =
      GatherText(group(), own, options_.timeout_ns);
  if (!texts.ok()) return LatchUnlocked(Annotate(texts.status(), "finalize: "));
  const std::string& first = (*texts)[0];
  const std::string& other = (*texts)[static_cast<size_t>(ranks[0])];
  const bool same_subject = !first.empty() && Subject(first) == Subject(other);
  std::string message = StrCat("finalize on group ", group().name(), ": ",
                               same_subject ? Subject(first) : StrCat("declaration ", index),
                               ": rank ", ranks[0], " has ", Declared(other, same_subject),
                               ", rank 0 has ", Declared(first, same_subject));
  if (ranks.size() > 1) absl::StrAppend(&message, " (", RankList(ranks), " differ from rank 0)");
  absl::StrAppend(&message, "; every rank must declare the same in the same order");
  return MakeError(WEFT_MISMATCH,
                   {.rank = ranks[0], .group = group().name(), .operation = "finalize"}, message);
}

// Tells the others whether this rank has its memory, so that none goes on without it.
absl::Status Context::AgreeOnMemory(const absl::Status& own) {
  const absl::StatusOr<std::vector<uint64_t>> failed =
      GatherNumber(group(), own.ok() ? 0 : 1, options_.timeout_ns);
  if (!own.ok()) return Annotate(own, StrCat("finalize on rank ", group().rank(), ": "));
  if (!failed.ok()) return LatchUnlocked(Annotate(failed.status(), "finalize: "));
  for (size_t rank = 0; rank < failed->size(); ++rank) {
    if ((*failed)[rank] == 0) continue;
    return MakeError(
        WEFT_REMOTE_ERROR,
        {.rank = static_cast<int32_t>(rank), .group = group().name(), .operation = "finalize"},
        StrCat("finalize on group ", group().name(), ": rank ", rank,
               " could not allocate its parameters and gradients; see its message"));
  }
  return absl::OkStatus();
}

weft_shard_plan_t Context::PlanOf(const Machine& machine) const {
  const Layout& layout = machine.layout;
  weft_shard_plan_t plan = {};
  plan.struct_size = sizeof(plan);
  plan.unit_count = registry_.units().size();
  plan.param_count = registry_.params().size();
  plan.bucket_count = layout.buckets.size();
  for (const ParamSpec& param : registry_.params())
    plan.element_count += param.count;
  plan.param_bytes = machine.storage.data_bytes();
  plan.grad_bytes = machine.storage.grad_bytes();
  plan.padding_bytes =
      layout.data_padding_bytes + layout.grad_padding_bytes * (reduces_every() ? 2 : 1);
  plan.traffic_bytes =
      layout.reduced_bytes * static_cast<uint64_t>(reduces_every() ? options_.microbatches : 1);
  plan.optimizer_bytes = machine.optimizer == nullptr ? 0 : machine.optimizer->bytes();
  plan.pool_bytes = machine.residence.pool_bytes();
  const Schedule& schedule = machine.expected[WEFT_SHARD_TRAIN].schedule;
  for (const Residency& gather : schedule.gathers)
    plan.gather_bytes += gather.bytes;
  for (const Bucket& bucket : layout.buckets) {
    if (GathersUpdates(layout.PlacementOf(bucket))) plan.gather_bytes += bucket.bytes;
  }
  for (const Pack& unit : layout.units)
    plan.largest_unit_bytes = std::max<uint64_t>(plan.largest_unit_bytes, unit.bytes);
  plan.prefetch = schedule.prefetch;
  return plan;
}

}  // namespace weft
