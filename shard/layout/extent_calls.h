// The collectives of each extent, made once: what gathers it, and what reduces it to each rank's part.
//
//   WEFT_ASSIGN_OR_RETURN(ExtentCalls calls, ExtentCalls::Make(layout, timeout_ns));
//   Collective call = calls.Gather(extent, own_part, whole);
//   WEFT_ASSIGN_OR_RETURN(WorkRef work, group->Start(call));
//
// HYBRID_SHARD reduces float32 in place of 16 bits (Bucket::sums).
// In place is out + the rank's cut == in (gather), and in + the rank's cut == out (reduce).
//
// Thread-safety: constant after Make.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/group/collective.h"
#include "shard/layout/layout.h"

namespace weft {

class ExtentCalls {
 public:
  ExtentCalls() = default;
  static absl::StatusOr<ExtentCalls> Make(const Layout& layout, int64_t timeout_ns);

  // `own` is this rank's part, `whole` the range's first element.
  Collective Gather(int extent, const void* own, void* whole) const;
  // HPZ: from the parts of the ranks of the mesh's last axis.
  Collective GatherInner(int extent, const void* part, void* whole) const;
  Collective Reduce(int extent, weft_op_t op, const void* whole, void* own) const;

 private:
  std::vector<Collective> gathers_;  // by extent
  std::vector<Collective> inner_gathers_;
  std::vector<Collective> reduces_;
};

}  // namespace weft
