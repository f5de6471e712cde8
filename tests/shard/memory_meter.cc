#include "tests/shard/memory_meter.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/node/deferred_reclamation.h"
#include "tests/shard/live_malloc.h"

namespace weft {
namespace {

constexpr int kTriesMax = 200;

// The whole file, without malloc: that is what is measured.
const char* ReadSmaps() {
  static char text[4 << 20];
  size_t size = 0;
  const UniqueFd file(open("/proc/self/smaps", O_RDONLY | O_CLOEXEC));
  ssize_t got = 1;
  while (file.valid() && got > 0 && size + 1 < sizeof(text)) {
    got = read(file.get(), text + size, sizeof(text) - 1 - size);
    if (got > 0) size += static_cast<size_t>(got);
  }
  text[size] = '\0';
  return text;
}

}  // namespace

int64_t MemoryMeter::PssBytes() {
  constexpr char kPss[] = "Pss:";
  int64_t bytes = 0;
  bool ours = false;
  for (const char* line = ReadSmaps(); line != nullptr && *line != '\0';) {
    const char* const end = std::strchr(line, '\n');
    const char* const name = std::strstr(line, "/memfd:weft");
    // A mapping begins with its addresses, in lower-case hexadecimal; its numbers with a capital.
    if (*line < 'A' || *line > 'Z') ours = name != nullptr && (end == nullptr || name < end);
    if (ours && std::strncmp(line, kPss, sizeof(kPss) - 1) == 0) {
      bytes += std::strtoll(line + sizeof(kPss) - 1, nullptr, 10) * 1024;
    }
    line = end == nullptr ? nullptr : end + 1;
  }
  return bytes;
}

absl::StatusOr<int64_t> MemoryMeter::Sum(int64_t value) {
  WEFT_RETURN_IF_ERROR(group_->Run({.kind = OpKind::kAllReduce,
                                    .dtype = WEFT_INT64,
                                    .op = WEFT_SUM,
                                    .count = 1,
                                    .in = &value,
                                    .out = &value}));
  return value;
}

int64_t MemoryMeter::FileBytes() {
  constexpr int kDescriptorsMax = 1024;
  int64_t bytes = 0;
  for (int fd = 0; fd < kDescriptorsMax; ++fd) {
    char link[32];
    char name[32];
    std::snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, name, sizeof(name) - 1);
    if (length <= 0) continue;
    name[length] = '\0';
    struct stat info = {};
    const bool ours = std::strncmp(name, "/memfd:weft", 11) == 0;
    if (ours && fstat(fd, &info) == 0) bytes += info.st_blocks * 512;
  }
  return bytes;
}

int64_t MemoryMeter::RoundingBytes() const {
  return int64_t{1024} * group_->size() * group_->size();
}

absl::Status MemoryMeter::SampleShared(Held& held) {
  for (int i = 0; i < kTriesMax; ++i) {
    WEFT_ASSIGN_OR_RETURN(held.shared_bytes, Sum(PssBytes()));
    WEFT_ASSIGN_OR_RETURN(held.file_bytes, Sum(FileBytes()));
    const int64_t missing = held.file_bytes - held.shared_bytes;
    // A kernel that is short of memory unmaps pages that were not used lately; they stay in the file.
    const int64_t allowed = RoundingBytes() + held.file_bytes / 512;
    if (missing >= 0 && missing <= allowed) return absl::OkStatus();
  }
  return absl::InternalError(StrCat("the ranks have mapped ", held.shared_bytes, " bytes of the ",
                                    held.file_bytes, " in their files, after ", kTriesMax,
                                    " samples"));
}

absl::Status MemoryMeter::SetBaseline() {
  baseline_ = Held();
  WEFT_RETURN_IF_ERROR(Sample());
  baseline_ = now_;
  (void)TakeMallocPeak();
  ForgetPeak();
  return absl::OkStatus();
}

absl::Status MemoryMeter::Sample() {
  WEFT_ASSIGN_OR_RETURN(const int64_t peak, Sum(TakeMallocPeak()));
  Held held;
  WEFT_RETURN_IF_ERROR(SampleShared(held));
  WEFT_ASSIGN_OR_RETURN(held.private_bytes, Sum(LiveMallocBytes()));
  now_ = {.shared_bytes = held.shared_bytes - baseline_.shared_bytes,
          .file_bytes = held.file_bytes - baseline_.file_bytes,
          .private_bytes = held.private_bytes - baseline_.private_bytes};
  Held most = now_;
  most.private_bytes = peak - baseline_.private_bytes;
  if (most.total() > peak_.total()) peak_ = most;
  return absl::OkStatus();
}

absl::Status MemoryMeter::Settle() {
  constexpr timespec kPause{0, 2'000'000};
  WEFT_RETURN_IF_ERROR(Sample());
  for (int i = 0; i < kTriesMax; ++i) {
    const Held before = now_;
    nanosleep(&kPause, nullptr);
    WEFT_RETURN_IF_ERROR(Sample());
    if (now_.IsLike(before)) return absl::OkStatus();
  }
  return absl::InternalError(StrCat("no two samples of ", kTriesMax, " in a row are alike"));
}

absl::Status MemoryMeter::ExpectHeld(const Held& held) {
  return Expect(held, &Held::IsLike);
}

absl::Status MemoryMeter::ExpectNoMoreThan(const Held& held) {
  return Expect(held, &Held::IsNoMoreThan);
}

absl::Status MemoryMeter::Expect(const Held& held, bool (Held::*fits)(const Held&) const) {
  const int64_t begin_ns = MonotonicNs();
  int64_t waited_ns = 0;
  while (waited_ns < 10'000'000'000) {
    ReclaimDeferred();
    WEFT_RETURN_IF_ERROR(Sample());
    if ((now_.*fits)(held)) return absl::OkStatus();
    WEFT_ASSIGN_OR_RETURN(waited_ns, Sum(MonotonicNs() - begin_ns));
  }
  return absl::InternalError(StrCat(now_.file_bytes, " bytes of shared memory, ",
                                    now_.private_bytes, " of malloc, where there were ",
                                    held.file_bytes, " and ", held.private_bytes));
}

}  // namespace weft
