// WEFT_SINGLE_COPY=0: private messages are streamed, however cheap it would be to read them.
#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "comm/select/load_model.h"
#include "comm/select/tuning.h"
#include "message_case.h"
#include "rank_processes.h"
#include "rank_threads.h"
#include "single_copy_calls.h"
#include "tests/support/leak_check.h"

namespace weft::test {
namespace {

const bool kCheap = setenv("WEFT_SINGLE_COPY", "0", 1) == 0 && MakeSingleCopyCheap();

std::string Exchange(ProcessGroup& group) {
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  for (const size_t bytes : {size_t{WEFT_EAGER_BYTES + 1}, size_t{131073}, size_t{3000001}}) {
    MessageBuffer in(bytes, false), out(bytes, false);
    in.Fill(Mix(bytes, static_cast<uint64_t>(group.rank())));
    const absl::Status status =
        group.RunPair(SendOf(in.data(), bytes, next), RecvOf(out.data(), bytes, previous));
    if (!status.ok()) return Text(status);
    std::string problem = out.Compare(Mix(bytes, static_cast<uint64_t>(previous)));
    if (!problem.empty()) return problem;
  }
  return SingleCopyCalls::Get().calls == 0 ? "" : "a rank was read";
}

TEST(ForbiddenSingleCopy, MessagesAreStreamed) {
  ASSERT_TRUE(kCheap);
  ASSERT_LT(Choose(ProcessModel().model, 2).single_copy_message_min_bytes, kNever);
  for (const int size : kThreadRanks)
    EXPECT_EQ(RunThreadRanks(size, {.name = "f", .timeout_ns = 60'000'000'000}, Exchange), "");
}

TEST(ForbiddenSingleCopy, MessagesOfProcessesAreStreamed) {
  ASSERT_TRUE(kCheap);
  for (const int size : {2, 4})
    RunProcessRanks(size, Exchange);
}

// As many bytes as one likes, all of them in the same few pages.
class FoldedMemory {
 public:
  explicit FoldedMemory(size_t bytes) : bytes_(bytes) {
    const int file = memfd_create("folded", 0);
    EXPECT_EQ(ftruncate(file, kPageBytes), 0);
    base_ = static_cast<char*>(
        mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t at = 0; at < bytes_; at += kPageBytes) {
      EXPECT_NE(
          mmap(base_ + at, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0),
          MAP_FAILED);
    }
    close(file);
  }

  FoldedMemory(const FoldedMemory&) = delete;
  FoldedMemory& operator=(const FoldedMemory&) = delete;

  ~FoldedMemory() { munmap(base_, bytes_); }

  char* data() const { return base_; }

 private:
  static constexpr size_t kPageBytes = 2 << 20;

  const size_t bytes_;
  char* base_ = nullptr;
};

// Each of the two waits for the other again and again, but never for ever: nobody is told of a
// deadlock.
TEST(ForbiddenSingleCopy, ALongMessageThatMovesIsNoDeadlock) {
  ASSERT_TRUE(kCheap);
  constexpr size_t kBytes = size_t{1} << 30;
  RunProcessRanks(2, [](ProcessGroup& group) -> std::string {
    static std::atomic<int> deadlocks{0};
    SetLogCallback(
        [](weft_log_level_t, const char* line, void*) {
          deadlocks +=
              std::string_view(line).find("CROSS_GROUP_DEADLOCK") != std::string_view::npos;
        },
        nullptr);
    const FoldedMemory memory(kBytes);
    if (!group.Run({.kind = OpKind::kBarrier}).ok()) return "the barrier failed";
    const absl::Status moved = group.rank() == 0 ? group.Run(SendOf(memory.data(), kBytes, 1))
                                                 : group.Run(RecvOf(memory.data(), kBytes, 0));
    SetLogCallback(nullptr, nullptr);
    if (!moved.ok()) return Text(moved);
    return deadlocks.load() == 0 ? "" : "a message that moves is called a deadlock";
  });
}

// Many streams at once, whatever the number of ranks.
TEST(ForbiddenSingleCopy, RandomTrafficArrives) {
  ASSERT_TRUE(kCheap);
  const uint64_t seed = TestSeed(65);
  SCOPED_TRACE(testing::Message() << "WEFT_TEST_SEED=" << seed);
  const auto traffic = [seed](ProcessGroup& group) {
    return RunTraffic(group, {.seed = seed, .messages = 100 * group.size()});
  };
  for (const int size : {2, 3, 8}) {
    EXPECT_EQ(RunThreadRanks(size, {.name = "f", .timeout_ns = 60'000'000'000}, traffic), "");
  }
  EXPECT_EQ(SingleCopyCalls::Get().calls, 0);
  for (const int size : {2, 8})
    RunProcessRanks(size, traffic);
}

}  // namespace
}  // namespace weft::test
