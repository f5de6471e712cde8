// An optimizer's state in memory, all of it.
//
//   WEFT_ASSIGN_OR_RETURN(auto store, ResidentState::Allocate(groups, registry, layout, source));
//
// Of what an extent keeps there is one block per kind, in which stretches lie one behind the other. So where all params are of one
// group, arrays lie as the params do. An extent is a window.
//
// Thread-safety: constant after Allocate; who may write which elements is the optimizer's affair.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "shard/layout/block.h"
#include "shard/optimizer/optimizer_state.h"
#include "shard/optimizer/state_store.h"

namespace weft {

class ResidentState : public StateStore {
 public:
  // OUT_OF_MEMORY says how much.
  static absl::StatusOr<std::unique_ptr<StateStore>> Allocate(
      std::span<const OptimizerGroup> groups, const Registry& registry, const Layout& layout,
      const BlockSource& source = {});

  size_t bytes() const override;

  bool resident() const override { return true; }

  const std::vector<StateWindow>& WindowsOf(int extent) const override {
    return extents_[static_cast<size_t>(extent)].windows;
  }

  void Expect(std::vector<int> /*windows*/) override {}

  absl::Status Visit(int /*window*/, bool /*changes*/) override { return absl::OkStatus(); }

  absl::Status Leave() override { return absl::OkStatus(); }

  void Advance() override {}

  StateArrays At(int extent, size_t begin) const override;
  absl::Status Read(int extent, const UpdatedElements& elements, weft_shard_state_kind_t kind,
                    void* to) override;
  absl::Status Write(int extent, const UpdatedElements& elements, weft_shard_state_kind_t kind,
                     const void* from) override;

 private:
  struct Placed {
    StateStretch stretch;
    size_t main_at = 0;  // of its first element in the extent's blocks
    size_t first_moment_at = 0;
    size_t second_moment_at = 0;
  };

  struct OfExtent {
    std::vector<StateWindow> windows;  // one, or none
    std::vector<Placed> stretches;     // by first element
    Block main;                        // float32 each; empty if not needed
    Block first_moment;
    Block second_moment;
  };

  ResidentState() = default;

  std::vector<OfExtent> extents_;
};

}  // namespace weft
