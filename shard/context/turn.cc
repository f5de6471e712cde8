#include "shard/context/turn.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "shard/checks/agreement.h"

namespace weft {
namespace {

// What a rank is about to do in a step.
struct Turn {
  uint64_t active = 0;  // it has data
  uint64_t mode = 0;
  uint64_t tag = 0;
};

std::string TurnText(const Turn& turn) {
  return StrCat(turn.mode == WEFT_SHARD_TRAIN ? "TRAIN" : "EVAL", ", tag ", turn.tag);
}

}  // namespace

absl::StatusOr<int> TakeTurn(ContextCore& core, bool active) {
  Turn own{.active = active ? 1u : 0u};
  {
    Section section(core.mutex);
    const auto [mode, tag] = core.runtime().state.kind();
    own.mode = static_cast<uint64_t>(mode);
    own.tag = tag;
  }
  const absl::StatusOr<std::vector<Turn>> gathered = GatherValue(
      core.group(), own, core.options().timeout_ns, core.purposes().Of(Purpose::Kind::kJoin));
  if (!gathered.ok()) {
    return core.LatchUnlocked(
        Annotate(gathered.status(), active ? "microbatch_begin, asking who has data: "
                                           : "join, asking who has data: "));
  }
  const std::vector<Turn>& turns = *gathered;
  for (size_t rank = 1; rank < turns.size(); ++rank) {
    if (turns[rank].mode == turns[0].mode && turns[rank].tag == turns[0].tag) continue;
    return core.LatchUnlocked(MakeError(
        WEFT_MISMATCH, CulpritOf(core.group(), static_cast<int>(rank), "step_begin"),
        StrCat("step_begin on group ", core.group().name(), ": rank ", rank, " began a step of ",
               TurnText(turns[rank]), ", rank 0 one of ", TurnText(turns[0]),
               "; every rank must begin the same steps, also one that has no data left")));
  }
  return static_cast<int>(
      std::count_if(turns.begin(), turns.end(), [](const Turn& turn) { return turn.active != 0; }));
}

}  // namespace weft
