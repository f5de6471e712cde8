// A rank that cannot allocate: with a heap of 64 MiB for two ranks that want 40 MiB each, exactly
// one gets its memory.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/node/heap.h"
#include "gmock/gmock.h"
#include "tests/shard/ranks.h"

namespace weft {
namespace {

using testing::HasSubstr;

// Before anything reads the options.
const int kHeapIsSmall = setenv("WEFT_HEAP_BYTES", "67108864", /*replace=*/1);

TEST(Finalize, TellsTheOthersThatARankHasNoMemory) {
  ASSERT_EQ(kHeapIsSmall, 0);
  std::vector<absl::Status> statuses = RunRanks(
      GroupKind::kReference, 2, [](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(auto context, MakeContext(group));
        WEFT_RETURN_IF_ERROR(
            AddUnitWithParam(*context, "a", {10 << 20}, WEFT_FLOAT32, /*frozen=*/true).status());
        return context->Finalize().status();
      });
  std::sort(statuses.begin(), statuses.end(),
            [](const auto& a, const auto& b) { return ResultOf(a) < ResultOf(b); });
  EXPECT_EQ(ResultOf(statuses[0]), WEFT_REMOTE_ERROR) << statuses[0];
  EXPECT_THAT(std::string(statuses[0].message()), HasSubstr("could not allocate"));
  EXPECT_EQ(ResultOf(statuses[1]), WEFT_OUT_OF_MEMORY) << statuses[1];
  EXPECT_THAT(std::string(statuses[1].message()), HasSubstr("float32 parameters"));
  EXPECT_EQ(ProcessHeap().live_bytes(), 0u);
}

}  // namespace
}  // namespace weft
