// All that the fake driver knows, behind one lock: an entry point of the driver holds it while it runs (calls.cc), and so does whoever runs
// a part of an operation (schedule.cc). It stays until the process has ended.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>

#include "tests/device/fake_driver/codes.h"
#include "tests/device/fake_driver/fake_driver.h"

namespace weft::fake_cuda {

using test::FakeCapability;

constexpr int kDevicesMax = 8;

// What a stream runs, by number in the order of calls.
struct Operation {
  uint64_t number = 0;
  std::function<bool()> ready;  // whether it may begin; empty: it may
  std::function<bool()> step;   // does a part of it, true if that was the last one
  HostFunction host = nullptr;  // in place of step
  void* user = nullptr;
  bool ends_always = false;  // also on a device that has failed, where others are left out
};

struct StreamState {
  int device = 0;
  bool is_legacy = false;
  bool is_blocking = false;  // ordered with the legacy stream
  bool is_destroyed = false;
  bool is_capturing = false;  // in mode GLOBAL, on a thread that nobody asks for
  bool host_is_due = false;   // its first operation is a host function that the worker runs
  double weight = 1;          // how likely it runs next
  std::deque<Operation> queue;
};

struct EventState {
  int device = 0;
  bool timed = false;
  uint64_t recorded = 0;  // the last call to record it; 0: none
  uint64_t passed = 0;    // the last one that has passed
  int64_t time_ns = 0;    // when it did
};

struct DeviceState {
  uint64_t total_bytes = 0;
  uint64_t used_bytes = 0;
  int retained = 0;  // the primary context
  Result failed = kSuccess;
  std::set<int> peers;  // whose memory its context may use
  StreamState legacy;
};

// Bytes of a device: part of a memfd.
struct Physical {
  int fd = -1;
  bool owns_fd = true;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  int device = 0;
  bool is_charged = true;  // to the device; what other processes made is not
  int handle_types = 0;
  AllocationHandle handle = 0;
  ~Physical();
};

struct Mapping {
  uint64_t bytes = 0;
  std::shared_ptr<Physical> physical;
  unsigned access = 0;  // a bit for each device
  bool is_plain =
      false;  // of cuMemAlloc, or another process's: peers may use it, and handles have no part in it
};

enum class RangeKind : int32_t { kReservation, kAllocation, kImport };

// Addresses that were given out.
struct Range {
  RangeKind kind = RangeKind::kReservation;
  uint64_t bytes = 0;
  int device = 0;
  int opened = 0;      // times, of an import
  std::string import;  // the bytes of the handle
};

struct HandleState {
  std::shared_ptr<Physical> physical;
  int references = 1;
};

struct HostRange {
  uint64_t bytes = 0;
  bool is_allocation = false;  // else a registration
  int device = 0;
};

struct FunctionState {
  std::string name;
  Module module = nullptr;
  int32_t dynamic_shared_max = 48 << 10;
};

struct Plan {
  int fail_function = -1;  // the index in the list; -1: any
  uint64_t fail_in = 0;    // calls
  Result fail_code = kSuccess;
  const char* failed = nullptr;
  uint64_t drop_in = 0;
  uint64_t ordering_calls = 0;
};

struct World {
  std::mutex mutex;
  std::condition_variable_any changed;  // an operation has ended
  std::condition_variable_any queued;   // the worker has something to do
  std::atomic<int> process = 0;         // that called cuInit
  bool ended = false;

  int device_count = 1;
  DeviceState devices[kDevicesMax];
  std::set<FakeCapability> lacking;
  std::string hidden;
  Plan plan;

  uint64_t window = 0;  // the first address; the alias of an address is so many bytes behind it
  int heap = -1;        // the memfd of all allocations, at their addresses' offsets
  uint64_t cursor = 0;
  std::map<uint64_t, Range> ranges;
  std::map<uint64_t, Mapping> mappings;
  std::map<AllocationHandle, HandleState> handles;
  std::map<uint64_t, HostRange> host;

  uint64_t next_handle = 0x5eed0000;  // never the same one twice
  uint64_t next_number = 1;
  std::map<uint64_t, std::unique_ptr<StreamState>> streams;
  std::map<uint64_t, std::shared_ptr<EventState>> events;
  std::map<uint64_t, int> modules;  // their devices
  std::map<uint64_t, FunctionState> functions;

  std::mt19937_64 random;
  double stir = 0;  // how likely a call runs something
  int parts_max = 1;
  int64_t idle_ns = 0;  // after which the worker runs something
  int64_t last_call_ns = 0;
  std::deque<StreamState*> due;  // whose host functions the worker runs, in this order
  bool due_goes_first = false;   // nothing else runs before they have
  bool paused = false;
  bool capture_is_spoiled = false;
  bool worker_sleeps = false;

  World();

  bool Has(FakeCapability capability) const { return !lacking.contains(capability); }

  template <typename Handle>
  Handle NewHandle() {
    next_handle += 16;
    return reinterpret_cast<Handle>(next_handle);  // NOLINT(performance-no-int-to-ptr)
  }
};

World& TheWorld();

template <typename Handle>
uint64_t NumberOf(Handle handle) {
  return reinterpret_cast<uint64_t>(handle);
}

// Addresses are numbers to the driver's callers.
inline char* PointerOf(uint64_t address) {
  return reinterpret_cast<char*>(address);  // NOLINT(performance-no-int-to-ptr)
}

int64_t NowNs();

// Of the calling thread's current context; nullptr: it has none.
DeviceState* CurrentDevice(World& world);
int OrdinalOf(const World& world, const DeviceState& device);
// kSuccess with the current device, kInvalidContext, or with what the device has failed.
Result NeedContext(World& world, DeviceState** device);
Context ContextOf(int ordinal);
// Nobody has retained it for the last time: all that it has is gone.
void DropContext(World& world, int ordinal);

// The device has failed, for a reason that is printed.
void FailDevice(World& world, int device, Result code, const std::string& why);

}  // namespace weft::fake_cuda
