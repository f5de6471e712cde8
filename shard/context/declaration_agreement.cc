// Ranks that declare differently would sum what does not belong together, so the texts of all declarations are compared
// before anything is made of them. They travel as digests; only the entry that differs is sent as text.
#include "shard/context/declaration_agreement.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/checks/rank_list.h"
#include "shard/plan/plan.h"

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

// `subject` is that of an entry: "unit blocks.0", "parameter blocks.0.weight" or something else.
absl::Status AboutDeclared(const ContextCore& core, std::string_view subject,
                           const absl::Status& status) {
  constexpr std::string_view kUnit = "unit ";
  constexpr std::string_view kParam = "parameter ";
  if (subject.starts_with(kUnit)) {
    return WithSubject(status, subject.substr(kUnit.size()), {});
  }
  if (!subject.starts_with(kParam)) return status;
  const std::string_view name = subject.substr(kParam.size());
  for (const ParamSpec& param : core.declared().registry.params()) {
    if (param.name == name) return WithSubject(status, core.UnitOf(param.unit).name, name);
  }
  return WithSubject(status, {}, name);
}

Digest DigestOfEntry(const RegistryEntry& entry) {
  const std::string text = StrCat(entry.subject, "\n", entry.facts);
  return DigestOf(text.data(), text.size());
}

// What decides the buckets, their reductions and the gathers stands first. Deadlines are local, and so is
// overlap as long as nothing is gathered.
std::vector<RegistryEntry> AgreedEntries(const ContextCore& core) {
  const Registry& registry = core.declared().registry;
  const ContextOptions& options = core.options();
  const std::vector<int>& order = core.declared().order;
  std::vector<RegistryEntry> entries = registry.Entries();
  std::string facts = StrCat(
      "bucket_bytes ", options.limits.bucket_bytes, ", first_bucket_bytes ",
      options.limits.first_bucket_bytes, ", accumulation ", AccumulationName(options.accumulation),
      options.average ? ", average" : ", sum", options.uneven ? ", uneven" : "");
  if (AnythingSharded(registry)) {
    absl::StrAppend(&facts, ", prefetch ", options.overlap ? options.prefetch : 0,
                    options.overlap ? "" : " without overlap", ", memory_budget_bytes ",
                    options.budget_bytes, ", microbatches ", options.microbatches,
                    options.offload.any() && options.offload.params ? ", params offloaded" : "");
    if (options.views != WEFT_SHARD_VIEWS_MOVE) {
      absl::StrAppend(&facts, ", stable_views ",
                      options.views == WEFT_SHARD_VIEWS_STABLE ? "STABLE" : "APART");
    }
  }
  if (core.mesh().axes().size() > 1) {
    for (const MeshAxis& axis : core.mesh().axes())
      absl::StrAppend(&facts, ", ", axis.size, " ranks along ", axis.name);
  }
  if (options.verify_steps != 0) {
    absl::StrAppend(&facts, ", verify_steps ", options.verify_steps);
  }
  absl::StrAppend(
      &facts, ", optimizer ",
      core.declared().optimizer.has_value() ? OptimizerText(*core.declared().optimizer) : "none");
  const std::vector<OptimizerGroup>& groups = core.declared().groups;
  for (size_t i = groups.size(); i > 1; --i)  // group 0 is the optimizer
    entries.insert(entries.begin(), {StrCat("param group ", i - 1), GroupText(groups[i - 1])});
  entries.insert(entries.begin(), {"the context's config", facts});
  for (size_t i = 0; i < order.size(); ++i) {
    entries.push_back(
        {StrCat("use ", i, " of the hinted order"), StrCat("unit ", registry.UnitName(order[i]))});
  }
  const std::vector<UnitRun>& runs = core.declared().runs;
  for (size_t i = 0; i < runs.size(); ++i) {
    entries.push_back({StrCat("run ", i, " of the hinted ones"),
                       StrCat(runs[i].backward ? "backward" : "forward", " of unit ",
                              registry.UnitName(runs[i].unit))});
  }
  return entries;
}

absl::Status ExplainDifference(ContextCore& core, const std::vector<RegistryEntry>& entries,
                               const Difference& difference) {
  const size_t index = difference.index;
  const int outlier = difference.ranks[0];
  const int usual = difference.sides[0][0];
  std::string own;
  if (index < entries.size()) own = StrCat(entries[index].subject, "\n", entries[index].facts);
  const absl::StatusOr<std::vector<std::string>> texts = GatherText(
      core.group(), own, core.options().timeout_ns, core.purposes().Of(Purpose::Kind::kDeclare));
  if (!texts.ok()) return core.LatchUnlocked(Annotate(texts.status(), "finalize: "));
  const std::string& first = (*texts)[static_cast<size_t>(usual)];
  const std::string& other = (*texts)[static_cast<size_t>(outlier)];
  const bool same_subject = !first.empty() && Subject(first) == Subject(other);
  std::string message = StrCat("finalize on group ", core.group().name(), ": ",
                               same_subject ? Subject(first) : StrCat("declaration ", index),
                               ": rank ", outlier, " has ", Declared(other, same_subject),
                               ", rank ", usual, " has ", Declared(first, same_subject));
  if (difference.ranks.size() > 1) {
    absl::StrAppend(&message, " (",
                    difference.majority ? StrCat(RankList(difference.ranks), " differ from ",
                                                 RankList(difference.sides[0]))
                                        : StrCat(SideList(difference.sides), " differ"),
                    ")");
  }
  absl::StrAppend(&message, "; every rank must declare the same in the same order");
  const absl::Status differs =
      MakeError(WEFT_MISMATCH, CulpritOf(core.group(), outlier, "finalize"), message);
  return same_subject ? AboutDeclared(core, Subject(first), differs) : differs;
}

}  // namespace

absl::Status CompareDeclarations(ContextCore& core) {
  const std::vector<RegistryEntry> entries = AgreedEntries(core);
  std::vector<Digest> digests;
  digests.reserve(entries.size());
  for (const RegistryEntry& entry : entries)
    digests.push_back(DigestOfEntry(entry));
  absl::StatusOr<std::optional<Difference>> difference =
      FirstDifference(core.group(), digests, core.options().timeout_ns, 1,
                      core.purposes().Of(Purpose::Kind::kDeclare));
  if (!difference.ok()) {
    return core.LatchUnlocked(Annotate(difference.status(), "finalize, comparing declarations: "));
  }
  if (!difference->has_value()) return absl::OkStatus();
  return ExplainDifference(core, entries, **difference);
}

}  // namespace weft
