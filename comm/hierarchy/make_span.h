// Making a group whose ranks are on several islands, as far as its ends go: the islands, the group of this one's ranks, and what
// tells the islands of each other.
//
//   WEFT_ASSIGN_OR_RETURN(SpanCore span, MakeSpan(store, rank, size, options, {.secret = secret}));
//   span.inner->Run(...)                                       // among the ranks of this island
//   if (absl::Status cause = span.watch->Cause(*span.end); !cause.ok()) ...
//   CloseSpan(&span);
//
// Nobody has the group before the ranks of all islands have theirs, so islands begin to listen for each other together.
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/span_end.h"
#include "comm/hierarchy/span_watch.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/store.h"
#include "comm/transport/transport.h"

namespace weft {

struct SpanSettings {
  std::string secret;      // of the job; with none, whoever can connect may speak
  std::string fake_nodes;  // fake_nodes.h
  int64_t limit_ns = IslandAgentSettings{}.limit_ns;  // until an island is unreachable
};

struct SpanCore {
  Membership membership;
  Islands islands;
  std::shared_ptr<ProcessGroup> inner;  // of the ranks of this island
  std::shared_ptr<SpanEnd> end;
  std::shared_ptr<SpanWatch> watch;
  std::shared_ptr<Transport> transport;  // by rank of the group
};

// Collective over the `size` ranks that meet in `store`. Errors: as MakeNodeGroup's; TIMEOUT names an island that has not come;
// INVALID_ARGUMENT for fake nodes that do not fit.
absl::StatusOr<SpanCore> MakeSpan(Store& store, int rank, int size, const GroupOptions& options,
                                  const SpanSettings& settings);

// This rank leaves.
void CloseSpan(SpanCore* span);

}  // namespace weft
