// Context, the collective part of set-up: finalize.
#include <algorithm>
#include <atomic>
#include <bit>
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/context/context.h"

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
  WEFT_RETURN_IF_ERROR(CheckPeers("finalize"));
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckDeclaring("finalize"));
    if (!failure_.ok()) return failure_;
    WEFT_RETURN_IF_ERROR(CheckSealed("finalize"));
  }
  WEFT_RETURN_IF_ERROR(CheckMesh("finalize"));
  WEFT_RETURN_IF_ERROR(CompareRegistry());
  absl::StatusOr<std::unique_ptr<Machine>> made = MakeMachine();
  WEFT_ASSIGN_OR_RETURN(const uint64_t number, AgreeOnMemory(made.status()));
  std::unique_ptr<Machine> machine = *std::move(made);
  purposes_.SetContext(number, &machine->layout);
  if (machine->watch != nullptr) machine->watch->SetContext(number);
  if (AnythingCut(registry_)) WEFT_RETURN_IF_ERROR(SplitGroups(*machine));
  MutexLock lock(mutex_);
  machine_ = std::move(machine);
  return machine_->plan;
}

// HYBRID_SHARD's sums must be those of all ranks in one tree: a replica is a subtree if it has 2^k ranks
// (docs/design/001-numbers.md).
absl::Status Context::CheckMesh(std::string_view call) const {
  const bool replicates = Any([](const Placement& placement) { return placement.replicated; });
  const bool keeps_parts = Any([](const Placement& placement) { return placement.inner_part; });
  if (!replicates && !keeps_parts) return absl::OkStatus();
  const auto invalid = [call](const std::string& what) {
    return MakeError(WEFT_INVALID_ARGUMENT, {.operation = std::string(call)},
                     StrCat(call, ": ", what));
  };
  if (mesh_->axes().size() == 1) {
    return invalid(
        "HYBRID_SHARD and HPZ need a mesh of two or three axes: the last one is that of a replica, "
        "or of the part that is kept between forward and backward; give weft_mesh_create their "
        "sizes");
  }
  if (!replicates) return absl::OkStatus();
  const auto size = static_cast<unsigned>(mesh_->inner_size());
  if (std::has_single_bit(size)) return absl::OkStatus();
  return invalid(StrCat("HYBRID_SHARD cuts along axis ", mesh_->axes().back().name, " of ", size,
                        " ranks; its size must be a power of two, so that sums have the same "
                        "bits as without replicas"));
}

absl::StatusOr<std::unique_ptr<Context::Machine>> Context::MakeMachine() {
  ContextPlan plan;
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(Planned("finalize").status());
    plan = *std::move(planned_);
    planned_.reset();
  }
  const bool cut = AnythingCut(registry_);
  WEFT_ASSIGN_OR_RETURN(Storage storage,
                        Storage::Allocate(plan.layout, accumulate(), options_.memory));
  WEFT_ASSIGN_OR_RETURN(ExtentCalls calls, ExtentCalls::Make(plan.layout, options_.timeout_ns));
  const bool chains = cut || Any([](const Placement& placement) {
                        return placement.wire != WEFT_SHARD_WIRE_GRADIENTS;
                      });
  const Reduction::Options reduction{.op = options_.average ? WEFT_AVG : WEFT_SUM,
                                     .timeout_ns = options_.timeout_ns,
                                     .doorbell = chains ? doorbell_ : nullptr,
                                     .isa = isa_,
                                     .purposes = &purposes_};
  std::unique_ptr<WaitWatch> watch;
  if (cut) {
    watch = WaitWatch::Make(mesh_->group(), {mesh_->size(), mesh_->inner_size()},
                            [this](Work& work) { return Await(work); });
  }
  auto machine = std::make_unique<Machine>(registry_, std::move(plan.layout), std::move(storage),
                                           std::move(calls), *mesh_, std::move(watch), reduction);
  machine->plan = plan.numbers;
  if (optimizer_config_.has_value()) {
    WEFT_ASSIGN_OR_RETURN(machine->optimizer,
                          ShardOptimizer::Allocate(*optimizer_config_, registry_, machine->layout,
                                                   isa_, options_.memory));
  }
  if (!cut) return machine;
  for (const weft_shard_mode_t mode : {WEFT_SHARD_TRAIN, WEFT_SHARD_EVAL}) {
    machine->expected[mode].schedule = std::move(plan.expected[mode]);
    machine->expected[mode].agreed = true;
  }
  machine->residence.SetSource(options_.memory);
  WEFT_RETURN_IF_ERROR(machine->residence.Reserve(plan.numbers.pool_bytes));
  machine->pool_bytes = plan.numbers.pool_bytes;
  return machine;
}

bool Context::Any(bool (*is)(const Placement&)) const {
  return std::any_of(registry_.units().begin(), registry_.units().end(),
                     [is](const UnitSpec& unit) { return is(unit.placement); });
}

// Gathers, and the reductions of HYBRID_SHARD, have groups of their own, so that none waits for another. All ranks
// split them together, so that all learn of it if one cannot.
absl::Status Context::SplitGroups(Machine& machine) {
  const int replica = mesh_->outer_rank();
  const auto split = [&](const ProcessGroup& among, int color,
                         const char* name) -> absl::StatusOr<std::shared_ptr<ProcessGroup>> {
    absl::StatusOr<std::shared_ptr<ProcessGroup>> made =
        group().Split(color, mesh_->rank(),
                      {.name = StrCat(among.name(), ".", name), .timeout_ns = options_.timeout_ns});
    if (made.ok()) return made;
    return LatchUnlocked(Annotate(made.status(), StrCat("finalize, splitting ", name, ": ")));
  };
  std::shared_ptr<ProcessGroup> all;
  std::shared_ptr<ProcessGroup> inner;
  if (Any([](const Placement& placement) {
        return placement.optimizer_cut && !placement.replicated;
      })) {
    WEFT_ASSIGN_OR_RETURN(all, split(group(), 0, "gather"));
  }
  if (Any([](const Placement& placement) {
        return placement.replicated || placement.inner_part;
      })) {
    WEFT_ASSIGN_OR_RETURN(inner, split(*mesh_->inner(), replica, "gather"));
  }
  if (Any([](const Placement& placement) { return placement.replicated; })) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> scatter,
                          split(*mesh_->inner(), replica, "reduce_scatter"));
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> across,
                          split(*mesh_->outer(), mesh_->inner_rank(), "all_reduce"));
    machine.reduction.SetReplicaGroups(
        machine.Watched(ContextGroup::kInnerScatter, std::move(scatter)),
        machine.Watched(ContextGroup::kOuterReduce, std::move(across)));
  }
  machine.residence.SetGroups(machine.Watched(ContextGroup::kGather, std::move(all)),
                              machine.Watched(ContextGroup::kInnerGather, std::move(inner)));
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
  if (AnythingCut(registry_)) {
    absl::StrAppend(&facts, ", prefetch ", options_.overlap ? options_.prefetch : 0,
                    options_.overlap ? "" : " without overlap", ", memory_budget_bytes ",
                    options_.budget_bytes, ", microbatches ", options_.microbatches);
  }
  if (mesh_->axes().size() > 1) {
    for (const MeshAxis& axis : mesh_->axes())
      absl::StrAppend(&facts, ", ", axis.size, " ranks along ", axis.name);
  }
  if (options_.verify_steps != 0) {
    absl::StrAppend(&facts, ", verify_steps ", options_.verify_steps);
  }
  absl::StrAppend(&facts, ", optimizer ",
                  optimizer_config_.has_value() ? OptimizerText(*optimizer_config_) : "none");
  entries.insert(entries.begin(), {"the context's config", facts});
  for (size_t i = 0; i < order_.size(); ++i) {
    entries.push_back({StrCat("use ", i, " of the hinted order"),
                       StrCat("unit ", registry_.units()[static_cast<size_t>(order_[i])].name)});
  }
  return entries;
}

absl::Status Context::CompareRegistry() {
  const std::vector<RegistryEntry> entries = AgreedEntries();
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const RegistryEntry& entry : entries)
    digests.push_back(DigestOfEntry(entry));
  absl::StatusOr<std::optional<Difference>> difference = FirstDifference(
      group(), digests, options_.timeout_ns, 1, purposes_.Of(Purpose::Kind::kDeclare));
  if (!difference.ok()) {
    return LatchUnlocked(Annotate(difference.status(), "finalize, comparing declarations: "));
  }
  if (!difference->has_value()) return absl::OkStatus();
  return ExplainDifference(entries, **difference);
}

absl::Status Context::ExplainDifference(const std::vector<RegistryEntry>& entries,
                                        const Difference& difference) {
  const size_t index = difference.index;
  const int odd = difference.ranks[0];
  const int usual = difference.sides[0][0];
  std::string own;
  if (index < entries.size()) own = StrCat(entries[index].subject, "\n", entries[index].facts);
  const absl::StatusOr<std::vector<std::string>> texts =
      GatherText(group(), own, options_.timeout_ns, purposes_.Of(Purpose::Kind::kDeclare));
  if (!texts.ok()) return LatchUnlocked(Annotate(texts.status(), "finalize: "));
  const std::string& first = (*texts)[static_cast<size_t>(usual)];
  const std::string& other = (*texts)[static_cast<size_t>(odd)];
  const bool same_subject = !first.empty() && Subject(first) == Subject(other);
  std::string message = StrCat("finalize on group ", group().name(), ": ",
                               same_subject ? Subject(first) : StrCat("declaration ", index),
                               ": rank ", odd, " has ", Declared(other, same_subject), ", rank ",
                               usual, " has ", Declared(first, same_subject));
  if (difference.ranks.size() > 1) {
    absl::StrAppend(&message, " (",
                    difference.majority ? StrCat(RankList(difference.ranks), " differ from ",
                                                 RankList(difference.sides[0]))
                                        : StrCat(SideList(difference.sides), " differ"),
                    ")");
  }
  absl::StrAppend(&message, "; every rank must declare the same in the same order");
  return MakeError(WEFT_MISMATCH, CulpritOf(group(), odd, "finalize"), message);
}

// Tells the others whether this rank has its memory, so that none goes on without it. Returns rank 0's number of the
// context, which no other one on the group has.
absl::StatusOr<uint64_t> Context::AgreeOnMemory(const absl::Status& own) {
  static std::atomic<uint64_t> context_count{0};
  const absl::StatusOr<std::vector<uint64_t>> numbers =
      GatherValue<uint64_t>(group(), own.ok() ? ++context_count : 0, options_.timeout_ns,
                            purposes_.Of(Purpose::Kind::kAllocate));
  if (!own.ok()) return Annotate(own, StrCat("finalize on rank ", group().rank(), ": "));
  if (!numbers.ok()) return LatchUnlocked(Annotate(numbers.status(), "finalize: "));
  for (size_t rank = 0; rank < numbers->size(); ++rank) {
    if ((*numbers)[rank] != 0) continue;
    return MakeError(WEFT_REMOTE_ERROR, CulpritOf(group(), static_cast<int>(rank), "finalize"),
                     StrCat("finalize on group ", group().name(), ": rank ", rank,
                            " could not allocate its parameters and gradients; see its message"));
  }
  return numbers->front();
}

}  // namespace weft
