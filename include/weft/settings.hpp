// What concerns the whole process: progress, log, allocator, options, devices, version.
//
//   weft::SetMemoryResource(&arena);          // before the first group
//   weft::SetLogLevel(WEFT_LOG_INFO);
//   poll.Add(weft::ProgressFd(), [] { weft::Progress(); });
//
// Include weft/weft.hpp. Thread rule: as the C functions (work.h, log.h, mem.h, options.h, device.h, version.h).
#ifndef WEFT_SETTINGS_HPP_
#define WEFT_SETTINGS_HPP_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

#include "weft/owners.hpp"
#include "weft/weft.h"

namespace weft {
inline namespace interface_0 {

// Moves what can move, without waiting; returns how many operations have not ended.
inline int Progress() {
  return internal::Returned<int>(weft_progress);
}

// Readable when Progress() is worth calling; not to be read, written or closed.
inline int ProgressFd() {
  return internal::Returned<int>(weft_progress_fd);
}

// What ends this thread's waits from outside (interrupt.h); nullptr: nothing.
inline void SetInterrupt(weft_interrupt_check_t check, void* user, std::chrono::nanoseconds every) {
  Check(weft_set_interrupt(check, user, every.count()));
}

// Where weft gets memory whose size depends on the caller's data. Before the first group.
inline void SetAllocator(const weft_allocator_t& allocator) {
  Check(weft_set_allocator(&allocator));
}

// Back to operator new.
inline void SetDefaultAllocator() {
  Check(weft_set_allocator(nullptr));
}

// The same from a memory resource, which must live until the process ends and serve several threads at once.
inline void SetMemoryResource(std::pmr::memory_resource* resource) {
  weft_allocator_t allocator = {};
  allocator.struct_size = sizeof(allocator);
  allocator.user = resource;
  // Every block begins with its alignment, which release() is not told.
  allocator.allocate = [](std::size_t bytes, std::size_t alignment, void* user) -> void* {
    const std::size_t before = alignment > sizeof(alignment) ? alignment : sizeof(alignment);
    try {
      auto* const block = static_cast<char*>(
          static_cast<std::pmr::memory_resource*>(user)->allocate(before + bytes, before));
      reinterpret_cast<std::size_t*>(block + before)[-1] = before;
      return block + before;
    } catch (...) {
      return nullptr;
    }
  };
  allocator.release = [](void* memory, std::size_t bytes, void* user) {
    const std::size_t before = static_cast<std::size_t*>(memory)[-1];
    static_cast<std::pmr::memory_resource*>(user)->deallocate(static_cast<char*>(memory) - before,
                                                              before + bytes, before);
  };
  SetAllocator(allocator);
}

// Messages above `level` are dropped.
inline void SetLogLevel(weft_log_level_t level) {
  Check(weft_log_set_level(level));
}

// A null callback: back to stderr.
inline void SetLogCallback(weft_log_callback_t callback, void* user = nullptr) {
  Check(weft_log_set_callback(callback, user));
}

// How many CUDA devices the process may use; throws where there is no driver, or it finds none.
inline int DeviceCount() {
  return internal::Returned<std::int32_t>(weft_device_count, WEFT_DEVICE_CUDA);
}

// Of one of them, or of the thread's current one (WEFT_DEVICE_CURRENT).
inline weft_device_info_t DeviceInfo(int device) {
  return internal::Filled<weft_device_info_t>(weft_device_info, WEFT_DEVICE_CUDA, device);
}

// The settings that weft reads from the environment.
inline std::vector<weft_option_info_t> Options() {
  std::vector<weft_option_info_t> options(weft_option_count());
  for (std::size_t i = 0; i < options.size(); ++i) {
    options[i].struct_size = sizeof(weft_option_info_t);
    Check(weft_option_at(i, &options[i]));
  }
  return options;
}

// Version of the loaded library, major * 10000 + minor * 100 + patch.
inline int Version() noexcept {
  return weft_version();
}

// The size that a struct of the C interface ("weft_call_t") has in the loaded library; 0 if it has none of that name.
inline std::size_t StructSize(const char* name) noexcept {
  return weft_struct_size(name);
}

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_SETTINGS_HPP_
