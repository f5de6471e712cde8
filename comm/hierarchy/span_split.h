// Cutting a group over several islands.
//
//   WEFT_ASSIGN_OR_RETURN(std::optional<SpanPart> part, SplitSpan(parent, core, color, key, options));
//
// Each island splits its ranks' group, and all agree that they could. A part whose ranks are on one island is a node group. One over
// several has the links and the watch of its parent: nothing is connected anew.
//
// Thread-safety: as ProcessGroup::Split.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/make_span.h"

namespace weft {

struct SpanPart {
  std::shared_ptr<ProcessGroup> on_one_island;  // else nullptr, and the rest says what it is
  SpanCore core;
  int rank = 0;
  GroupOptions options;
};

// Collective over the parent; nothing for color < 0. If the parent ends meanwhile, why it has, the
// same on all ranks; else REMOTE_ERROR names a rank that could not do its part.
absl::StatusOr<std::optional<SpanPart>> SplitSpan(ProcessGroup& parent, const SpanCore& core,
                                                  int color, int key, const GroupOptions& options);

}  // namespace weft
