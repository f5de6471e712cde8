// Making a group wherever its ranks are.
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> group,
//                         MakeGroup(store, rank, size, options, {.fake_nodes = GetOptions().fake_nodes}));
//
// Ranks of one machine get a node group, which knows no network; of several, one that spans their islands.
//
// Thread-safety: any thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"
#include "comm/hierarchy/make_span.h"
#include "comm/rendezvous/store.h"

namespace weft {

constexpr int kGroupRanksMax = 65536;

struct GroupPlaces {
  std::string fake_nodes;  // fake_nodes.h
  std::string transport;   // transport_choice.h
  int streams = 1;         // TCP connections over each rail, between two ranks
  SpanSettings span;       // if there are several islands
};

// Collective over the `size` ranks that meet in `store`, which a group of one does without. Errors: as MakeNodeGroup's and
// MakeSpan's; INVALID_ARGUMENT for fake nodes that do not fit, and for a transport that there is not; others of AgreeOnUcx
absl::StatusOr<std::shared_ptr<ProcessGroup>> MakeGroup(Store* store, int rank, int size,
                                                        const GroupOptions& options,
                                                        const GroupPlaces& places);

}  // namespace weft
