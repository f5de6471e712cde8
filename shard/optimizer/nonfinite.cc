#include "shard/optimizer/nonfinite.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/checks/agreement.h"
#include "shard/optimizer/sum_squares.h"

namespace weft {
namespace {

// What a rank found; travels as numbers.
struct Found {
  uint64_t param = UINT64_MAX;
  uint64_t element = 0;

  bool operator<(const Found& other) const {
    return param != other.param ? param < other.param : element < other.element;
  }
};

bool HasNonfinite(Isa isa, weft_dtype_t dtype, const std::byte* values, size_t count) {
  ExactSum ignored;
  return AddSquares(isa, dtype, values, count, 0, ignored) > 0;
}

// The first of an interval that has one.
size_t FirstIn(Isa isa, weft_dtype_t dtype, const std::byte* values, size_t count) {
  size_t begin = 0;
  while (count > 1) {
    const size_t half = count / 2;
    const bool earlier = HasNonfinite(isa, dtype, values + begin * DtypeSize(dtype), half);
    if (!earlier) begin += half;
    count = earlier ? half : count - half;
  }
  return begin;
}

// In this rank's share of one param, which the gradient norm counts: the first element.
std::optional<size_t> FindIn(const ParamSpec& spec, const Place& place, const Layout& layout,
                             const Storage& storage, Isa isa) {
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const Space& space = layout.SpaceOf(extent);
  const OwnedElements own =
      OwnedBy(extent, place, spec.count, static_cast<size_t>(layout.MemberOf(extent).rank));
  if (own.count == 0) return std::nullopt;
  // What a reduction leaves here begins with this rank's share, or with the extent.
  const size_t first =
      space.placement.optimizer_sharded ? layout.OwnFirst(extent) : extent.range.begin;
  const std::byte* const gradients =
      storage.Reduced(layout, extent).data +
      (place.begin + own.begin - first) * DtypeSize(space.grad_dtype);
  if (!HasNonfinite(isa, space.grad_dtype, gradients, own.count)) return std::nullopt;
  return own.begin + FirstIn(isa, space.grad_dtype, gradients, own.count);
}

Found FindOwn(const Registry& registry, const Layout& layout, const Storage& storage, Isa isa) {
  for (size_t param = 0; param < registry.params().size(); ++param) {
    const ParamSpec& spec = registry.params()[param];
    if (spec.frozen || !spec.counted || spec.count == 0) continue;
    const auto element = FindIn(spec, layout.places[param], layout, storage, isa);
    if (element.has_value()) return {.param = param, .element = *element};
  }
  return {};
}

}  // namespace

Nonfinite NonfiniteRun::Next(const OptimizerConfig& config, bool expected) {
  if (expected) {
    steps_ = 0;
    return Nonfinite::kSkip;
  }
  ++steps_;
  switch (config.nonfinite) {
    case WEFT_NONFINITE_SKIP:
      return Nonfinite::kSkip;
    case WEFT_NONFINITE_FAIL:
      if (steps_ >= config.nonfinite_steps) return Nonfinite::kFail;
      break;
    case WEFT_NONFINITE_WARN:
      break;
  }
  return steps_ == 1 ? Nonfinite::kWarn : Nonfinite::kSkip;
}

absl::StatusOr<NonfiniteGradient> FirstNonfinite(ProcessGroup& group, const Registry& registry,
                                                 const Layout& layout, const Storage& storage,
                                                 Isa isa, int64_t timeout_ns,
                                                 const CallPurpose& purpose) {
  const Found own = FindOwn(registry, layout, storage, isa);
  WEFT_ASSIGN_OR_RETURN(const std::vector<Found> found,
                        GatherValue(group, own, timeout_ns, purpose));
  const auto first = std::min_element(found.begin(), found.end());
  if (first->param >= registry.params().size()) return NonfiniteGradient{};
  return NonfiniteGradient{.param = static_cast<int>(first->param),
                           .element = static_cast<size_t>(first->element),
                           .rank = static_cast<int>(first - found.begin())};
}

std::string NonfiniteText(const NonfiniteGradient& first, const Registry& registry,
                          const NonfiniteStep& when) {
  std::string text =
      StrCat("optimizer_step on group ", when.group, ", step ", when.step, ": ", when.elements,
             " reduced gradient element", when.elements == 1 ? " is" : "s are", " infinite or NaN");
  if (first.param >= 0) {
    const ParamSpec& spec = registry.params()[static_cast<size_t>(first.param)];
    text += StrCat(", the first in parameter ", spec.name, " (element ", first.element, " of ",
                   spec.count, "), in the part of rank ", first.rank);
  }
  if (when.steps > 1) text += StrCat("; step ", when.steps, " in a row");
  return text +
         "; nothing was updated: look for a loss that is not finite, for bad samples, and for a "
         "learning rate that is too large";
}

}  // namespace weft
