// Context, what finds training that goes wrong quietly: copies that differ, samples that do not, ranks that lag.
#include <optional>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"
#include "shard/context/context.h"
#include "shard/context/section.h"

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

absl::Status Context::CompareLoaded(int param, const void* values) {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Digest digest =
      spec.count == 0 ? kNothing : DigestOf(values, spec.count * DtypeSize(spec.dtype));
  const absl::StatusOr<std::optional<Difference>> difference = FirstDifference(
      group(), {digest}, options_.timeout_ns, 1, purposes_.Of(Purpose::Kind::kLoad, param));
  if (!difference.ok()) {
    return LatchUnlocked(
        Annotate(difference.status(), StrCat("param_load ", spec.name, ", comparing values: ")));
  }
  if (!difference->has_value()) return absl::OkStatus();
  return MakeError(
      WEFT_MISMATCH, CulpritOf(group(), (*difference)->ranks[0], "param_load"),
      StrCat("param_load on group ", group().name(), ": parameter ", spec.name, ": ",
             WhoDiffers(**difference),
             "; make initial values from the same seed on every rank, or load them from one"));
}

absl::Status Context::Verify() {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("verify"));
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("verify"));
  }
  WEFT_RETURN_IF_ERROR(Drain());
  return CompareCopies("verify", /*optimizer_too=*/true);
}

absl::Status Context::VerifyIfDue(const char* call) {
  if (options_.verify_steps == 0 || ++steps_unverified_ < options_.verify_steps) {
    return absl::OkStatus();
  }
  steps_unverified_ = 0;
  WEFT_RETURN_IF_ERROR(Drain());
  return CompareCopies(call, /*optimizer_too=*/true);
}

// Two entries per param, itself and its optimizer state. What all ranks have is compared among all; what
// replicas have, among the ranks at the same place of their replicas, which are a replica's size apart. Both
// are compared in the whole group, so that every rank learns of a difference.
absl::Status Context::CompareCopies(const char* call, bool optimizer_too) {
  const auto param_count = static_cast<int>(registry_.params().size());
  std::vector<Digest> everywhere(2 * registry_.params().size());
  std::vector<Digest> in_replicas(everywhere.size());
  for (int param = 0; param < param_count; ++param) {
    const auto i = static_cast<size_t>(param);
    const Layout& layout = machine_->layout;
    const int space = layout.places[i].space;
    const Placement& placement = layout.spaces[static_cast<size_t>(space)].placement;
    // Params may rest whole though the optimizer is cut within the replica.
    const bool parts = placement.replicated && placement.params_cut;
    (parts ? in_replicas : everywhere)[2 * i] = DigestOfParam(param);
    if (!optimizer_too) continue;
    (placement.replicated ? in_replicas : everywhere)[2 * i + 1] = DigestOfState(param);
  }
  const bool replicas = Any([](const Placement& placement) { return placement.replicated; });
  for (const bool among_replicas : {false, true}) {
    if (among_replicas && !replicas) continue;
    const absl::StatusOr<std::optional<Difference>> difference = FirstDifference(
        group(), among_replicas ? in_replicas : everywhere, options_.timeout_ns,
        among_replicas ? machine_->layout.inner.size : 1, purposes_.Of(Purpose::Kind::kCompare));
    if (!difference.ok()) {
      return LatchUnlocked(Annotate(difference.status(), StrCat(call, ", comparing parameters: ")));
    }
    if (difference->has_value()) return ExplainCopies(call, **difference);
  }
  return absl::OkStatus();
}

Digest Context::DigestOfParam(int param) {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Place& place = machine_->layout.places[static_cast<size_t>(param)];
  const Placement& placement = machine_->layout.spaces[static_cast<size_t>(place.space)].placement;
  if (spec.count == 0 || ExistsOnce(placement.params_cut, placement)) return kNothing;
  const size_t size = DtypeSize(spec.dtype);
  if (!placement.params_cut) {
    return DigestOf(machine_->storage.Data(place.space, place.begin), spec.count * size);
  }
  const auto own = OwnPart(param);
  if (!own.ok() || own->first.count == 0) return kNothing;
  return DigestOf(own->first.data, own->first.count * size);
}

Digest Context::DigestOfState(int param) const {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Place& place = machine_->layout.places[static_cast<size_t>(param)];
  const Placement& placement = machine_->layout.spaces[static_cast<size_t>(place.space)].placement;
  const bool none = machine_->optimizer == nullptr || spec.frozen || spec.count == 0;
  if (none || ExistsOnce(placement.optimizer_cut, placement)) return kNothing;
  return machine_->optimizer->DigestOf(param);
}

absl::Status Context::ExplainCopies(const char* call, const Difference& difference) {
  const std::string& name = registry_.params()[difference.index / 2].name;
  const bool state = difference.index % 2 == 1;
  return MakeError(
      WEFT_MISMATCH, CulpritOf(group(), difference.ranks[0], call),
      StrCat(call, " on group ", group().name(), ": ", state ? "optimizer state of " : "",
             "parameter ", name, ": ", WhoDiffers(difference), "; ",
             state ? "go back to a checkpoint"
                   : "copy them from one rank with weft_shard_context_broadcast",
             ", and look for updates that differ between ranks, or memory that fails"));
}

// Outside of micro-batches, and before a micro-batch uses anything, all ranks have started the same reductions.
absl::Status Context::CheckSamples(const void* samples, size_t bytes) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("check_samples"));
    const std::vector<Event>& events = machine_->residence.events();
    const Event last = events.empty() ? Event{} : events.back();
    const bool using_units =
        last.kind >= Event::Kind::kPreForward && last.kind <= Event::Kind::kReshard;
    if (using_units) {
      return machine_->state.NotInUse("check_samples", last.index,
                                      "call it before the micro-batch uses its first unit, or "
                                      "outside of micro-batches");
    }
  }
  const Digest own = bytes == 0 ? kNothing : DigestOf(samples, bytes);
  const absl::StatusOr<std::vector<Digest>> digests =
      GatherValue(group(), own, options_.timeout_ns, purposes_.Of(Purpose::Kind::kSamples));
  if (!digests.ok()) return LatchUnlocked(Annotate(digests.status(), "check_samples: "));
  const std::string same = SameSamples(*digests);
  if (same.empty()) return absl::OkStatus();
  return MakeError(WEFT_MISMATCH, {.group = group().name(), .operation = "check_samples"},
                   StrCat("check_samples on group ", group().name(), ": ", same,
                          "; does each rank read its own part of the data?"));
}

absl::StatusOr<std::vector<weft_shard_rank_report_t>> Context::Report() {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("context_report"));
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("context_report"));
  }
  WEFT_ASSIGN_OR_RETURN(const weft_shard_rank_report_t own, OwnReport());
  static_assert(std::is_trivially_copyable_v<weft_shard_rank_report_t>);
  std::vector<weft_shard_rank_report_t> reports(static_cast<size_t>(group().size()));
  const absl::Status gathered = group().Run({.kind = OpKind::kAllGather,
                                             .dtype = WEFT_UINT8,
                                             .count = sizeof(own),
                                             .purpose = purposes_.Of(Purpose::Kind::kReport),
                                             .in = &own,
                                             .out = reports.data(),
                                             .timeout_ns = options_.timeout_ns});
  if (!gathered.ok()) return LatchUnlocked(Annotate(gathered, "context_report: "));
  return reports;
}

absl::StatusOr<weft_shard_rank_report_t> Context::OwnReport() {
  weft_shard_rank_report_t report = {};
  report.struct_size = sizeof(report);
  for (size_t param = 0; param < registry_.params().size(); ++param) {
    WEFT_ASSIGN_OR_RETURN(const auto own, OwnPart(static_cast<int>(param)));
    report.element_count += own.first.count;
  }
  report.param_bytes = machine_->storage.data_bytes();
  report.grad_bytes = machine_->storage.grad_bytes();
  report.optimizer_bytes = machine_->optimizer == nullptr ? 0 : machine_->optimizer->bytes();
  report.pool_bytes = machine_->residence.pool_bytes();
  const StepTimes times = clock_.Take();
  report.step_count = clock_.steps();
  report.busy_ns = times.busy_ns;
  report.gather_waited_ns = times.gather_waited_ns;
  report.reduce_waited_ns = times.reduce_waited_ns;
  return report;
}

}  // namespace weft
