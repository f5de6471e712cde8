// Memory that two processes share as ranks of a node do: a memfd, mapped before fork().
//
// Thread-safety: the memory is for whoever orders its accesses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::test {

class MachineSegment {
 public:
  explicit MachineSegment(size_t bytes);
  ~MachineSegment();

  MachineSegment(const MachineSegment&) = delete;
  MachineSegment& operator=(const MachineSegment&) = delete;

  // nullptr: the system refused it.
  char* at() const { return at_; }

  size_t bytes() const { return bytes_; }

  // Words that processes and devices write, a cache line each.
  std::atomic_ref<uint32_t> Word(size_t i) const { return std::atomic_ref<uint32_t>(*Address(i)); }

  uint32_t* Address(size_t i) const { return reinterpret_cast<uint32_t*>(at_ + 64 * i); }

 private:
  size_t bytes_;
  char* at_ = nullptr;
};

}  // namespace weft::test
