// Values and optimizer state of a param may rest differently, and both in ranges that begin in the middle of it. Here each is
// told in elements of the param, which mean the same under every preset and number of ranks.
#include "shard/context/state_access.h"

#include <cstring>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/kernels/dtype.h"
#include "shard/context/state_scalars.h"
#include "shard/layout/write_share.h"

namespace weft {
namespace {

constexpr uint32_t BitOf(weft_shard_state_kind_t kind) {
  return 1u << kind;
}

static_assert(BitOf(WEFT_SHARD_STATE_VALUE) == WEFT_SHARD_STATE_VALUES);
static_assert(BitOf(WEFT_SHARD_STATE_MAIN) == WEFT_SHARD_STATE_MAINS);
static_assert((BitOf(WEFT_SHARD_STATE_MOMENT1) | BitOf(WEFT_SHARD_STATE_MOMENT2)) ==
              WEFT_SHARD_STATE_MOMENTS);

// Whether some rank keeps such a state for the param.
bool Exists(ShardOptimizer* optimizer, const ParamSpec& spec, int param,
            weft_shard_state_kind_t kind) {
  if (spec.count == 0) return false;
  if (kind == WEFT_SHARD_STATE_VALUE) return true;
  return optimizer != nullptr && optimizer->kept().Keeps(param, kind);
}

}  // namespace

absl::Status StateAccess::CheckReadable(const char* call) const {
  if (!core_.finalized()) return core_.CheckUsable(call);
  if (optimizer_.torn()) {
    return MakeError(WEFT_BAD_STATE, {.operation = call},
                     StrCat(call,
                            ": an update failed when a part of this rank's state was updated and a "
                            "part was not; go back to a checkpoint of an earlier step"));
  }
  // A step that has failed stays where it was, and what rests is as before it.
  return Failed() ? absl::OkStatus() : core_.runtime().state.CheckQuiet(call);
}

bool StateAccess::Failed() const {
  return !core_.failure().ok() || !core_.group().error().ok();
}

bool StateAccess::WaitForGathers(int param) {
  Works works;
  {
    Section section(core_.mutex);
    const int bucket = core_.runtime().PlaceOf(param).bucket;
    if (bucket >= 0) works = core_.runtime().updates.Of(bucket);
  }
  bool came = true;
  for (const WorkRef& work : works)
    came = core_.Await(*work).ok() && came;
  Section section(core_.mutex);
  return came && !Failed();
}

absl::StatusOr<weft_shard_state_part_t> StateAccess::PartFor(const char* call, int param,
                                                             weft_shard_state_kind_t kind) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckPeers(call));
    WEFT_RETURN_IF_ERROR(CheckReadable(call));
    if (kind == WEFT_SHARD_STATE_VALUE && !Failed()) {
      WEFT_RETURN_IF_ERROR(core_.CheckUpdated(call));
    }
  }
  const ParamSpec& spec = core_.SpecOf(param);
  Runtime& runtime = core_.runtime();
  const Layout& layout = runtime.layout;
  const Place& place = runtime.PlaceOf(param);
  const Placement& placement = layout.spaces[static_cast<size_t>(place.space)].placement;
  const bool value = kind == WEFT_SHARD_STATE_VALUE;
  weft_shard_state_part_t part{};
  part.struct_size = sizeof(part);
  part.dtype = value ? spec.dtype : WEFT_FLOAT32;
  if (!Exists(runtime.optimizer.get(), spec, param, kind)) return part;
  if (kind == WEFT_SHARD_STATE_MAIN) WEFT_RETURN_IF_ERROR(AwaitIfOld());
  // Main copies are made from values. What others have updated may never have come, if something has failed since.
  const bool came = (value || kind == WEFT_SHARD_STATE_MAIN) && WaitForGathers(param);
  const bool gathered = value && (came || !GathersUpdates(placement) || spec.frozen);
  const bool cut = placement.params_sharded || (placement.optimizer_sharded && !gathered);
  const Member replica = cut ? ReplicaOf(layout, placement) : layout.member;
  part.replica = replica.rank;
  part.replicas = replica.size;
  if (value) {
    WEFT_ASSIGN_OR_RETURN(const auto own, params_.OwnPart(param));
    const auto& [view, begin] = own;
    const bool offloaded = layout.spaces[static_cast<size_t>(place.space)].offloaded;
    part.data = cut ? view.data : runtime.storage.Data(place.space, place.begin);
    part.begin = cut ? begin : 0;
    part.count = cut ? view.count : spec.count;
    part.offloaded = offloaded ? 1 : 0;
  } else {
    Section section(core_.mutex);
    KeptState& kept = runtime.optimizer->kept();
    const OwnedElements own = kept.PartOf(param);
    part.data = kept.Tell(runtime.storage, param, kind);
    part.begin = own.begin;
    part.count = own.count;
    part.offloaded = kept.resident() ? 0 : 1;
  }
  const OwnedElements share = WriteShare(layout, place, spec.count);
  part.write_begin = share.begin;
  part.write_count = share.count;
  return part;
}

// Ok if these elements are of the part; `call` for messages.
absl::Status StateAccess::CheckWithin(const char* call, int param, const OwnedElements& elements,
                                      const weft_shard_state_part_t& part) const {
  const bool within = elements.begin >= part.begin && elements.begin - part.begin <= part.count &&
                      elements.count <= part.count - (elements.begin - part.begin);
  if (within) return absl::OkStatus();
  return core_.AboutParam(
      param, MakeError(WEFT_INVALID_ARGUMENT, {.operation = call},
                       StrCat(call, ": parameter ", core_.SpecOf(param).name, ": ", elements.count,
                              " elements from ", elements.begin,
                              " on were asked for, and this rank keeps ", part.count, " from ",
                              part.begin, " on of that state")));
}

absl::Status StateAccess::Read(int param, weft_shard_state_kind_t kind,
                               const OwnedElements& elements, void* to) {
  WEFT_ASSIGN_OR_RETURN(const weft_shard_state_part_t part, PartFor("state_read", param, kind));
  WEFT_RETURN_IF_ERROR(CheckWithin("state_read", param, elements, part));
  if (elements.count == 0) return absl::OkStatus();
  if (part.data != nullptr) {
    const size_t size = DtypeSize(part.dtype);
    std::memcpy(to, static_cast<std::byte*>(part.data) + (elements.begin - part.begin) * size,
                elements.count * size);
    return absl::OkStatus();
  }
  Runtime& runtime = core_.runtime();
  return Annotate(runtime.optimizer->kept().Read(runtime.storage, param, kind, elements, to),
                  "state_read: ");
}

absl::Status StateAccess::Write(int param, weft_shard_state_kind_t kind,
                                const OwnedElements& elements, const void* from) {
  WEFT_ASSIGN_OR_RETURN(const weft_shard_state_part_t part, PartFor("state_write", param, kind));
  WEFT_RETURN_IF_ERROR(CheckWithin("state_write", param, elements, part));
  if (elements.count == 0) return absl::OkStatus();
  if (kind != WEFT_SHARD_STATE_VALUE || part.offloaded != 0) WEFT_RETURN_IF_ERROR(AwaitUnheld());
  if (part.data != nullptr) {
    const size_t size = DtypeSize(part.dtype);
    std::memcpy(static_cast<std::byte*>(part.data) + (elements.begin - part.begin) * size, from,
                elements.count * size);
    return absl::OkStatus();
  }
  Runtime& runtime = core_.runtime();
  return Annotate(runtime.optimizer->kept().Write(runtime.storage, param, kind, elements, from),
                  "state_write: ");
}

absl::StatusOr<std::shared_ptr<const void>> StateAccess::Hold(int64_t until_ns) {
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckPeers("state_hold"));
    WEFT_RETURN_IF_ERROR(CheckReadable("state_hold"));
  }
  Runtime& runtime = core_.runtime();
  if (runtime.optimizer == nullptr) return nullptr;
  WEFT_RETURN_IF_ERROR(AwaitIfOld());
  return runtime.optimizer->kept().Hold(runtime.storage, until_ns);
}

absl::Status StateAccess::AwaitUnheld() {
  return Annotate(core_.AwaitUnheld(), "waiting to write optimizer state: ");
}

absl::Status StateAccess::AwaitIfOld() {
  ShardOptimizer* const optimizer = core_.runtime().optimizer.get();
  if (optimizer == nullptr || !optimizer->kept().MainsAreOld()) return absl::OkStatus();
  return Annotate(core_.AwaitUnheld(), "waiting to make main copies anew: ");
}

absl::Status StateAccess::ReadHeld(int param, weft_shard_state_kind_t kind,
                                   const OwnedElements& elements, void* to) const {
  return core_.runtime().optimizer->kept().ReadHeld(param, kind, elements, to);
}

absl::StatusOr<weft_shard_state_scalars_t> StateAccess::Scalars() {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.CheckPeers("state_scalars_get"));
  WEFT_RETURN_IF_ERROR(CheckReadable("state_scalars_get"));
  return ScalarsOf(core_, optimizer_.nonfinite_run());
}

absl::Status StateAccess::SetScalars(const weft_shard_state_scalars_t& scalars) {
  Section section(core_.mutex);
  WEFT_RETURN_IF_ERROR(core_.CheckQuiet("state_scalars_set"));
  // The gradients of a step that is finished have the scale that it began with.
  if (core_.runtime().state.CheckGradientNorm(/*used_too=*/true).ok()) {
    return MakeError(WEFT_BAD_STATE, {.operation = "state_scalars_set"},
                     "state_scalars_set is not legal between finish and step_end of a training "
                     "step, whose gradients have the loss scale that there is; call it after "
                     "step_end");
  }
  return Annotate(weft::SetScalars(core_, scalars, optimizer_.nonfinite_run()),
                  "state_scalars_set: ");
}

absl::Status StateAccess::Written(uint32_t kinds) {
  weft_shard_state_scalars_t scalars{};
  {
    Section section(core_.mutex);
    WEFT_RETURN_IF_ERROR(core_.CheckQuiet("state_written"));
    if (core_.runtime().callers_turn.begun()) {
      return MakeError(WEFT_BAD_STATE, {.operation = "state_written"},
                       "state_written is not legal between optimizer_step and step_end in a "
                       "context with parameters of kind OWN, whose turn it is; call it after "
                       "step_end");
    }
    scalars = ScalarsOf(core_, optimizer_.nonfinite_run());
  }
  WEFT_RETURN_IF_ERROR(CompareWritten(core_, kinds, scalars));
  if ((kinds & WEFT_SHARD_STATE_VALUES) != 0) WEFT_RETURN_IF_ERROR(params_.Updated());
  // After the values, which make main copies stale.
  if ((kinds & WEFT_SHARD_STATE_MAINS) != 0 && core_.runtime().optimizer != nullptr) {
    core_.runtime().optimizer->kept().MainsWritten();
  }
  return absl::OkStatus();
}

}  // namespace weft
