// At rest a rank may have all of a param or a part, and the part may be the same on several ranks. The calls here ask the
// layout where the elements are and move them with as little memory as they can: a load comes piece by piece, so that
// no rank needs room for a whole param that it keeps a part of.
#include "shard/context/param_access.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/block_layout.h"
#include "comm/kernels/dtype.h"
#include "shard/checks/agreement.h"
#include "shard/checks/digest.h"

namespace weft {
namespace {

// What passes through memory at a time.
constexpr size_t kPieceBytes = size_t{4} << 20;

// What this rank owns of it, and where that begins among its own elements of the extent.
struct Own {
  OwnedElements owned;
  size_t offset = 0;  // elements; 0 if it owns none
};

Own OwnedHere(const Layout& layout, const Extent& extent, const Place& place, size_t count) {
  const OwnedElements owned =
      OwnedBy(extent, place, count, static_cast<size_t>(layout.MemberOf(extent).rank));
  if (owned.count == 0) return {owned, 0};
  return {owned, place.begin + owned.begin - layout.OwnFirst(extent)};
}

}  // namespace

absl::StatusOr<ParamView> ParamAccess::View(int param) {
  Section section(core_.mutex);
  if (!core_.finalized()) WEFT_RETURN_IF_ERROR(core_.CheckUsable("param_view"));
  const ParamSpec& spec = core_.SpecOf(param);
  const Runtime& runtime = core_.runtime();
  const Place& place = runtime.PlaceOf(param);
  const Space& space = runtime.layout.spaces[static_cast<size_t>(place.space)];
  const Placement& placement = space.placement;
  ParamView view{.count = spec.count, .dtype = spec.dtype, .grad_dtype = space.grad_dtype};
  if (spec.count == 0) return view;
  const StepState& state = runtime.state;
  if (!placement.params_sharded) {
    view.data = runtime.storage.Data(place.space, place.begin);
  } else if (state.units().Of(spec.unit).InUse()) {
    view.data = runtime.UnshardedParam(param);
  } else {
    return state.NotInUse(
        "param_view", spec.unit,
        "its params are sharded at rest: ask for the view between pre_forward and "
        "post_forward, or pre_backward and post_backward");
  }
  if (spec.frozen) return view;
  if (!placement.gradients_sharded) {
    view.grad = runtime.storage.Grad(place.space, place.begin);
  } else if (state.units().Of(spec.unit).InBackward()) {
    view.grad = runtime.UnshardedGradient(param);
  }
  view.grad_unset = runtime.clearing.Unset(param);
  return view;
}

bool ParamAccess::IsUnsharded(int unit) {
  Section section(core_.mutex);
  if (!core_.finalized()) return false;
  return !core_.UnitOf(unit).placement.params_sharded ||
         core_.runtime().state.units().Of(unit).InUse();
}

size_t ParamAccess::UnshardedBytes(int unit) {
  Section section(core_.mutex);
  if (!core_.finalized()) return 0;
  return core_.runtime().layout.units[static_cast<size_t>(unit)].bytes;
}

// Also after one failed: the part is this rank's all the same, to be saved for example.
void ParamAccess::WaitForUpdates(int param) {
  Works works;
  {
    Section section(core_.mutex);
    if (!core_.finalized()) return;
    const int bucket = core_.runtime().PlaceOf(param).bucket;
    if (bucket >= 0) works = core_.runtime().updates.Of(bucket);
  }
  for (const WorkRef& work : works)
    (void)core_.Await(*work);
}

absl::StatusOr<std::pair<ParamView, size_t>> ParamAccess::OwnPart(int param) {
  WaitForUpdates(param);
  Section section(core_.mutex);
  if (!core_.finalized()) WEFT_RETURN_IF_ERROR(core_.CheckUsable("param_part"));
  const ParamSpec& spec = core_.SpecOf(param);
  const Runtime& runtime = core_.runtime();
  const Layout& layout = runtime.layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  const Space& space = layout.spaces[static_cast<size_t>(place.space)];
  const Placement& placement = space.placement;
  ParamView view{.count = spec.count, .dtype = spec.dtype, .grad_dtype = space.grad_dtype};
  if (spec.count == 0) return std::pair(view, size_t{0});
  const bool cut = spec.frozen ? placement.params_sharded : placement.optimizer_sharded;
  if (!cut) {
    view.data = runtime.storage.Data(place.space, place.begin);
    if (!spec.frozen) view.grad = runtime.storage.Grad(place.space, place.begin);
    return std::pair(view, size_t{0});
  }
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const auto [own, offset] = OwnedHere(layout, extent, place, spec.count);
  view.count = own.count;
  if (own.count == 0) return std::pair(view, size_t{0});
  if (!space.offloaded) {
    view.data = runtime.storage.OwnParams(layout, extent).data + offset * DtypeSize(spec.dtype);
  }
  if (!spec.frozen) {
    view.grad = runtime.storage.Reduced(layout, extent).data + offset * DtypeSize(space.grad_dtype);
  }
  return std::pair(view, own.begin);
}

absl::Status ParamAccess::CheckRoot(const char* call, int root) const {
  if (root >= 0 && root < core_.group().size()) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = call},
                   StrCat(call, ": root is ", root, ", group ", core_.group().name(), " has ",
                          core_.group().size(), " ranks; pass a rank from 0"));
}

absl::Status ParamAccess::Load(int param, const void* values, int root) {
  const ParamSpec* spec = nullptr;
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("param_load"));
    if (root != kEveryRank) WEFT_RETURN_IF_ERROR(CheckRoot("param_load", root));
    WEFT_RETURN_IF_ERROR(core_.runtime().state.CheckQuiet("param_load"));
    spec = &core_.SpecOf(param);
    const bool gives = root == kEveryRank || root == core_.group().rank();
    if (gives && values == nullptr && spec->count > 0) {
      return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "param_load"},
                       StrCat("param_load ", spec->name, ": values is NULL; pass its ", spec->count,
                              " elements"));
    }
  }
  WEFT_RETURN_IF_ERROR(core_.Drain());
  if (IsOffloaded(param)) {
    if (const absl::Status unheld = core_.AwaitUnheld(); !unheld.ok())
      return core_.GiveUp("param_load", unheld);
  }
  if (core_.runtime().optimizer != nullptr) core_.runtime().optimizer->kept().ParamWritten(param);
  if (root == kEveryRank) {
    WEFT_RETURN_IF_ERROR(
        StoreElements(param, 0, spec->count, static_cast<const std::byte*>(values)));
    return CompareLoaded(param, values);
  }
  return LoadFrom(param, values, root);
}

// Piece by piece, so that no rank needs room for the whole.
absl::Status ParamAccess::LoadFrom(int param, const void* values, int root) {
  const ParamSpec& spec = core_.SpecOf(param);
  const size_t size = DtypeSize(spec.dtype);
  std::vector<std::byte> piece(std::min(kPieceBytes, spec.count * size));
  for (size_t begin = 0; begin < spec.count; begin += piece.size() / size) {
    const size_t count = std::min(piece.size() / size, spec.count - begin);
    if (root == core_.group().rank()) {
      std::memcpy(piece.data(), static_cast<const std::byte*>(values) + begin * size, count * size);
    }
    const absl::Status sent =
        core_.group().Run({.kind = OpKind::kBroadcast,
                           .dtype = spec.dtype,
                           .root = root,
                           .count = count,
                           .purpose = core_.purposes().Of(Purpose::Kind::kLoad, param),
                           .in = piece.data(),
                           .out = piece.data(),
                           .timeout_ns = core_.options().timeout_ns});
    if (!sent.ok()) {
      return core_.LatchUnlocked(
          core_.AboutParam(param, Annotate(sent, StrCat("param_load ", spec.name, ": "))));
    }
    WEFT_RETURN_IF_ERROR(StoreElements(param, begin, count, piece.data()));
  }
  return absl::OkStatus();
}

absl::Status ParamAccess::CompareLoaded(int param, const void* values) {
  const ParamSpec& spec = core_.SpecOf(param);
  const Digest digest =
      spec.count == 0 ? Digest{} : DigestOf(values, spec.count * DtypeSize(spec.dtype));
  const absl::StatusOr<std::optional<Difference>> difference =
      FirstDifference(core_.group(), {digest}, core_.options().timeout_ns, 1,
                      core_.purposes().Of(Purpose::Kind::kLoad, param));
  if (!difference.ok()) {
    return core_.LatchUnlocked(core_.AboutParam(
        param,
        Annotate(difference.status(), StrCat("param_load ", spec.name, ", comparing values: "))));
  }
  if (!difference->has_value()) return absl::OkStatus();
  return MakeError(
      WEFT_MISMATCH, CulpritOf(core_.group(), (*difference)->ranks[0], "param_load"),
      StrCat("param_load on group ", core_.group().name(), ": parameter ", spec.name, ": ",
             WhoDiffers(**difference),
             "; make initial values from the same seed on every rank, or load them from one"));
}

bool ParamAccess::IsOffloaded(int param) const {
  const Runtime& runtime = core_.runtime();
  return runtime.layout.spaces[static_cast<size_t>(runtime.PlaceOf(param).space)].offloaded;
}

absl::Status ParamAccess::ReadOffloaded(const char* call, int param, const OwnedElements& elements,
                                        void* to) {
  Runtime& runtime = core_.runtime();
  const absl::Status read =
      runtime.optimizer->kept().Read(runtime.storage, param, WEFT_SHARD_STATE_VALUE, elements, to);
  return read.ok() ? read : core_.GiveUp(call, read);
}

absl::Status ParamAccess::WriteOffloaded(const char* call, int param, const OwnedElements& elements,
                                         const void* from) {
  Runtime& runtime = core_.runtime();
  const absl::Status written = runtime.optimizer->kept().Write(
      runtime.storage, param, WEFT_SHARD_STATE_VALUE, elements, from);
  return written.ok() ? written : core_.GiveUp(call, written);
}

absl::Status ParamAccess::StoreElements(int param, size_t begin, size_t count,
                                        const std::byte* values) {
  Runtime& runtime = core_.runtime();
  const Layout& layout = runtime.layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  const Space& space = layout.spaces[static_cast<size_t>(place.space)];
  const size_t size = DtypeSize(space.dtype);
  if (count == 0) return absl::OkStatus();
  if (!space.placement.params_sharded) {
    std::memcpy(runtime.storage.Data(place.space, place.begin + begin), values, count * size);
    return absl::OkStatus();
  }
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const Place piece{.space = place.space, .begin = place.begin + begin};
  const auto [own, offset] = OwnedHere(layout, extent, piece, count);
  if (own.count == 0) return absl::OkStatus();
  if (space.offloaded) {
    return WriteOffloaded("param_load", param, {begin + own.begin, own.count},
                          values + own.begin * size);
  }
  std::memcpy(runtime.storage.OwnParams(layout, extent).data + offset * size,
              values + own.begin * size, own.count * size);
  return absl::OkStatus();
}

absl::Status ParamAccess::Read(int param, void* values, int root) {
  const ParamSpec* spec = nullptr;
  const bool gets = root == kEveryRank || root == core_.group().rank();
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckQuiet("param_read"));
    WEFT_RETURN_IF_ERROR(core_.CheckUpdated("param_read"));
    if (root != kEveryRank) WEFT_RETURN_IF_ERROR(CheckRoot("param_read", root));
    spec = &core_.SpecOf(param);
    if (gets && values == nullptr && spec->count > 0) {
      return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "param_read"},
                       StrCat("param_read ", spec->name, ": values is NULL; pass room for its ",
                              spec->count, " elements"));
    }
  }
  WEFT_RETURN_IF_ERROR(core_.Drain());
  if (spec->count == 0) return absl::OkStatus();
  const Layout& layout = core_.runtime().layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  if (!layout.spaces[static_cast<size_t>(place.space)].placement.params_sharded) {
    if (!gets) return absl::OkStatus();
    std::memcpy(values, core_.runtime().storage.Data(place.space, place.begin),
                spec->count * DtypeSize(spec->dtype));
    return absl::OkStatus();
  }
  return GatherParam(param, values, root);
}

// Each replica has all parts: the root's own gives them.
absl::Status ParamAccess::GatherParam(int param, void* values, int root) {
  Runtime& runtime = core_.runtime();
  const ParamSpec& spec = core_.SpecOf(param);
  const Layout& layout = runtime.layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const bool replicated = layout.SpaceOf(extent).placement.replicated;
  const int root_among = replicated && root != kEveryRank ? root % layout.inner.size : root;
  if (replicated && root != kEveryRank &&
      root - root_among != core_.group().rank() - layout.inner.rank) {
    return absl::OkStatus();
  }
  std::vector<size_t> counts;
  for (size_t rank = 0; rank + 1 < extent.cuts.size(); ++rank)
    counts.push_back(OwnedBy(extent, place, spec.count, rank).count);
  const auto [own, offset] = OwnedHere(layout, extent, place, spec.count);
  const std::byte* part = nullptr;
  std::vector<std::byte> from_file;
  if (own.count > 0 && layout.SpaceOf(extent).offloaded) {
    from_file.resize(own.count * DtypeSize(spec.dtype));
    WEFT_RETURN_IF_ERROR(ReadOffloaded("param_read", param, own, from_file.data()));
    part = from_file.data();
  } else if (own.count > 0) {
    part = runtime.storage.OwnParams(layout, extent).data + offset * DtypeSize(spec.dtype);
  }
  Collective call{.kind = root == kEveryRank ? OpKind::kAllGatherV : OpKind::kGatherV,
                  .dtype = spec.dtype,
                  .root = root == kEveryRank ? 0 : root_among,
                  .purpose = core_.purposes().Of(Purpose::Kind::kRead, param),
                  .in = part,
                  .out = root == kEveryRank || root == core_.group().rank() ? values : nullptr,
                  .timeout_ns = core_.options().timeout_ns};
  auto blocks = std::make_shared<BlockLayout>();
  WEFT_RETURN_IF_ERROR(LayOutBlocks({&own.count, nullptr}, {counts.data(), nullptr},
                                    layout.MemberOf(extent).rank, layout.MemberOf(extent).size,
                                    blocks.get(), &call));
  call.layout = std::move(blocks);
  ProcessGroup& among = replicated ? *runtime.inner : core_.group();
  return core_.LatchUnlocked(core_.AboutParam(
      param, Annotate(core_.Run(among, call), StrCat("param_read ", spec.name, ": "))));
}

absl::Status ParamAccess::Updated() {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckQuiet("params_updated"));
  }
  WEFT_RETURN_IF_ERROR(core_.Drain());  // of an earlier update
  Section section(core_.mutex);
  CallersTurn& turn = core_.runtime().callers_turn;
  if (core_.runtime().optimizer != nullptr && !turn.begun()) {
    core_.runtime().optimizer->kept().ParamsWritten();
  }
  turn.Updated();
  // In the order in which forward will want them.
  for (size_t i = core_.runtime().layout.buckets.size(); i > 0; --i) {
    if (turn.begun() && !turn.HasBucket(static_cast<int>(i - 1))) continue;
    WEFT_RETURN_IF_ERROR(core_.Latch(core_.runtime().updates.Start(static_cast<int>(i - 1))));
  }
  return absl::OkStatus();
}

absl::Status ParamAccess::Broadcast(int root) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckUsable("broadcast"));
    WEFT_RETURN_IF_ERROR(CheckRoot("broadcast", root));
    WEFT_RETURN_IF_ERROR(core_.runtime().state.CheckQuiet("broadcast"));
  }
  WEFT_RETURN_IF_ERROR(core_.Drain());
  Runtime& runtime = core_.runtime();
  if (runtime.parts != nullptr) {
    if (const absl::Status unheld = core_.AwaitUnheld(); !unheld.ok())
      return core_.GiveUp("broadcast", unheld);
  }
  if (runtime.optimizer != nullptr) runtime.optimizer->kept().ParamsWritten();
  const Layout& layout = runtime.layout;
  const Storage& storage = runtime.storage;
  for (const Extent& extent : layout.extents) {
    const Placement& placement = layout.SpaceOf(extent).placement;
    const Range& range = extent.range;
    if (layout.SpaceOf(extent).offloaded) continue;
    if (placement.replicated && placement.params_sharded) {
      // Ranks of a replica lie side by side: root's place among this rank's own is that of its replica.
      WEFT_RETURN_IF_ERROR(BroadcastElements(*runtime.outer, range.space,
                                             storage.OwnParams(layout, extent),
                                             root / layout.inner.size));
    } else if (!placement.params_sharded) {
      WEFT_RETURN_IF_ERROR(BroadcastElements(
          core_.group(), range.space, {storage.Data(range.space, range.begin), range.count}, root));
    }
  }
  for (const Range& range : layout.frozen) {
    WEFT_RETURN_IF_ERROR(BroadcastElements(
        core_.group(), range.space, {storage.Data(range.space, range.begin), range.count}, root));
  }
  for (size_t param = 0; param < core_.declared().registry.params().size(); ++param)
    WEFT_RETURN_IF_ERROR(BroadcastOffloaded(static_cast<int>(param), root));
  return absl::OkStatus();
}

// Replicas have the same parts, which pass through memory piece by piece.
absl::Status ParamAccess::BroadcastOffloaded(int param, int root) {
  Runtime& runtime = core_.runtime();
  const Layout& layout = runtime.layout;
  const Place& place = runtime.PlaceOf(param);
  const Space& space = layout.spaces[static_cast<size_t>(place.space)];
  const size_t count = core_.SpecOf(param).count;
  if (!space.offloaded || !space.placement.replicated || count == 0) return absl::OkStatus();
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const OwnedElements own = OwnedHere(layout, extent, place, count).owned;
  const size_t size = DtypeSize(space.dtype);
  const int root_replica = root / layout.inner.size;
  const bool gives = root_replica == core_.group().rank() / layout.inner.size;
  std::vector<std::byte> piece(std::min(kPieceBytes, own.count * size));
  for (size_t done = 0; done < own.count; done += piece.size() / size) {
    const OwnedElements here{own.begin + done, std::min(piece.size() / size, own.count - done)};
    if (gives) WEFT_RETURN_IF_ERROR(ReadOffloaded("broadcast", param, here, piece.data()));
    WEFT_RETURN_IF_ERROR(
        BroadcastElements(*runtime.outer, place.space, {piece.data(), here.count}, root_replica));
    if (!gives) WEFT_RETURN_IF_ERROR(WriteOffloaded("broadcast", param, here, piece.data()));
  }
  return absl::OkStatus();
}

absl::Status ParamAccess::BroadcastElements(ProcessGroup& among, int space, Part part, int root) {
  if (part.count == 0) return absl::OkStatus();
  const absl::Status status =
      core_.Run(among, {.kind = OpKind::kBroadcast,
                        .dtype = core_.runtime().layout.spaces[static_cast<size_t>(space)].dtype,
                        .root = root,
                        .count = part.count,
                        .purpose = core_.purposes().Of(Purpose::Kind::kBroadcast),
                        .in = part.data,
                        .out = part.data,
                        .timeout_ns = core_.options().timeout_ns});
  return core_.LatchUnlocked(Annotate(status, "broadcasting parameters: "));
}

}  // namespace weft
