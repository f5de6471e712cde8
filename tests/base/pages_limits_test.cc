// Shared memory in processes that are limited: sizes of files, locked memory, signals, calls that are refused. Limits
// and filters last, so each case is a forked child.
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/pages.h"
#include "base/proc.h"
#include "base/status.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/refused_calls.h"

namespace weft::pages_limits_test {
namespace {

using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

// What is wrong with what `body` did in a process of its own; "" if nothing.
std::string InChild(const std::function<std::string()>& body) {
  return test::RunForkedRanks(1, 60, [&](int) { return body(); })[0].Problem();
}

std::string Limit(__rlimit_resource resource, rlim_t value) {
  const rlimit limit = {value, value};
  return setrlimit(resource, &limit) == 0 ? "" : std::string("setrlimit: ") + std::strerror(errno);
}

std::string Expect(const absl::Status& status, weft_result_t result, const char* part) {
  const std::string message(status.message());
  if (ResultOf(status) == result && message.find(part) != std::string::npos) return "";
  return "expected " + std::to_string(result) + " with \"" + part + "\", got " + status.ToString();
}

size_t Present(const Pages& pages) {
  struct stat info = {};
  return fstat(pages.fd(), &info) == 0 ? static_cast<size_t>(info.st_blocks) * 512 : SIZE_MAX;
}

TEST(PagesLimits, MoreThanTheLimitOnFilesIsAnErrorAndNoSignal) {
  EXPECT_EQ(InChild([] {
              std::string limited = Limit(RLIMIT_FSIZE, 8 * kMiB);
              if (!limited.empty()) return limited;
              if (!Pages::Create("weft-test", 8 * kMiB, Backing::kAllocated).ok()) {
                return std::string("what the limit allows was refused");
              }
              return Expect(Pages::Create("weft-test", 9 * kMiB, Backing::kSparse).status(),
                            WEFT_SYSTEM_ERROR, "ulimit -f, is 8.0 MiB");
            }),
            "");
}

#ifndef WEFT_SANITIZE  // where mlockall does nothing
// mlockall(MCL_FUTURE) gives every new mapping all of its pages.
TEST(PagesLimits, SparseMemoryStaysSparseInAProcessThatLocksItsMemory) {
  EXPECT_EQ(InChild([] {
              absl::StatusOr<Pages> before =
                  Pages::Create("weft-test", 64 * kMiB, Backing::kSparse);
              if (!before.ok()) return before.status().ToString();
              UniqueFd copy(dup(before->fd()));
              if (mlockall(MCL_FUTURE) != 0)
                return std::string("mlockall: ") + std::strerror(errno);
              absl::StatusOr<Pages> own = Pages::Create("weft-test", 64 * kMiB, Backing::kSparse);
              absl::StatusOr<Pages> peers = Pages::Adopt(std::move(copy), 64 * kMiB);
              if (!own.ok()) return Expect(own.status(), WEFT_SYSTEM_ERROR, "ulimit -l");
              if (!peers.ok()) return peers.status().ToString();
              if (Present(*own) != 0) return std::to_string(Present(*own)) + " bytes are there";
              if (Present(*peers) != 0) return std::string("a peer's memory was taken");
              if (!own->Allocate(0, kMiB).ok() || !own->Populate(0, kMiB).ok()) {
                return std::string("allocating failed");
              }
              std::memset(own->data(), 1, kMiB);
              if (Present(*own) != kMiB) return std::string("more was taken than asked for");
              // What is there is locked, as the process wanted it.
              return madvise(own->data(), kMiB, MADV_DONTNEED) != 0 && errno == EINVAL
                         ? std::string()
                         : std::string("the pages are not locked");
            }),
            "");
}

#endif

// On older kernels handled signals interrupt fallocate, which then gives back all it has taken: a profiler's timer must not
// keep it from ending. The filter is a timer that leaves time for 256 KiB.
TEST(PagesLimits, AllocatingEndsThoughLargePiecesAreAlwaysInterrupted) {
  EXPECT_EQ(InChild([] {
              absl::StatusOr<Pages> pages = Pages::Create("weft-test", 64 * kMiB, Backing::kSparse);
              if (!pages.ok()) return pages.status().ToString();
              constexpr int kLength = 3;  // of the arguments
              std::string filter = test::RefuseCallsAbove(SYS_fallocate, kLength, 256 << 10, EINTR);
              if (!filter.empty()) return filter;
              const absl::Status status = pages->Allocate(0, 64 * kMiB);
              if (!status.ok()) return status.ToString();
              return Present(*pages) == 64 * kMiB ? "" : std::string("not all of it is there");
            }),
            "");
}

TEST(PagesLimits, AnInterruptionThatNeverEndsIsAnError) {
  EXPECT_EQ(InChild([] {
              absl::StatusOr<Pages> pages = Pages::Create("weft-test", kMiB, Backing::kSparse);
              if (!pages.ok()) return pages.status().ToString();
              std::string filter = test::RefuseCalls({SYS_fallocate}, EINTR);
              if (!filter.empty()) return filter;
              return Expect(pages->Allocate(0, kMiB), WEFT_SYSTEM_ERROR, "fallocate: Interrupted");
            }),
            "");
}

TEST(PagesLimits, ASystemThatCannotSetMemoryAsideIsToldWithWhatHelps) {
  EXPECT_EQ(InChild([] {
              absl::StatusOr<Pages> pages = Pages::Create("weft-test", kMiB, Backing::kSparse);
              if (!pages.ok()) return pages.status().ToString();
              std::string filter = test::RefuseCalls({SYS_fallocate}, EOPNOTSUPP);
              if (!filter.empty()) return filter;
              return Expect(pages->Allocate(0, kMiB), WEFT_SYSTEM_ERROR,
                            "fallocate: Operation not supported; the system that runs this "
                            "process, a sandbox such as gVisor perhaps, cannot set shared memory "
                            "aside, which every group needs; run the ranks on a Linux kernel");
            }),
            "");
}

TEST(PagesLimits, CallsThatAreRefusedAreNamed) {
  for (const int error : {EPERM, ENOSYS}) {
    EXPECT_EQ(InChild([error] {
                absl::StatusOr<Pages> pages = Pages::Create("weft-test", kMiB, Backing::kSparse);
                const std::string filter =
                    test::RefuseCalls({SYS_memfd_create, SYS_fallocate, SYS_pidfd_open}, error);
                if (!pages.ok() || !filter.empty()) return pages.status().ToString() + filter;
                std::string problem = Expect(
                    Pages::Create("weft-test", kMiB, Backing::kSparse).status(), WEFT_SYSTEM_ERROR,
                    "seccomp filter (of a container, say) does not allow memfd_create");
                problem +=
                    Expect(pages->Allocate(0, kMiB), WEFT_SYSTEM_ERROR, "does not allow fallocate");
                problem += Expect(SystemProc().Open(getppid(), 0).status(), WEFT_SYSTEM_ERROR,
                                  "does not allow pidfd_open");
                return problem;
              }),
              "");
  }
}

}  // namespace
}  // namespace weft::pages_limits_test
