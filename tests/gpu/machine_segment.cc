#include "tests/gpu/machine_segment.h"

#include <sys/mman.h>
#include <unistd.h>

namespace weft::test {

MachineSegment::MachineSegment(size_t bytes) : bytes_(bytes) {
  const int fd = memfd_create("weft-gpu-machine", MFD_CLOEXEC);
  if (fd < 0) return;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) {
    void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) at_ = static_cast<char*>(at);
  }
  close(fd);
}

MachineSegment::~MachineSegment() {
  if (at_ != nullptr) munmap(at_, bytes_);
}

}  // namespace weft::test
