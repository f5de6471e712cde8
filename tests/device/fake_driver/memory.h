// Device memory. Its addresses lie in a window that is PROT_NONE, so that a program that touches them ends with SIGSEGV; the fake itself
// reads and writes at the alias, which lies a constant distance behind. Nobody has an address's neighbours: there is a gap behind every range.
#pragma once

#include "tests/device/fake_driver/world.h"

namespace weft::fake_cuda {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kGranularityBytes = 2 << 20;
constexpr uint64_t kWindowBytes = uint64_t{64} << 30;
constexpr int kAnyDevice = -1;

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}

bool OpenWindow(World& world);
bool IsInWindow(const World& world, uint64_t address);

// Free addresses; 0: there are none.
uint64_t FindAddresses(World& world, uint64_t bytes, uint64_t alignment);
// The range that has the address, else world.ranges.end().
std::map<uint64_t, Range>::iterator FindRange(World& world, uint64_t address);
std::map<uint64_t, Mapping>::iterator FindMapping(World& world, uint64_t address);

// Memory of the device, in a memfd of its own; nullptr: there is not so much.
std::shared_ptr<Physical> MakePhysical(World& world, int device, uint64_t bytes);
// Puts it there, for nobody yet.
void AddMapping(World& world, uint64_t address, Mapping mapping);
// Makes the alias what the mapping's access says.
bool ShowMapping(World& world, uint64_t address);
void RemoveMapping(World& world, uint64_t address);
void DropMemory(World& world, int device);

// Where the fake finds these bytes, of device memory that the device may use (kAnyDevice: that some device may), or of host memory that
// the driver knows; nullptr: not all of them are that.
char* Find(World& world, int device, uint64_t address, uint64_t bytes);
// The host range that has all of them, else world.host.end().
std::map<uint64_t, HostRange>::iterator FindHost(World& world, uint64_t address, uint64_t bytes);

}  // namespace weft::fake_cuda
