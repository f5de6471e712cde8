// Context, the collective part of set-up: finalize, broadcast, verify.
#include <optional>
#include <utility>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
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
  WEFT_RETURN_IF_ERROR(CompareRegistry());
  Layout layout = MakeLayout(registry_, options_.limits);
  absl::StatusOr<Storage> storage = Storage::Allocate(layout, reduces_every());
  WEFT_RETURN_IF_ERROR(AgreeOnMemory(storage.status()));
  auto machine =
      std::make_unique<Machine>(registry_, std::move(layout), *std::move(storage), mesh_->group(),
                                Reduction::Options{.op = options_.average ? WEFT_AVG : WEFT_SUM,
                                                   .timeout_ns = options_.timeout_ns});
  const weft_shard_plan_t plan = PlanOf(*machine);
  MutexLock lock(mutex_);
  machine_ = std::move(machine);
  return plan;
}

// What decides the buckets and their reductions stands first. Overlap and deadlines are local.
std::vector<RegistryEntry> Context::AgreedEntries() const {
  std::vector<RegistryEntry> entries = registry_.Entries();
  entries.insert(entries.begin(),
                 {"the context's config",
                  StrCat("bucket_bytes ", options_.limits.bucket_bytes, ", first_bucket_bytes ",
                         options_.limits.first_bucket_bytes, ", accumulation ",
                         reduces_every() ? "REDUCE_EVERY" : "LOCAL_THEN_REDUCE",
                         options_.average ? ", average" : ", sum")});
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
  plan.param_bytes = layout.data_bytes;
  plan.grad_bytes = machine.storage.grad_bytes();
  plan.padding_bytes =
      layout.data_padding_bytes + layout.grad_padding_bytes * (reduces_every() ? 2 : 1);
  plan.traffic_bytes = layout.reduced_bytes;
  return plan;
}

absl::Status Context::Broadcast(int root) {
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckUsable("broadcast"));
    if (root < 0 || root >= group().size()) {
      return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "broadcast"},
                       StrCat("broadcast: root is ", root, ", group ", group().name(), " has ",
                              group().size(), " ranks; pass a rank from 0"));
    }
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("broadcast"));
  }
  for (const Bucket& bucket : machine_->layout.buckets) {
    for (const Range& range : bucket.ranges)
      WEFT_RETURN_IF_ERROR(BroadcastRange(range, root));
  }
  for (const Range& range : machine_->layout.frozen) {
    WEFT_RETURN_IF_ERROR(BroadcastRange(range, root));
  }
  return CompareParams("broadcast");
}

absl::Status Context::BroadcastRange(const Range& range, int root) {
  std::byte* const data = machine_->storage.Data(range.space, range.begin);
  const absl::Status status =
      group().Run({.kind = OpKind::kBroadcast,
                   .dtype = machine_->layout.spaces[static_cast<size_t>(range.space)].dtype,
                   .root = root,
                   .count = range.count,
                   .in = data,
                   .out = data,
                   .timeout_ns = options_.timeout_ns});
  return LatchUnlocked(Annotate(status, "broadcasting parameters: "));
}

absl::Status Context::Verify() {
  {
    MutexLock lock(mutex_);
    WEFT_RETURN_IF_ERROR(CheckUsable("verify"));
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("verify"));
  }
  return CompareParams("verify");
}

absl::Status Context::CompareParams(const char* call) {
  std::vector<Digest> digests;
  digests.reserve(registry_.params().size());
  for (size_t i = 0; i < registry_.params().size(); ++i) {
    const ParamSpec& param = registry_.params()[i];
    const Place& place = machine_->layout.places[i];
    digests.push_back(param.count == 0 ? Digest()
                                       : DigestOf(machine_->storage.Data(place.space, place.begin),
                                                  param.count * DtypeSize(param.dtype)));
  }
  const absl::StatusOr<std::optional<Difference>> difference =
      FirstDifference(group(), digests, options_.timeout_ns);
  if (!difference.ok()) {
    return LatchUnlocked(Annotate(difference.status(), StrCat(call, ", comparing parameters: ")));
  }
  if (!difference->has_value()) return absl::OkStatus();
  const Difference& found = **difference;
  return MakeError(
      WEFT_MISMATCH, {.rank = found.ranks[0], .group = group().name(), .operation = call},
      StrCat(call, " on group ", group().name(), ": parameter ",
             registry_.params()[found.index].name, ": ", RankList(found.ranks),
             found.ranks.size() == 1 ? " has" : " have",
             " other values than rank 0; copy them from one rank with "
             "weft_shard_context_broadcast, and look for updates that differ between ranks"));
}

}  // namespace weft
