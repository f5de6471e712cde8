// A rank whose process becomes another program (exec) while peers are about to read its memory: they say so, and do
// not take what that program has at the same address for the rank's.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"
#include "comm/node/make_group.h"
#include "directory_store.h"
#include "fmt/format.h"
#include "message_case.h"
#include "single_copy_calls.h"
#include "tests/support/forked_ranks.h"

namespace weft::test {
namespace {

constexpr char kRole[] = "WEFT_TEST_SUCCESSOR";
constexpr size_t kBytes = size_t{4} << 20;
constexpr char kOfTheRank = 0x11;
constexpr char kOfTheSuccessor = 0x22;
constexpr int kReaders = 2;

// Where user space ends, in all builds: nothing else is mapped there.
void* const kPlace = reinterpret_cast<void*>(0x7e90'0000'0000);

void* MapAtPlace(char content) {
  void* const memory = mmap(kPlace, kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (memory != kPlace) return nullptr;
  std::memset(memory, content, kBytes);
  return memory;
}

bool TakeByte(int pipe) {
  pollfd item{pipe, POLLIN, 0};
  char byte = 0;
  return poll(&item, 1, 20'000) == 1 && read(pipe, &byte, 1) == 1;
}

void GiveBytes(int pipe, int count) {
  for (int i = 0; i < count; ++i)
    (void)!write(pipe, "", 1);
}

// Before main(): what the rank becomes. It has other bytes where the rank's were, says so, and waits.
const bool kIsRank = [] {
  const char* const role = std::getenv(kRole);
  if (role == nullptr) return true;
  int ready = -1, over = -1;
  if (std::sscanf(role, "%d,%d", &ready, &over) != 2) _exit(90);
  if (MapAtPlace(kOfTheSuccessor) == nullptr) _exit(91);
  GiveBytes(ready, kReaders);
  for (int i = 0; i < kReaders; ++i)
    TakeByte(over);
  _exit(0);
}();

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends), 0); }

  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  ~Pipe() {
    close(ends[0]);
    close(ends[1]);
  }

  int ends[2] = {-1, -1};
};

Collective BroadcastOf(void* memory) {
  Collective call{.kind = OpKind::kBroadcast,
                  .dtype = WEFT_UINT8,
                  .count = kBytes,
                  .algorithm = Protocol::kSingleCopy};
  call.in = call.out = memory;
  return call;
}

TEST(ReplacedRank, IsNotReadByBroadcasts) {
  ASSERT_TRUE(kIsRank);
  const TemporaryDirectory directory;
  const Pipe replace, ready, over;
  const auto ends = RunForkedRanks(1 + kReaders, 60, [&](int rank) -> std::string {
    DirectoryStore store(directory.path());
    auto group =
        MakeNodeGroup(&store, rank, 1 + kReaders, {.name = "r", .timeout_ns = 30'000'000'000});
    if (!group.ok()) return Text(group.status());
    if (rank == 0) {
      void* const memory = MapAtPlace(kOfTheRank);
      if (memory == nullptr) return "the place is taken";
      // Ends this thread too.
      std::thread successor([&] {
        if (!TakeByte(replace.ends[0])) _exit(92);
        setenv(kRole, fmt::format("{},{}", ready.ends[1], over.ends[0]).c_str(), 1);
        execl("/proc/self/exe", "successor", nullptr);
        _exit(93);
      });
      const absl::Status status = (*group)->Run(BroadcastOf(memory));
      successor.join();
      return "rank 0 was not replaced: " + Text(status);
    }
    const std::string problem = [&]() -> std::string {
      bool replaced = true;
      SingleCopyCalls::Get().Reset();
      SingleCopyCalls::Get().before = [&](int call) {
        if (call > 0) return;
        if (rank == 1) GiveBytes(replace.ends[1], 1);
        replaced = TakeByte(ready.ends[0]);
      };
      std::string out(kBytes, 0);
      const absl::Status status = (*group)->Run(BroadcastOf(out.data()));
      SingleCopyCalls::Get().Reset();
      if (!replaced) return "rank 0 did not become another program: " + Text(status);
      if (out.find(kOfTheSuccessor) != std::string::npos && status.ok()) {
        return "got another program's bytes";
      }
      if (FieldsOf(status).rank != 0) return "blames: " + Text(status);
      return Expect(status, WEFT_PEER_LOST, {"rank 0 (host ", "runs another program by now"});
    }();
    (*group)->Abort("the test is over");
    GiveBytes(over.ends[1], 1);
    return problem;
  });
  for (size_t rank = 0; rank < ends.size(); ++rank)
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
}

}  // namespace
}  // namespace weft::test
