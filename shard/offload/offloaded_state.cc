#include "shard/offload/offloaded_state.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/offload/window_slots.h"

namespace weft {
namespace {

constexpr size_t kSlots = 4;

class OffloadedState : public StateStore {
 public:
  OffloadedState(StateWindows windows, Block memory, std::span<std::byte> slots, size_t slot_bytes,
                 std::unique_ptr<BlockStore> store)
      : windows_(std::move(windows)),
        memory_(std::move(memory)),
        store_(std::move(store)),
        slots_(*store_, windows_.places, slots, slot_bytes) {}

  OffloadedState(const OffloadedState&) = delete;
  OffloadedState& operator=(const OffloadedState&) = delete;

  ~OffloadedState() override {
    (void)slots_.Drain();
    if (!slots_.memory_is_lost()) return;
    // The system may still write there, so it is nobody's any more.
    static_cast<void>(new Block(std::move(memory_)));
  }

  size_t bytes() const override { return memory_.bytes(); }

  bool resident() const override { return false; }

  const std::vector<StateWindow>& WindowsOf(int extent) const override {
    return windows_.of_extent[static_cast<size_t>(extent)];
  }

  void Expect(std::vector<int> windows) override { slots_.Expect(std::move(windows)); }

  absl::Status Visit(int window, bool changes) override {
    return Explained(slots_.Visit(window, changes));
  }

  absl::Status Leave() override {
    WEFT_RETURN_IF_ERROR(Explained(slots_.Leave()));
    // Whoever reads params does so in the store.
    return windows_.has_values ? Explained(slots_.AwaitWrites()) : absl::OkStatus();
  }

  void Advance() override { store_->Advance(); }

  StateArrays At(int extent, size_t begin) const override {
    const WindowedStretch& stretch = StretchOf(extent, begin);
    WEFT_CHECK(stretch.window == slots_.visited());
    const StateNeeds& needs = stretch.elements.needs;
    const auto at = [&](weft_shard_state_kind_t kind) -> std::byte* {
      const size_t size = StateBytesOf(needs, kind);
      if (size == 0) return nullptr;
      return slots_.data() + stretch.At(kind) + (begin - stretch.elements.first) * size;
    };
    StateArrays arrays;
    arrays.value = at(WEFT_SHARD_STATE_VALUE);
    arrays.main = reinterpret_cast<float*>(at(WEFT_SHARD_STATE_MAIN));
    arrays.first_moment = reinterpret_cast<float*>(at(WEFT_SHARD_STATE_MOMENT1));
    arrays.second_moment = reinterpret_cast<float*>(at(WEFT_SHARD_STATE_MOMENT2));
    return arrays;
  }

  absl::Status Read(int extent, const UpdatedElements& elements, weft_shard_state_kind_t kind,
                    void* to) override {
    return ForEachPart(extent, elements, kind, [&](int window, size_t begin, size_t bytes) {
      const absl::Status read = slots_.Read(window, begin, bytes, to);
      to = static_cast<std::byte*>(to) + bytes;
      return read;
    });
  }

  absl::Status Write(int extent, const UpdatedElements& elements, weft_shard_state_kind_t kind,
                     const void* from) override {
    return ForEachPart(extent, elements, kind, [&](int window, size_t begin, size_t bytes) {
      const absl::Status written = slots_.Write(window, begin, bytes, from);
      from = static_cast<const std::byte*>(from) + bytes;
      return written;
    });
  }

 private:
  const WindowedStretch& StretchOf(int extent, size_t element) const {
    const std::vector<WindowedStretch>& stretches = windows_.stretches[static_cast<size_t>(extent)];
    auto after = std::upper_bound(stretches.begin(), stretches.end(), element,
                                  [](size_t sought, const WindowedStretch& stretch) {
                                    return sought < stretch.elements.first;
                                  });
    WEFT_CHECK(after != stretches.begin());
    return *--after;
  }

  // Where these elements lie: bytes of windows, in order.
  absl::Status ForEachPart(
      int extent, const UpdatedElements& elements, weft_shard_state_kind_t kind,
      absl::FunctionRef<absl::Status(int window, size_t begin, size_t bytes)> body) const {
    size_t next = elements.first;
    const size_t end = elements.first + elements.count;
    while (next < end) {
      const WindowedStretch& stretch = StretchOf(extent, next);
      const size_t part_end = std::min(end, stretch.elements.first + stretch.elements.count);
      const size_t size = StateBytesOf(stretch.elements.needs, kind);
      const size_t at = stretch.At(kind) + (next - stretch.elements.first) * size;
      WEFT_RETURN_IF_ERROR(Explained(body(stretch.window, at, (part_end - next) * size)));
      next = part_end;
    }
    return absl::OkStatus();
  }

  static absl::Status Explained(const absl::Status& status) {
    if (status.ok()) return status;
    return Annotate(status,
                    "optimizer state that is offloaded cannot be used any more, go back to a "
                    "checkpoint: ");
  }

  const StateWindows windows_;
  Block memory_;
  const std::unique_ptr<BlockStore> store_;
  WindowSlots slots_;
};

}  // namespace

std::span<std::byte> AlignedPart(const Block& block, size_t bytes) {
  if (bytes == 0) return {};
  const auto address = reinterpret_cast<uintptr_t>(block.data());
  const size_t skipped =
      (BlockStore::kAlignment - address % BlockStore::kAlignment) % BlockStore::kAlignment;
  return {block.data() + skipped, bytes};
}

OffloadPlan PlanOffload(std::span<const OptimizerGroup> groups, const Registry& registry,
                        const Layout& layout, size_t buffer_bytes) {
  OffloadPlan plan;
  plan.windows = CutIntoWindows(groups, registry, layout, buffer_bytes / kSlots);
  const auto windows =
      static_cast<size_t>(std::count_if(plan.windows.places.begin(), plan.windows.places.end(),
                                        [](const WindowPlace& place) { return place.bytes > 0; }));
  plan.slots = {.slot_bytes = plan.windows.largest_bytes, .slot_count = std::min(windows, kSlots)};
  if (plan.windows.has_values) {
    const size_t share = buffer_bytes / (4 * kSlots) / BlockStore::kAlignment;
    plan.reads = {.slot_bytes = std::clamp(share * BlockStore::kAlignment, BlockStore::kAlignment,
                                           OffloadPlan::kReadBytesMax / kSlots),
                  .slot_count = kSlots};
  }
  return plan;
}

absl::StatusOr<std::unique_ptr<StateStore>> OffloadState(const OffloadPlan& plan,
                                                         const BlockSource& source,
                                                         BlockStoreMaker make) {
  absl::StatusOr<Block> memory =
      Block::Allocate(source, WEFT_SHARD_TIER_OPTIMIZER, plan.slots.memory_bytes());
  if (!memory.ok()) {
    return Annotate(memory.status(), StrCat("allocating ", plan.slots.memory_bytes(),
                                            " bytes for windows of the optimizer's state: "));
  }
  const std::span<std::byte> slots = AlignedPart(*memory, plan.slots.bytes());
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<BlockStore> store, make(slots));
  return std::make_unique<OffloadedState>(plan.windows, *std::move(memory), slots,
                                          plan.slots.slot_bytes, std::move(store));
}

}  // namespace weft
