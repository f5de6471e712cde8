#include "bench/micro/streamed_update.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/isa.h"
#include "shard/offload/offloaded_state.h"
#include "shard/optimizer/optimizer_state.h"
#include "shard/optimizer/resident_state.h"

namespace weft {
namespace {

void CheckUpdate(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "streamed_update: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

template <typename T>
T Made(absl::StatusOr<T> made) {
  CheckUpdate(made.status());
  return *std::move(made);
}

// Params of a few millions each, as matrices of a model are.
constexpr size_t kParamElements = size_t{1} << 22;

Registry MakeRegistry(const UpdateShape& shape) {
  Registry registry;
  const int unit = Made(registry.BeginUnit("model", PlacementOf(WEFT_SHARD_NO_SHARD)));
  for (size_t begin = 0; begin < shape.params; begin += kParamElements) {
    const auto count = static_cast<int64_t>(std::min(kParamElements, shape.params - begin));
    CheckUpdate(
        registry.AddParam(unit, "param." + std::to_string(begin), &count, 1, shape.dtype).status());
  }
  CheckUpdate(registry.SealUnit(unit));
  return registry;
}

}  // namespace

StreamedUpdate::StreamedUpdate(const UpdateShape& shape, const MakeStore& make_store)
    : registry_(MakeRegistry(shape)), layout_(MakeLayout(registry_, {}, {}, {})) {
  storage_ = Made(Storage::Allocate(layout_, Accumulate::kNothing));
  const OptimizerConfig config{.kind = WEFT_OPTIMIZER_ADAMW, .threads = shape.threads};
  const std::vector<OptimizerGroup> groups = {GroupOf(config)};
  state_bytes_ = StateBytes(groups, registry_, layout_);
  moved_bytes_ = 2 * state_bytes_;
  std::unique_ptr<StateStore> store;
  if (shape.buffer_bytes == 0) {
    store = Made(ResidentState::Allocate(groups, registry_, layout_));
  } else {
    const OffloadPlan plan = PlanOffload(groups, registry_, layout_, shape.buffer_bytes);
    moved_bytes_ -= (plan.slots.slot_count - 1) * plan.slots.slot_bytes;
    store = Made(OffloadState(
        plan, {}, [&](std::span<std::byte> memory) -> absl::StatusOr<std::unique_ptr<BlockStore>> {
          return make_store(memory, plan.slots.slot_bytes, plan.windows.file_bytes);
        }));
  }
  for (const int extent : UpdateOrder(layout_)) {
    const Part gradients = storage_.Reduced(layout_, layout_.extents[static_cast<size_t>(extent)]);
    const size_t size = DtypeSize(shape.dtype);
    for (size_t i = 0; i < gradients.count * size; ++i)
      gradients.data[i] = static_cast<std::byte>(0x3c - i % size * 0x11);  // small numbers
  }
  optimizer_ =
      Made(ShardOptimizer::Make(config, groups, registry_, layout_, BestIsa(), std::move(store)));
}

void StreamedUpdate::Run() {
  optimizer_->Begin(1e-3, 1);
  for (const int extent : UpdateOrder(layout_))
    CheckUpdate(optimizer_->Update(storage_, extent));
  CheckUpdate(optimizer_->kept().store().Leave());
}

void StreamedUpdate::ForEachWindow(bool visits, const std::function<void(size_t bytes)>& body) {
  StateStore& store = optimizer_->kept().store();
  std::vector<int> windows;
  std::vector<size_t> elements;  // of each
  size_t all = 0;
  for (const int extent : UpdateOrder(layout_)) {
    for (const StateWindow& window : store.WindowsOf(extent)) {
      if (windows.empty() || windows.back() != window.number) {
        windows.push_back(window.number);
        elements.push_back(0);
      }
      elements.back() += window.count;
      all += window.count;
    }
  }
  if (visits) store.Expect(windows);
  for (size_t i = 0; i < windows.size(); ++i) {
    if (visits) CheckUpdate(store.Visit(windows[i], /*changes=*/true));
    // As an update does: some pieces, and then the transfers go on.
    constexpr size_t kParts = 8;
    for (size_t part = 0; part < kParts; ++part) {
      body(state_bytes_ * elements[i] / all / kParts);
      if (visits) store.Advance();
    }
  }
  CheckUpdate(store.Leave());
}

}  // namespace weft
