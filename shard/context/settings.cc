#include "shard/context/settings.h"

#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "shard/checks/agreement.h"

namespace weft {
namespace {

struct SharedSettings {
  int64_t prefetch = 0;
  int64_t verify_steps = 0;

  bool operator==(const SharedSettings&) const = default;
};

std::string SettingsText(const SharedSettings& settings) {
  return StrCat("prefetch ", settings.prefetch, ", verify_steps ", settings.verify_steps);
}

}  // namespace

absl::Status ChangeSettings(ContextCore& core, const SettingsChange& change) {
  constexpr char kCall[] = "context_set";
  ContextOptions options;
  {
    Section section(core.mutex);
    WEFT_RETURN_IF_ERROR(core.CheckQuiet(kCall));
    options = core.options();
  }
  const bool rearranges = change.prefetch.has_value() && *change.prefetch != options.prefetch;
  options.prefetch = change.prefetch.value_or(options.prefetch);
  options.verify_steps = change.verify_steps.value_or(options.verify_steps);

  const SharedSettings own{.prefetch = options.prefetch, .verify_steps = options.verify_steps};
  const absl::StatusOr<std::vector<SharedSettings>> all = GatherValue(
      core.group(), own, options.timeout_ns, core.purposes().Of(Purpose::Kind::kDeclare));
  if (!all.ok()) {
    return core.LatchUnlocked(Annotate(all.status(), "context_set, comparing settings: "));
  }
  for (size_t rank = 1; rank < all->size(); ++rank) {
    if ((*all)[rank] == (*all)[0]) continue;
    return MakeError(WEFT_MISMATCH, CulpritOf(core.group(), static_cast<int>(rank), kCall),
                     StrCat("context_set on group ", core.group().name(), ": rank ", rank,
                            " asks for ", SettingsText((*all)[rank]), ", rank 0 for ",
                            SettingsText((*all)[0]), "; pass the same on all ranks"));
  }
  Section section(core.mutex);
  core.SetOptions(options);
  if (rearranges) core.runtime().recorded.Forget();
  return absl::OkStatus();
}

}  // namespace weft
