// How tests steer the fake driver of CUDA (README.md): libweft_fake_cuda.so, which WEFT_CUDA_LIBRARY names.
//
//   const FakeDriver& fake = *UseFakeDriver();
//   fake.reset();
//   fake.set_seed(seed);                                  // another order of what is unordered
//   fake.fail_call("cuMemCreate", 2, cuda::kOutOfMemory); // its second call from now on, once
//   ...
//   EXPECT_STREQ(fake.holdings_text(), "");
//
// Thread-safety: any thread. Functions of a process that was forked after cuInit must not be called.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include <dlfcn.h>
#include <unistd.h>

#include "comm/device/driver/driver_types.h"

namespace weft::test {

// What a machine may lack. All are there from the start.
enum class FakeCapability : int32_t {
  kVirtualMemory,     // cuMemCreate and its kin
  kPosixDescriptors,  // handles as descriptors
  kInterprocess,      // cuIpcGetMemHandle and its kin
  kHostRegister,      // cuMemHostRegister
  kRegisterShared,    // of memory that is shared: memfds, files
  kMemoryWords,       // cuStreamWaitValue32 and its kin
  kPeerAccess,        // between devices
};

// What the process holds of the driver's. A handle that was released but is mapped counts as a mapping alone.
struct FakeHoldings {
  uint64_t contexts;      // devices whose primary context is retained
  uint64_t allocations;   // cuMemAlloc
  uint64_t imports;       // cuIpcOpenMemHandle
  uint64_t reservations;  // of addresses
  uint64_t mappings;      // of handles
  uint64_t handles;       // cuMemCreate, cuMemImportFromShareableHandle
  uint64_t device_bytes;  // of allocations and of handles that this process made
  uint64_t host_allocations;
  uint64_t host_registrations;
  uint64_t streams;
  uint64_t events;
  uint64_t modules;
  uint64_t operations;  // that have not ended
};

struct FakeDriver {
  // As when it was loaded, but what is held stays: seed 0, the environment's devices and sizes, all capabilities, no failure of devices or
  // calls; counts are zero. The number of devices changes before cuInit only.
  void (*reset)();

  // The order of operations, and how late they are.
  void (*set_seed)(uint64_t seed);
  // While it is on, an operation runs only if a call waits for something, which a query does not.
  void (*set_paused)(bool on);

  void (*set_device_count)(int32_t count);  // 0 to 8, before cuInit
  void (*set_total_bytes)(int32_t device, uint64_t bytes);
  void (*set_capability)(FakeCapability capability, bool on);
  // As a driver that is too old for it; nullptr: none is hidden.
  void (*hide_function)(const char* name);
  // A capture of a stream, not the legacy one, in CUDA's default mode. Meanwhile calls that are forbidden on threads that are not relaxed
  // return STREAM_CAPTURE_UNSUPPORTED, and spoil it.
  void (*set_capturing)(cuda::Stream stream, bool on);
  // Since the last capture began.
  bool (*capture_is_spoiled)();
  // All that has to do with the device's context fails with the code from now on; kSuccess mends it.
  void (*fail_device)(int32_t device, int32_t code);

  // The k-th call from now on, 1 is the next, of one function or of all (nullptr) fails, once. A function that gives something back does so all the
  // same: drivers return failures of earlier work from these. cuGetErrorName and cuGetErrorString do not count. k = 0: none.
  void (*fail_call)(const char* function, uint64_t k, int32_t code);
  // The k-th ordering call from now on returns kSuccess and does nothing: records of events, waits for them, memory words
  // written or waited for, each one of a batch.
  void (*drop_ordering_call)(uint64_t k);
  // Since the reset; of one function or of all (nullptr).
  uint64_t (*count_calls)(const char* function);
  uint64_t (*count_ordering_calls)();
  // The function that fail_call made fail; nullptr: its call has not come.
  const char* (*failed_function)();

  FakeHoldings (*holdings)();
  // "2 allocations, 1 stream", without contexts and bytes; "" if there is nothing. Valid until the thread's next call.
  const char* (*holdings_text)();

  // Device memory as it is now, whatever is queued. False if not all of it is mapped.
  bool (*peek)(void* to, cuda::DevicePointer from, uint64_t bytes);
  bool (*poke)(cuda::DevicePointer to, const void* from, uint64_t bytes);
};

// Of this process: the library beside its program, built with it. WEFT_CUDA_LIBRARY then names it, here and in the processes that this one starts, so the
// first call comes before weft reads its options. nullptr if another driver is named or it cannot be loaded.
inline const FakeDriver* UseFakeDriver() {
  const char* named = std::getenv("WEFT_CUDA_LIBRARY");
  if (named == nullptr) {
    std::string path(4096, '\0');
    const ssize_t got = readlink("/proc/self/exe", path.data(), path.size());
    path.resize(got < 0 ? 0 : static_cast<size_t>(got));
    path = path.substr(0, path.rfind('/') + 1) + "libweft_fake_cuda.so";
    setenv("WEFT_CUDA_LIBRARY", path.c_str(), 0);
    named = std::getenv("WEFT_CUDA_LIBRARY");
  }
  void* const opened = dlopen(named, RTLD_NOW | RTLD_NODELETE);
  if (opened == nullptr) return nullptr;
  using Find = const FakeDriver* (*)();
  const auto find = reinterpret_cast<Find>(dlsym(opened, "weft_fake_driver"));
  return find == nullptr ? nullptr : find();
}

}  // namespace weft::test
