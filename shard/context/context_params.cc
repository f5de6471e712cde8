// Context, parameters outside of steps: where they are, loading, reading, broadcasting.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/block_layout.h"
#include "comm/kernels/dtype.h"
#include "shard/context/context.h"
#include "shard/context/section.h"

namespace weft {
namespace {

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

absl::StatusOr<ParamView> Context::View(int param) {
  Section section(*this);
  if (machine_ == nullptr) WEFT_RETURN_IF_ERROR(CheckUsable("param_view"));
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Place& place = machine_->layout.places[static_cast<size_t>(param)];
  const Space& space = machine_->layout.spaces[static_cast<size_t>(place.space)];
  const Placement& placement = space.placement;
  ParamView view{.count = spec.count, .dtype = spec.dtype, .grad_dtype = space.grad_dtype};
  if (spec.count == 0) return view;
  const StepState& state = machine_->state;
  if (!placement.params_cut) {
    view.data = machine_->storage.Data(place.space, place.begin);
  } else if (state.InUse(spec.unit)) {
    view.data = WholeParam(param);
  } else {
    return state.NotInUse("param_view", spec.unit,
                          "its params rest cut: ask for the view between pre_forward and "
                          "post_forward, or pre_backward and post_backward");
  }
  if (spec.frozen) return view;
  if (!placement.gradients_cut) {
    view.grad = machine_->storage.Grad(place.space, place.begin);
  } else if (state.InBackward(spec.unit)) {
    view.grad = WholeGradient(param);
  }
  return view;
}

std::byte* Context::WholeParam(int param) const {
  const Place& place = machine_->layout.places[static_cast<size_t>(param)];
  const int unit = registry_.params()[static_cast<size_t>(param)].unit;
  std::byte* const data = machine_->residence.UnitExtent(unit, place.extent);
  if (data == nullptr) return nullptr;
  const Extent& extent = machine_->layout.extents[static_cast<size_t>(place.extent)];
  return data +
         (place.begin - extent.range.begin) * DtypeSize(machine_->layout.SpaceOf(extent).dtype);
}

std::byte* Context::WholeGradient(int param) const {
  const Place& place = machine_->layout.places[static_cast<size_t>(param)];
  std::byte* const data = machine_->residence.BucketExtent(place.bucket, place.extent);
  if (data == nullptr) return nullptr;
  const Extent& extent = machine_->layout.extents[static_cast<size_t>(place.extent)];
  return data + (place.begin - extent.range.begin) *
                    DtypeSize(machine_->layout.SpaceOf(extent).grad_dtype);
}

// Also after one failed: the part is this rank's all the same, to be saved for example.
void Context::WaitForUpdates(int param) {
  Works works;
  {
    Section section(*this);
    if (machine_ == nullptr) return;
    const int bucket = machine_->layout.places[static_cast<size_t>(param)].bucket;
    if (bucket >= 0) works = machine_->residence.Updates(bucket);
  }
  for (const WorkRef& work : works)
    (void)Await(*work);
}

absl::StatusOr<std::pair<ParamView, size_t>> Context::OwnPart(int param) {
  WaitForUpdates(param);
  Section section(*this);
  if (machine_ == nullptr) WEFT_RETURN_IF_ERROR(CheckUsable("param_part"));
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Layout& layout = machine_->layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  const Space& space = layout.spaces[static_cast<size_t>(place.space)];
  const Placement& placement = space.placement;
  ParamView view{.count = spec.count, .dtype = spec.dtype, .grad_dtype = space.grad_dtype};
  if (spec.count == 0) return std::pair(view, size_t{0});
  const bool cut = spec.frozen ? placement.params_cut : placement.optimizer_cut;
  if (!cut) {
    view.data = machine_->storage.Data(place.space, place.begin);
    if (!spec.frozen) view.grad = machine_->storage.Grad(place.space, place.begin);
    return std::pair(view, size_t{0});
  }
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const auto [own, offset] = OwnedHere(layout, extent, place, spec.count);
  view.count = own.count;
  if (own.count == 0) return std::pair(view, size_t{0});
  view.data = machine_->storage.OwnParams(layout, extent).data + offset * DtypeSize(spec.dtype);
  if (!spec.frozen) {
    view.grad =
        machine_->storage.Reduced(layout, extent).data + offset * DtypeSize(space.grad_dtype);
  }
  return std::pair(view, own.begin);
}

absl::Status Context::CheckRoot(const char* call, int root) const {
  if (root >= 0 && root < group().size()) return absl::OkStatus();
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = call},
                   StrCat(call, ": root is ", root, ", group ", group().name(), " has ",
                          group().size(), " ranks; pass a rank from 0"));
}

absl::Status Context::Load(int param, const void* values, int root) {
  const ParamSpec* spec = nullptr;
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("param_load"));
    if (root != kEveryRank) WEFT_RETURN_IF_ERROR(CheckRoot("param_load", root));
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("param_load"));
    spec = &registry_.params()[static_cast<size_t>(param)];
    const bool gives = root == kEveryRank || root == group().rank();
    if (gives && values == nullptr && spec->count > 0) {
      return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "param_load"},
                       StrCat("param_load ", spec->name, ": values is NULL; pass its ", spec->count,
                              " elements"));
    }
  }
  WEFT_RETURN_IF_ERROR(Drain());
  if (machine_->optimizer != nullptr) machine_->optimizer->ParamWritten(param);
  if (root == kEveryRank) {
    StoreElements(param, 0, spec->count, static_cast<const std::byte*>(values));
    return CompareLoaded(param, values);
  }
  return LoadFrom(param, values, root);
}

// Piece by piece, so that no rank needs room for the whole.
absl::Status Context::LoadFrom(int param, const void* values, int root) {
  constexpr size_t kPieceBytes = size_t{4} << 20;
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const size_t size = DtypeSize(spec.dtype);
  std::vector<std::byte> piece(std::min(kPieceBytes, spec.count * size));
  for (size_t begin = 0; begin < spec.count; begin += piece.size() / size) {
    const size_t count = std::min(piece.size() / size, spec.count - begin);
    if (root == group().rank()) {
      std::memcpy(piece.data(), static_cast<const std::byte*>(values) + begin * size, count * size);
    }
    const absl::Status sent = group().Run({.kind = OpKind::kBroadcast,
                                           .dtype = spec.dtype,
                                           .root = root,
                                           .count = count,
                                           .purpose = purposes_.Of(Purpose::Kind::kLoad, param),
                                           .in = piece.data(),
                                           .out = piece.data(),
                                           .timeout_ns = options_.timeout_ns});
    if (!sent.ok()) {
      return LatchUnlocked(Annotate(sent, StrCat("param_load ", spec.name, ": ")));
    }
    StoreElements(param, begin, count, piece.data());
  }
  return absl::OkStatus();
}

void Context::StoreElements(int param, size_t begin, size_t count, const std::byte* values) const {
  const Layout& layout = machine_->layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  const Space& space = layout.spaces[static_cast<size_t>(place.space)];
  const size_t size = DtypeSize(space.dtype);
  if (count == 0) return;
  if (!space.placement.params_cut) {
    std::memcpy(machine_->storage.Data(place.space, place.begin + begin), values, count * size);
    return;
  }
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  const Place piece{.space = place.space, .begin = place.begin + begin};
  const auto [own, offset] = OwnedHere(layout, extent, piece, count);
  if (own.count == 0) return;
  std::memcpy(machine_->storage.OwnParams(layout, extent).data + offset * size,
              values + own.begin * size, own.count * size);
}

absl::Status Context::Read(int param, void* values) {
  const ParamSpec* spec = nullptr;
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("param_read"));
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("param_read"));
    spec = &registry_.params()[static_cast<size_t>(param)];
    if (values == nullptr && spec->count > 0) {
      return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "param_read"},
                       StrCat("param_read ", spec->name, ": values is NULL; pass room for its ",
                              spec->count, " elements"));
    }
  }
  WEFT_RETURN_IF_ERROR(Drain());
  if (spec->count == 0) return absl::OkStatus();
  const Layout& layout = machine_->layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  if (!layout.spaces[static_cast<size_t>(place.space)].placement.params_cut) {
    std::memcpy(values, machine_->storage.Data(place.space, place.begin),
                spec->count * DtypeSize(spec->dtype));
    return absl::OkStatus();
  }
  return GatherParam(param, values);
}

absl::Status Context::GatherParam(int param, void* values) {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Layout& layout = machine_->layout;
  const Place& place = layout.places[static_cast<size_t>(param)];
  const Extent& extent = layout.extents[static_cast<size_t>(place.extent)];
  std::vector<size_t> counts;
  for (size_t rank = 0; rank + 1 < extent.cuts.size(); ++rank)
    counts.push_back(OwnedBy(extent, place, spec.count, rank).count);
  const auto [own, offset] = OwnedHere(layout, extent, place, spec.count);
  const std::byte* const parts = machine_->storage.OwnParams(layout, extent).data;
  Collective call{.kind = OpKind::kAllGatherV,
                  .dtype = spec.dtype,
                  .purpose = purposes_.Of(Purpose::Kind::kRead, param),
                  .in = own.count > 0 ? parts + offset * DtypeSize(spec.dtype) : nullptr,
                  .out = values,
                  .timeout_ns = options_.timeout_ns};
  auto blocks = std::make_shared<BlockLayout>();
  WEFT_RETURN_IF_ERROR(LayOutBlocks({}, {counts.data(), nullptr}, layout.MemberOf(extent).rank,
                                    layout.MemberOf(extent).size, blocks.get(), &call));
  call.layout = std::move(blocks);
  const bool replicated = layout.SpaceOf(extent).placement.replicated;
  ProcessGroup& among = replicated ? *machine_->inner : group();
  return LatchUnlocked(Annotate(RunAmong(among, call), StrCat("param_read ", spec.name, ": ")));
}

absl::Status Context::Updated() {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("params_updated"));
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("params_updated"));
  }
  WEFT_RETURN_IF_ERROR(Drain());  // of an earlier update
  Section section(*this);
  if (machine_->optimizer != nullptr) machine_->optimizer->ParamsWritten();
  // In the order in which forward will want them.
  for (size_t i = machine_->layout.buckets.size(); i > 0; --i) {
    WEFT_RETURN_IF_ERROR(Latch(machine_->residence.StartUpdate(static_cast<int>(i - 1))));
  }
  return absl::OkStatus();
}

absl::Status Context::Broadcast(int root) {
  {
    Section section(*this);
    WEFT_RETURN_IF_ERROR(CheckUsable("broadcast"));
    WEFT_RETURN_IF_ERROR(CheckRoot("broadcast", root));
    WEFT_RETURN_IF_ERROR(machine_->state.CheckQuiet("broadcast"));
  }
  WEFT_RETURN_IF_ERROR(Drain());
  if (machine_->optimizer != nullptr) machine_->optimizer->ParamsWritten();
  const Layout& layout = machine_->layout;
  const Storage& storage = machine_->storage;
  for (const Extent& extent : layout.extents) {
    const Placement& placement = layout.SpaceOf(extent).placement;
    const Range& range = extent.range;
    if (placement.replicated && placement.params_cut) {
      // Ranks of a replica lie side by side: root's place among this rank's own is that of its replica.
      WEFT_RETURN_IF_ERROR(BroadcastElements(*machine_->outer, range.space,
                                             storage.OwnParams(layout, extent),
                                             root / layout.inner.size));
    } else if (!placement.params_cut) {
      WEFT_RETURN_IF_ERROR(BroadcastElements(
          group(), range.space, {storage.Data(range.space, range.begin), range.count}, root));
    }
  }
  for (const Range& range : layout.frozen) {
    WEFT_RETURN_IF_ERROR(BroadcastElements(
        group(), range.space, {storage.Data(range.space, range.begin), range.count}, root));
  }
  return CompareCopies("broadcast", /*optimizer_too=*/false);
}

absl::Status Context::BroadcastElements(ProcessGroup& among, int space, Part part, int root) {
  if (part.count == 0) return absl::OkStatus();
  const absl::Status status =
      RunAmong(among, {.kind = OpKind::kBroadcast,
                       .dtype = machine_->layout.spaces[static_cast<size_t>(space)].dtype,
                       .root = root,
                       .count = part.count,
                       .purpose = purposes_.Of(Purpose::Kind::kBroadcast),
                       .in = part.data,
                       .out = part.data,
                       .timeout_ns = options_.timeout_ns});
  return LatchUnlocked(Annotate(status, "broadcasting parameters: "));
}

}  // namespace weft
