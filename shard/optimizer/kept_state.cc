#include "shard/optimizer/kept_state.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "base/status.h"
#include "shard/layout/widen.h"

namespace weft {
namespace {

constexpr std::array kKeptKinds = {WEFT_SHARD_STATE_MAIN, WEFT_SHARD_STATE_MOMENT1,
                                   WEFT_SHARD_STATE_MOMENT2};

bool Has(const StateNeeds& needs, weft_shard_state_kind_t kind) {
  if (kind == WEFT_SHARD_STATE_VALUE) return needs.value_bytes > 0;
  if (kind == WEFT_SHARD_STATE_MAIN) return needs.main;
  return needs.moments >= (kind == WEFT_SHARD_STATE_MOMENT1 ? 1 : 2);
}

}  // namespace

KeptState::KeptState(const std::vector<OptimizerGroup>& groups, const Registry& registry,
                     const Layout& layout, std::unique_ptr<StateStore> store)
    : registry_(registry),
      layout_(layout),
      widenables_(layout.extents.size()),
      store_(std::move(store)),
      mains_(registry.params().size()) {
  for (size_t param = 0; param < registry.params().size(); ++param) {
    const StateNeeds needs = NeedsOfParam(groups, registry, layout, static_cast<int>(param));
    needs_.push_back(needs);
    if (needs.main) {
      widenables_[static_cast<size_t>(layout.places[param].extent)].push_back(
          static_cast<int>(param));
    }
  }
}

bool KeptState::Keeps(int param, weft_shard_state_kind_t kind) const {
  return Has(needs_[static_cast<size_t>(param)], kind);
}

KeptState::Elements KeptState::KeptOf(int param) const {
  const ParamSpec& spec = registry_.params()[static_cast<size_t>(param)];
  const Place& place = layout_.places[static_cast<size_t>(param)];
  const UpdatedElements kept = StateOfParam(registry_, layout_, param);
  // Without the padding.
  const size_t end = std::min(kept.first + kept.count, place.begin + spec.count);
  if (kept.count == 0 || kept.first >= end) return {};
  return {place.extent, kept.first, end - kept.first};
}

OwnedElements KeptState::PartOf(int param) const {
  const Elements kept = KeptOf(param);
  if (kept.count == 0) return {};
  return {kept.begin - layout_.places[static_cast<size_t>(param)].begin, kept.count};
}

absl::Status KeptState::ForEachWindow(const Elements& elements, bool changes,
                                      absl::FunctionRef<void(const Elements& here)> body) {
  if (elements.count == 0) return absl::OkStatus();
  for (const StateWindow& window : store_->WindowsOf(elements.extent)) {
    const Elements here = Within(elements, window);
    if (here.count == 0) continue;
    WEFT_RETURN_IF_ERROR(store_->Visit(window.number, changes));
    body(here);
  }
  return store_->Leave();
}

KeptState::Elements KeptState::Within(const Elements& elements, const StateWindow& window) {
  const size_t from = std::max(window.begin, elements.begin);
  const size_t to = std::min(window.begin + window.count, elements.begin + elements.count);
  return {elements.extent, from, from < to ? to - from : 0};
}

void KeptState::Widen(const Storage& storage, const Elements& here) const {
  const Extent& extent = layout_.extents[static_cast<size_t>(here.extent)];
  weft::Widen(layout_.SpaceOf(extent).dtype, ParamsAt(storage, here.extent, here.begin), here.count,
              store_->At(here.extent, here.begin).main);
}

std::byte* KeptState::ParamsAt(const Storage& storage, int extent, size_t begin) const {
  const Extent& of = layout_.extents[static_cast<size_t>(extent)];
  if (layout_.SpaceOf(of).offloaded) return store_->At(extent, begin).value;
  return UpdatedParamsAt(storage, layout_, of, begin);
}

bool KeptState::IsOld(int param) const {
  const MainCopy& main = mains_[static_cast<size_t>(param)];
  return main.stale && !main.made && needs_[static_cast<size_t>(param)].main;
}

bool KeptState::MainsAreOld() {
  MutexLock lock(mutex_);
  return AnyIsOld();
}

bool KeptState::AnyIsOld() const {
  for (size_t param = 0; param < mains_.size(); ++param) {
    if (IsOld(static_cast<int>(param))) return true;
  }
  return false;
}

// Window by window: params are many, and often small.
absl::Status KeptState::MakeMains(const Storage& storage) {
  if (!AnyIsOld()) return absl::OkStatus();
  store_->Expect({});
  for (const int extent : UpdateOrder(layout_)) {
    for (const StateWindow& window : store_->WindowsOf(extent)) {
      for (const int param : widenables_[static_cast<size_t>(extent)]) {
        if (!IsOld(param)) continue;
        const Elements here = Within(KeptOf(param), window);
        if (here.count == 0) continue;
        WEFT_RETURN_IF_ERROR(store_->Visit(window.number, /*changes=*/true));
        Widen(storage, here);
      }
    }
  }
  for (MainCopy& main : mains_)
    main.made = main.made || main.stale;
  return store_->Leave();
}

void* KeptState::Tell(const Storage& storage, int param, weft_shard_state_kind_t kind) {
  if (!store_->resident()) return nullptr;
  const Elements kept = KeptOf(param);
  if (kind == WEFT_SHARD_STATE_MAIN) {
    MutexLock lock(mutex_);
    if (IsOld(param)) WEFT_CHECK(MakeMains(storage).ok());  // nothing in memory fails
    mains_[static_cast<size_t>(param)].known = true;
  }
  return kept.count == 0 ? nullptr : store_->At(kept.extent, kept.begin).Of(kind);
}

absl::Status KeptState::Read(const Storage& storage, int param, weft_shard_state_kind_t kind,
                             const OwnedElements& elements, void* to) {
  MutexLock lock(mutex_);
  if (kind == WEFT_SHARD_STATE_MAIN && IsOld(param)) WEFT_RETURN_IF_ERROR(MakeMains(storage));
  return ReadKept(param, kind, elements, to);
}

absl::Status KeptState::ReadHeld(int param, weft_shard_state_kind_t kind,
                                 const OwnedElements& elements, void* to) {
  MutexLock lock(mutex_);
  return ReadKept(param, kind, elements, to);
}

absl::Status KeptState::ReadKept(int param, weft_shard_state_kind_t kind,
                                 const OwnedElements& elements, void* to) {
  if (elements.count == 0) return absl::OkStatus();
  const Place& place = layout_.places[static_cast<size_t>(param)];
  return store_->Read(place.extent, {place.begin + elements.begin, elements.count}, kind, to);
}

absl::Status KeptState::Write(const Storage& storage, int param, weft_shard_state_kind_t kind,
                              const OwnedElements& elements, const void* from) {
  if (elements.count == 0) return absl::OkStatus();
  const Place& place = layout_.places[static_cast<size_t>(param)];
  MutexLock lock(mutex_);
  if (kind == WEFT_SHARD_STATE_MAIN) {
    MainCopy& main = mains_[static_cast<size_t>(param)];
    // What is not written is to be as the param says.
    if (elements.count < PartOf(param).count && IsOld(param))
      WEFT_RETURN_IF_ERROR(MakeMains(storage));
    main.made = true;
    main.known = true;
  }
  return store_->Write(place.extent, {place.begin + elements.begin, elements.count}, kind, from);
}

// Kind by kind, so that it does not depend on where windows begin.
absl::StatusOr<Digest> KeptState::DigestOf(int param) {
  const Elements kept = KeptOf(param);
  if (kept.count == 0) return Digest();
  MutexLock lock(mutex_);
  const bool stale = mains_[static_cast<size_t>(param)].stale;
  store_->Expect({});  // what is read ahead would push out what the next param shares with this one
  const auto counts = [&](weft_shard_state_kind_t kind) {
    return Keeps(param, kind) && !(stale && kind == WEFT_SHARD_STATE_MAIN);
  };
  std::array<Hasher, kKeptKinds.size()> hashers;
  WEFT_RETURN_IF_ERROR(ForEachWindow(kept, /*changes=*/false, [&](const Elements& here) {
    const StateArrays arrays = store_->At(here.extent, here.begin);
    for (size_t i = 0; i < kKeptKinds.size(); ++i) {
      if (counts(kKeptKinds[i]))
        hashers[i].Update(arrays.Of(kKeptKinds[i]), here.count * sizeof(float));
    }
  }));
  Hasher all;
  for (Hasher& hasher : hashers) {
    const Digest of_kind = hasher.Finish();
    all.Update(of_kind.bytes.data(), of_kind.bytes.size());
  }
  return all.Finish();
}

absl::StatusOr<Digest> KeptState::ValueDigestOf(int param) {
  const size_t size = NeedsOf(param).value_bytes;
  MutexLock lock(mutex_);
  store_->Expect({});
  Hasher hasher;
  WEFT_RETURN_IF_ERROR(ForEachWindow(KeptOf(param), /*changes=*/false, [&](const Elements& here) {
    hasher.Update(store_->At(here.extent, here.begin).value, here.count * size);
  }));
  return hasher.Finish();
}

absl::StatusOr<std::shared_ptr<const void>> KeptState::Hold(const Storage& storage,
                                                            int64_t until_ns) {
  MutexLock lock(mutex_);
  WEFT_RETURN_IF_ERROR(MakeMains(storage));
  return holds_.Take(until_ns);
}

void KeptState::ParamWritten(int param) {
  MutexLock lock(mutex_);
  MainCopy& main = mains_[static_cast<size_t>(param)];
  main.stale = true;
  main.made = false;
}

void KeptState::ParamsWritten() {
  for (size_t param = 0; param < needs_.size(); ++param)
    ParamWritten(static_cast<int>(param));
}

void KeptState::MainsWritten() {
  MutexLock lock(mutex_);
  for (MainCopy& main : mains_)
    main.stale = main.stale && !main.known;
}

void KeptState::BeginUpdate() {
  MutexLock lock(mutex_);
  for (MainCopy& main : mains_) {
    main.widens = main.stale && !main.made;
    main.stale = false;
  }
}

bool KeptState::IsWritten(int extent, const StateWindow& window) {
  MutexLock lock(mutex_);
  const std::vector<int>& params = widenables_[static_cast<size_t>(extent)];
  for (const int param : params) {
    if (mains_[static_cast<size_t>(param)].widens && Within(KeptOf(param), window).count > 0)
      return true;
  }
  return false;
}

void KeptState::WidenWritten(const Storage& storage, int extent, const StateWindow& window) {
  MutexLock lock(mutex_);
  for (const int param : widenables_[static_cast<size_t>(extent)]) {
    if (!mains_[static_cast<size_t>(param)].widens) continue;
    const Elements here = Within(KeptOf(param), window);
    if (here.count > 0) Widen(storage, here);
  }
}

}  // namespace weft
