#include "shard/layout/write_share.h"

#include <vector>

#include "shard/layout/cut.h"

namespace weft {
namespace {

OwnedElements Share(const OwnedElements& elements, const Member& member) {
  const std::vector<size_t> cuts = CutElements(elements.count, member.size);
  const auto rank = static_cast<size_t>(member.rank);
  const size_t count = cuts[rank + 1] - cuts[rank];
  if (count == 0) return {};
  return {elements.begin + cuts[rank], count};
}

}  // namespace

// A mesh's last axis varies fastest, so the ranks of a replica lie side by side.
Member ReplicaOf(const Layout& layout, const Placement& placement) {
  if (!placement.replicated) return {};
  return {.rank = layout.member.rank / layout.inner.size,
          .size = layout.member.size / layout.inner.size};
}

OwnedElements WriteShare(const Layout& layout, const Place& place, size_t count) {
  if (place.extent < 0) return Share({0, count}, layout.member);
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const auto rank = static_cast<size_t>(layout.MemberOf(extent).rank);
  return Share(OwnedBy(extent, place, count, rank),
               ReplicaOf(layout, layout.SpaceOf(extent).placement));
}

}  // namespace weft
