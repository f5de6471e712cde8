// What is compared here has gone wrong without any call failing: memory that flipped, an update that differed, two ranks
// that read the same samples. Digests are compared, as they are small, and a binary search over them names the first
// param that differs. What exists once has nothing to be compared with and is left out.
#include "shard/context/consistency_checks.h"

#include <optional>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checks/rank_list.h"

namespace weft {
namespace {

// Nothing is compared where a rank has nothing, or what it has exists once.
constexpr Digest kNothing = {};

bool ExistsOnce(bool cut, const Placement& placement) {
  return cut && !placement.replicated;
}

// "ranks 0, 2 were given the same samples, and so were ranks 1, 3"; empty if none were.
std::string SameSamples(const std::vector<Digest>& digests) {
  std::string text;
  for (const std::vector<int>& side : SidesOf(digests)) {
    if (side.size() < 2 || digests[static_cast<size_t>(side[0])] == kNothing) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", and so were ", RankList(side),
                    text.empty() ? " were given the same samples" : "");
  }
  return text;
}

}  // namespace

absl::Status ConsistencyChecks::Verify() {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckQuiet("verify"));
  }
  WEFT_RETURN_IF_ERROR(core_.Drain());
  return CompareCopies("verify", /*optimizer_too=*/true);
}

absl::Status ConsistencyChecks::VerifyIfDue(const char* call) {
  if (core_.options().verify_steps == 0 || ++steps_unverified_ < core_.options().verify_steps) {
    return absl::OkStatus();
  }
  steps_unverified_ = 0;
  WEFT_RETURN_IF_ERROR(core_.Drain());
  return CompareCopies(call, /*optimizer_too=*/true);
}

// Two entries per param, itself and its optimizer state. What all ranks have is compared among all; what
// replicas have, among the ranks at the same place of their replicas, which are a replica's size apart. Both
// are compared in the whole group, so that every rank learns of a difference.
absl::Status ConsistencyChecks::CompareCopies(const char* call, bool optimizer_too) {
  const Layout& layout = core_.runtime().layout;
  const auto param_count = static_cast<int>(core_.declared().registry.params().size());
  std::vector<Digest> everywhere(2 * core_.declared().registry.params().size());
  std::vector<Digest> in_replicas(everywhere.size());
  for (int param = 0; param < param_count; ++param) {
    const auto i = static_cast<size_t>(param);
    const int space = layout.places[i].space;
    const Placement& placement = layout.spaces[static_cast<size_t>(space)].placement;
    // Params may be unsharded at rest though the optimizer is sharded within the replica.
    const bool parts = placement.replicated && placement.params_sharded;
    const absl::StatusOr<Digest> of_param = DigestOfParam(param);
    if (!of_param.ok()) return core_.GiveUp(call, of_param.status());
    (parts ? in_replicas : everywhere)[2 * i] = *of_param;
    if (!optimizer_too) continue;
    const absl::StatusOr<Digest> of_state = DigestOfState(param);
    if (!of_state.ok()) return core_.GiveUp(call, of_state.status());
    (placement.replicated ? in_replicas : everywhere)[2 * i + 1] = *of_state;
  }
  const bool replicas =
      core_.declared().Any([](const Placement& placement) { return placement.replicated; });
  for (const bool among_replicas : {false, true}) {
    if (among_replicas && !replicas) continue;
    const absl::StatusOr<std::optional<Difference>> difference = FirstDifference(
        core_.group(), among_replicas ? in_replicas : everywhere, core_.options().timeout_ns,
        among_replicas ? layout.inner.size : 1, core_.purposes().Of(Purpose::Kind::kCompare));
    if (!difference.ok()) {
      return core_.LatchUnlocked(
          Annotate(difference.status(), StrCat(call, ", comparing parameters: ")));
    }
    if (difference->has_value()) return ExplainCopies(call, **difference);
  }
  return absl::OkStatus();
}

absl::StatusOr<Digest> ConsistencyChecks::DigestOfParam(int param) {
  Runtime& runtime = core_.runtime();
  const ParamSpec& spec = core_.SpecOf(param);
  const Place& place = runtime.PlaceOf(param);
  const Space& space = runtime.layout.spaces[static_cast<size_t>(place.space)];
  const Placement& placement = space.placement;
  if (spec.count == 0 || ExistsOnce(placement.params_sharded, placement)) return kNothing;
  const size_t size = DtypeSize(spec.dtype);
  if (!placement.params_sharded) {
    return DigestOf(runtime.storage.Data(place.space, place.begin), spec.count * size);
  }
  const auto own = params_.OwnPart(param);
  if (!own.ok() || own->first.count == 0) return kNothing;
  if (space.offloaded) return runtime.optimizer->kept().ValueDigestOf(param);
  return DigestOf(own->first.data, own->first.count * size);
}

absl::StatusOr<Digest> ConsistencyChecks::DigestOfState(int param) const {
  Runtime& runtime = core_.runtime();
  const ParamSpec& spec = core_.SpecOf(param);
  const Place& place = runtime.PlaceOf(param);
  const Placement& placement = runtime.layout.spaces[static_cast<size_t>(place.space)].placement;
  const bool none = runtime.optimizer == nullptr || spec.frozen || spec.count == 0;
  if (none || ExistsOnce(placement.optimizer_sharded, placement)) return kNothing;
  return runtime.optimizer->kept().DigestOf(param);
}

absl::Status ConsistencyChecks::ExplainCopies(const char* call, const Difference& difference) {
  const auto param = static_cast<int>(difference.index / 2);
  const std::string& name = core_.SpecOf(param).name;
  const bool state = difference.index % 2 == 1;
  const absl::Status differs = MakeError(
      WEFT_MISMATCH, CulpritOf(core_.group(), difference.ranks[0], call),
      StrCat(call, " on group ", core_.group().name(), ": ", state ? "optimizer state of " : "",
             "parameter ", name, ": ", WhoDiffers(difference), "; ",
             state ? "go back to a checkpoint"
                   : "copy them from one rank with weft_shard_context_broadcast",
             ", and look for updates that differ between ranks, or memory that fails"));
  return core_.AboutParam(param, differs);
}

absl::Status ConsistencyChecks::CheckSamples(const void* samples, size_t bytes) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("check_samples"));
    WEFT_RETURN_IF_ERROR(core_.runtime().state.CheckSamples());
  }
  const Digest own = bytes == 0 ? kNothing : DigestOf(samples, bytes);
  const absl::StatusOr<std::vector<Digest>> digests = GatherValue(
      core_.group(), own, core_.options().timeout_ns, core_.purposes().Of(Purpose::Kind::kSamples));
  if (!digests.ok()) return core_.LatchUnlocked(Annotate(digests.status(), "check_samples: "));
  const std::string same = SameSamples(*digests);
  if (same.empty()) return absl::OkStatus();
  return MakeError(WEFT_MISMATCH, {.group = core_.group().name(), .operation = "check_samples"},
                   StrCat("check_samples on group ", core_.group().name(), ": ", same,
                          "; does each rank read its own part of the data?"));
}

absl::StatusOr<std::vector<weft_shard_rank_report_t>> ConsistencyChecks::Report() {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckQuiet("context_report"));
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_rank_report_t own, OwnReport());
  absl::StatusOr<std::vector<weft_shard_rank_report_t>> reports = GatherValue(
      core_.group(), own, core_.options().timeout_ns, core_.purposes().Of(Purpose::Kind::kReport));
  if (!reports.ok()) return core_.LatchUnlocked(Annotate(reports.status(), "context_report: "));
  return reports;
}

absl::StatusOr<weft_shard_rank_report_t> ConsistencyChecks::OwnReport() {
  Runtime& runtime = core_.runtime();
  weft_shard_rank_report_t report = {};
  report.struct_size = sizeof(report);
  for (size_t param = 0; param < core_.declared().registry.params().size(); ++param) {
    WEFT_ASSIGN_OR_RETURN(const auto own, params_.OwnPart(static_cast<int>(param)));
    report.element_count += own.first.count;
  }
  report.param_bytes = runtime.storage.data_bytes();
  report.grad_bytes = runtime.storage.grad_bytes();
  report.optimizer_bytes = runtime.optimizer == nullptr ? 0 : runtime.optimizer->bytes();
  report.optimizer_bytes += runtime.parts == nullptr ? 0 : runtime.parts->bytes();
  report.pool_bytes = runtime.unshard_manager.pool_bytes();
  const StepTimes times = clock_.Take();
  report.step_count = clock_.steps();
  report.busy_ns = times.busy_ns;
  report.gather_waited_ns = times.gather_waited_ns;
  report.reduce_waited_ns = times.reduce_waited_ns;
  return report;
}

}  // namespace weft
