#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/device/fake_driver/memory.h"

namespace weft::fake_cuda {
namespace {

constexpr uint64_t kGapBytes = kPageBytes;

char* AliasOf(uint64_t address) {
  return PointerOf(address + kWindowBytes);
}

// The first free addresses from `from` on.
uint64_t FirstFree(const World& world, uint64_t from, uint64_t bytes, uint64_t alignment) {
  uint64_t address = RoundUp(from, alignment);
  auto next = world.ranges.upper_bound(address);
  if (next != world.ranges.begin()) {
    const auto& [begin, before] = *std::prev(next);
    address = std::max(address, RoundUp(begin + before.bytes + kGapBytes, alignment));
  }
  for (; next != world.ranges.end(); ++next) {
    if (address + bytes + kGapBytes <= next->first) break;
    address = std::max(address, RoundUp(next->first + next->second.bytes + kGapBytes, alignment));
  }
  return address + bytes + kGapBytes <= world.window + kWindowBytes ? address : 0;
}

// New memory is not cleared.
void Soil(int fd, uint64_t offset, uint64_t bytes) {
  static const std::string dirt(64 << 10, '\xa7');
  const ssize_t written =
      pwrite(fd, dirt.data(), std::min<uint64_t>(bytes, dirt.size()), static_cast<off_t>(offset));
  static_cast<void>(written);
}

}  // namespace

Physical::~Physical() {
  if (owns_fd) {
    close(fd);
  } else {
    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(bytes));
  }
  if (is_charged) TheWorld().devices[device].used_bytes -= bytes;
}

bool OpenWindow(World& world) {
  void* const window = mmap(nullptr, 2 * kWindowBytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (window == MAP_FAILED) return false;
  world.window = reinterpret_cast<uint64_t>(window);
  world.cursor = world.window;
  world.heap = memfd_create("weft_fake_heap", MFD_CLOEXEC);
  return world.heap >= 0 && ftruncate(world.heap, kWindowBytes) == 0;
}

bool IsInWindow(const World& world, uint64_t address) {
  return world.window != 0 && address - world.window < kWindowBytes;
}

uint64_t FindAddresses(World& world, uint64_t bytes, uint64_t alignment) {
  // Now and then what was free longest is used, now and then what was given back just now.
  if (world.ranges.size() < 256 && world.random() % 2 == 0) world.cursor = world.window;
  uint64_t found = FirstFree(world, world.cursor, bytes, alignment);
  if (found == 0) found = FirstFree(world, world.window, bytes, alignment);
  if (found != 0) world.cursor = found + bytes;
  return found;
}

std::map<uint64_t, Range>::iterator FindRange(World& world, uint64_t address) {
  auto it = world.ranges.upper_bound(address);
  if (it == world.ranges.begin()) return world.ranges.end();
  --it;
  return address - it->first < it->second.bytes ? it : world.ranges.end();
}

std::map<uint64_t, Mapping>::iterator FindMapping(World& world, uint64_t address) {
  auto it = world.mappings.upper_bound(address);
  if (it == world.mappings.begin()) return world.mappings.end();
  --it;
  return address - it->first < it->second.bytes ? it : world.mappings.end();
}

std::shared_ptr<Physical> MakePhysical(World& world, int device, uint64_t bytes) {
  DeviceState& state = world.devices[device];
  if (bytes > state.total_bytes - std::min(state.used_bytes, state.total_bytes)) return nullptr;
  // Whoever imports it reads the device in the name.
  const int fd = memfd_create(("weft_fake_device_" + std::to_string(device)).c_str(), MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  auto made = std::make_shared<Physical>();
  made->fd = fd;
  made->bytes = bytes;
  made->device = device;
  state.used_bytes += bytes;
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) return nullptr;
  Soil(fd, 0, bytes);
  return made;
}

void AddMapping(World& world, uint64_t address, Mapping mapping) {
  if (!mapping.physical->owns_fd && mapping.physical->is_charged)
    Soil(mapping.physical->fd, mapping.physical->offset, mapping.physical->bytes);
  world.mappings.emplace(address, std::move(mapping));
}

bool ShowMapping(World& world, uint64_t address) {
  const Mapping& mapping = world.mappings.at(address);
  const int protection = mapping.access == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
  return mmap(AliasOf(address), mapping.bytes, protection, MAP_SHARED | MAP_FIXED,
              mapping.physical->fd, static_cast<off_t>(mapping.physical->offset)) != MAP_FAILED;
}

void RemoveMapping(World& world, uint64_t address) {
  const auto it = world.mappings.find(address);
  if (mmap(AliasOf(address), it->second.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
    std::abort();  // the bytes would be another mapping's
  world.mappings.erase(it);
}

void DropMemory(World& world, int device) {
  for (auto it = world.ranges.begin(); it != world.ranges.end();) {
    const auto& [address, range] = *it;
    if (range.kind == RangeKind::kReservation || range.device != device) {
      ++it;
      continue;
    }
    RemoveMapping(world, address);
    it = world.ranges.erase(it);
  }
}

char* Find(World& world, int device, uint64_t address, uint64_t bytes) {
  if (!IsInWindow(world, address)) {
    return FindHost(world, address, bytes) == world.host.end() ? nullptr : PointerOf(address);
  }
  for (uint64_t at = address; at < address + bytes;) {
    const auto it = FindMapping(world, at);
    if (it == world.mappings.end()) return nullptr;
    const Mapping& mapping = it->second;
    const bool has_access = (mapping.access >> (device == kAnyDevice ? 0 : device) & 1) != 0;
    const bool is_peer = mapping.is_plain && device != kAnyDevice &&
                         world.devices[device].peers.contains(mapping.physical->device);
    if (device == kAnyDevice ? mapping.access == 0 : !has_access && !is_peer) return nullptr;
    at = it->first + mapping.bytes;
  }
  return AliasOf(address);
}

std::map<uint64_t, HostRange>::iterator FindHost(World& world, uint64_t address, uint64_t bytes) {
  auto it = world.host.upper_bound(address);
  if (it == world.host.begin()) return world.host.end();
  --it;
  return address + bytes <= it->first + it->second.bytes ? it : world.host.end();
}

}  // namespace weft::fake_cuda
