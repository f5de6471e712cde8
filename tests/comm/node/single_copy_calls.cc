#include "single_copy_calls.h"

#include <cerrno>
#include <cstdlib>

#include <sys/uio.h>

#include "comm/select/load_model.h"
#include "comm/select/model_cache.h"
#include "directory_store.h"

namespace weft::test {
namespace {

constexpr size_t kIdBytes = 8;
constexpr size_t kSliceBytes = 512 << 10;

size_t BytesOf(const iovec* parts, unsigned long count) {
  size_t bytes = 0;
  for (unsigned long i = 0; i < count; ++i)
    bytes += parts[i].iov_len;
  return bytes;
}

}  // namespace

SingleCopyCalls& SingleCopyCalls::Get() {
  static SingleCopyCalls& calls = *new SingleCopyCalls;
  return calls;
}

size_t BytesReadFor(size_t bytes) {
  return bytes + (bytes + kSliceBytes - 1) / kSliceBytes * kIdBytes;
}

bool MakeSingleCopyCheap() {
  const TemporaryDirectory directory;
  setenv("XDG_CACHE_HOME", directory.path().c_str(), 1);
  setenv("WEFT_TUNE", "auto", 1);
  const HostFacts host = ReadHostFacts();
  MachineModel model = StaticModel(host);
  model.store_shared_plain_line_ns = 100;
  model.single_copy_call_ns = 1;
  model.single_copy_page_ns = 1;
  model.single_copy_line_ns = 0.1;
  const absl::Status written = WriteModelFile(
      ModelCacheFolder(), host, {.measured_at_s = UnixSeconds(), .complete = true, .model = model});
  // Read now: the folder goes with this function.
  return written.ok() && ProcessModel().origin == ModelOrigin::kFile;
}

}  // namespace weft::test

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names.
extern "C" ssize_t __real_process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count,
                                           const iovec* remote, unsigned long remote_count,
                                           unsigned long flags);
extern "C" ssize_t __wrap_process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count,
                                           const iovec* remote, unsigned long remote_count,
                                           unsigned long flags);

// NOLINTEND(bugprone-reserved-identifier)

ssize_t __wrap_process_vm_readv(pid_t pid, const iovec* local, unsigned long local_count,
                                const iovec* remote, unsigned long remote_count,
                                unsigned long flags) {
  using weft::test::SingleCopyCalls;
  SingleCopyCalls& calls = SingleCopyCalls::Get();
  const bool counted = weft::test::BytesOf(remote, remote_count) > weft::test::kIdBytes;
  if (counted) {
    const int call = calls.calls++;
    if (calls.before) calls.before(call);
    if (calls.fail_from >= 0 && call >= calls.fail_from) {
      errno = EPERM;
      return -1;
    }
  }
  if (calls.forbidden) {
    errno = EPERM;
    return -1;
  }
  const ssize_t got = __real_process_vm_readv(pid, local, local_count, remote, remote_count, flags);
  if (counted && got > 0) calls.bytes += static_cast<uint64_t>(got);
  return got;
}
