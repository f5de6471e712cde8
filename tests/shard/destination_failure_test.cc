// A unit that is still in use when it is resharded moves from its destination into the pool. Where there is no memory for that, the
// call says so, and nothing of the caller's memory is taken for the pool's.
#include <barrier>
#include <cstddef>
#include <new>

#include "base/status.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "tests/shard/ranks.h"

namespace weft {
namespace {

// Gives no memory for the pool once it has been told to.
struct Refusing {
  bool refuses = false;

  weft_shard_allocator_t allocator() {
    weft_shard_allocator_t made = {.struct_size = sizeof(made), .user = this};
    made.allocate = [](size_t bytes, size_t alignment, weft_shard_tier_t tier,
                       void* user) -> void* {
      if (tier == WEFT_SHARD_TIER_POOL && static_cast<Refusing*>(user)->refuses) return nullptr;
      return ::operator new (bytes, std::align_val_t{alignment});
    };
    made.release = [](void* memory, size_t, weft_shard_tier_t, void*) {
      ::operator delete (memory, std::align_val_t{64});
    };
    return made;
  }
};

TEST(DestinationFailure, NoMemoryForWhatIsStillInUse) {
  constexpr int kRanks = 2;
  // A context that is destroyed within a step aborts the others' waits, so none goes before all have made their last call.
  std::barrier called(kRanks);
  const auto body = [&called](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
    constexpr int kUnits = 8;
    Refusing refusing;
    const ContextOptions options = {.prefetch = 0, .memory = {.allocator = refusing.allocator()}};
    WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group, options));
    for (int unit = 0; unit < kUnits; ++unit) {
      WEFT_RETURN_IF_ERROR(AddUnitWithParam(*context, StrCat("unit", unit), {4096}, WEFT_FLOAT32,
                                            /*frozen=*/false, PlacementOf(WEFT_SHARD_FULL_SHARD))
                               .status());
    }
    WEFT_RETURN_IF_ERROR(context->Finalize().status());
    alignas(64) static thread_local std::byte destination[size_t{4096} * sizeof(float)];
    WEFT_RETURN_IF_ERROR(context->StepBegin(WEFT_SHARD_EVAL, 0));
    WEFT_RETURN_IF_ERROR(context->MicrobatchBegin(0, true));
    WEFT_RETURN_IF_ERROR(
        context->UnshardStart(0, {.data = destination, .bytes = sizeof(destination)}));
    WEFT_RETURN_IF_ERROR(context->UnshardWait(0));
    // All are in use, so the pool has no room left, and cannot grow.
    for (int unit = 0; unit < kUnits; ++unit)
      WEFT_RETURN_IF_ERROR(context->PreForward(unit));
    refusing.refuses = true;
    const absl::Status moved = context->Reshard(0);
    EXPECT_EQ(ResultOf(moved), WEFT_OUT_OF_MEMORY) << moved;
    called.arrive_and_wait();
    return absl::OkStatus();  // and the context's destruction finds nothing that is not its own
  };
  ExpectAllOk(RunRanks(GroupKind::kLocal, kRanks, body));
}

}  // namespace
}  // namespace weft
