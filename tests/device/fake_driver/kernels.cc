// Modules and kernels: the twins, by name. Any image has all of them.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "comm/device/element/merge.h"
#include "tests/device/fake_driver/calls.h"
#include "tests/device/fake_driver/memory.h"
#include "tests/device/fake_driver/schedule.h"
#include "tests/device/fake_driver/streams.h"
#include "tests/device/twins.h"

namespace weft::fake_cuda {
namespace {

constexpr uint32_t kThreadsMax = 256;  // __launch_bounds__ of all kernels
constexpr int32_t kSharedMax = 227 << 10;
constexpr int32_t kRegisters = 64;

struct Launch {
  std::string name;
  test::Twin twin = nullptr;
  test::TwinLaunch shape;
  uint32_t shared_bytes = 0;
  int device = 0;
  std::vector<uint64_t> parameters;
};

// Host memory that no device can read, in the upper half of a program's addresses, where heaps, stacks and libraries are. Other words are numbers.
bool IsPageableAddress(uint64_t word) {
  if (word >> 46 != 1) return false;
  unsigned char page = 0;
  return mincore(PointerOf(word / kPageBytes * kPageBytes), 1, &page) == 0;
}

// The parameters with pointers into device memory replaced by those that the host can use. False if one is not the device's to use.
bool Translate(World& world, const Launch& launch, std::vector<uint64_t>* parameters) {
  *parameters = launch.parameters;
  for (size_t i = 0; i < parameters->size(); ++i) {
    uint64_t& word = (*parameters)[i];
    char* const found = Find(world, launch.device, word, 1);
    if (found == nullptr && (IsInWindow(world, word) || IsPageableAddress(word))) {
      char why[160];
      std::snprintf(why, sizeof(why),
                    "%s has %p in word %zu of its parameters, which it cannot use",
                    launch.name.c_str(), static_cast<void*>(PointerOf(word)), i);
      FailDevice(world, launch.device, kIllegalAddress, why);
      return false;
    }
    if (found != nullptr) word = reinterpret_cast<uint64_t>(found);
  }
  return true;
}

// Results that wait have 16 bytes of shared memory for each thread and level.
bool HasShared(World& world, const Launch& launch) {
  if (!launch.name.starts_with("weft_merge_")) return true;
  const auto& parameters =
      *reinterpret_cast<const device::ReduceParameters*>(launch.parameters.data());
  const int depth = device::MergeDepth(parameters.merges, parameters.source_count);
  if (uint64_t{launch.shape.threads} * 16 * static_cast<uint64_t>(depth) <= launch.shared_bytes)
    return true;
  FailDevice(
      world, launch.device, kIllegalAddress,
      launch.name + " has too little shared memory for " + std::to_string(depth) + " levels");
  return false;
}

FunctionState* FindFunctionState(World& world, Function function) {
  const auto it = world.functions.find(NumberOf(function));
  return it == world.functions.end() ? nullptr : &it->second;
}

}  // namespace

Result ModuleLoadData(Module* module, const void* image) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  if (module == nullptr || image == nullptr) return kInvalidValue;
  *module = world.NewHandle<Module>();
  world.modules[NumberOf(*module)] = OrdinalOf(world, *device);
  return kSuccess;
}

Result ModuleUnload(Module module) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result == kInvalidContext) return result;
  if (world.modules.erase(NumberOf(module)) == 0) return kInvalidValue;
  std::erase_if(world.functions, [&](const auto& one) { return one.second.module == module; });
  return device->failed;
}

Result ModuleGetFunction(Function* function, Module module, const char* name) {
  World& world = TheWorld();
  DeviceState* device = nullptr;
  if (const Result result = NeedContext(world, &device); result != kSuccess) return result;
  if (function == nullptr || name == nullptr || !world.modules.contains(NumberOf(module)))
    return kInvalidValue;
  if (test::FindTwin(name) == nullptr) return kNotFound;
  *function = world.NewHandle<Function>();
  world.functions[NumberOf(*function)] = {name, module};
  return kSuccess;
}

Result FuncGetAttribute(int32_t* value, FunctionAttribute attribute, Function function) {
  const FunctionState* const state = FindFunctionState(TheWorld(), function);
  if (state == nullptr) return kInvalidHandle;
  if (value == nullptr) return kInvalidValue;
  switch (attribute) {
    case FunctionAttribute::kMaxThreadsPerBlock:
      *value = kThreadsMax;
      return kSuccess;
    case FunctionAttribute::kSharedBytes:
    case FunctionAttribute::kLocalBytes:
      *value = 0;
      return kSuccess;
    case FunctionAttribute::kRegisters:
      *value = kRegisters;
      return kSuccess;
    case FunctionAttribute::kMaxDynamicSharedBytes:
      *value = state->dynamic_shared_max;
      return kSuccess;
  }
  return kInvalidValue;
}

Result FuncSetAttribute(Function function, FunctionAttribute attribute, int32_t value) {
  FunctionState* const state = FindFunctionState(TheWorld(), function);
  if (state == nullptr) return kInvalidHandle;
  if (attribute != FunctionAttribute::kMaxDynamicSharedBytes || value < 0 || value > kSharedMax)
    return kInvalidValue;
  state->dynamic_shared_max = value;
  return kSuccess;
}

Result OccupancyMaxActiveBlocksPerMultiprocessor(int32_t* blocks, Function function,
                                                 int32_t threads, size_t dynamic_shared_bytes) {
  if (blocks == nullptr || FindFunctionState(TheWorld(), function) == nullptr || threads <= 0)
    return kInvalidValue;
  const int32_t by_threads = static_cast<uint32_t>(threads) > kThreadsMax
                                 ? 0
                                 : std::min(2048, (64 << 10) / kRegisters) / threads;
  const auto by_memory =
      static_cast<int32_t>((228 << 10) / (dynamic_shared_bytes + 1024));  // 1 KiB is the system's
  *blocks = std::min(by_threads, by_memory);
  return kSuccess;
}

// NOLINTNEXTLINE(readability-function-size): CUDA's arguments
Result LaunchKernel(Function function, uint32_t grid_x, uint32_t grid_y, uint32_t grid_z,
                    uint32_t block_x, uint32_t block_y, uint32_t block_z, uint32_t shared_bytes,
                    Stream handle, void** parameters, void** extra) {
  World& world = TheWorld();
  StreamState* stream = nullptr;
  DeviceState* current = nullptr;
  if (const Result result = NeedContext(world, &current); result != kSuccess) return result;
  if (const Result result = FindStream(world, handle, &stream); result != kSuccess) return result;
  const FunctionState* const state = FindFunctionState(world, function);
  if (state == nullptr) return kInvalidHandle;
  if (stream->device != OrdinalOf(world, *current) ||
      world.modules.at(NumberOf(state->module)) != stream->device)
    return kInvalidHandle;
  // Kernels of weft have one dimension; with more their work would be done several times over.
  if (grid_x == 0 || grid_x > 0x7fffffffU || block_x == 0 || grid_y != 1 || grid_z != 1 ||
      block_y != 1 || block_z != 1 || parameters == nullptr || extra != nullptr)
    return kInvalidValue;
  if (shared_bytes > static_cast<uint32_t>(state->dynamic_shared_max)) return kInvalidValue;
  if (block_x > kThreadsMax) return kLaunchOutOfResources;
  Launch launch = {.name = state->name,
                   .twin = test::FindTwin(state->name),
                   .shape = {.blocks = grid_x, .threads = block_x},
                   .shared_bytes = shared_bytes,
                   .device = stream->device,
                   .parameters = {}};
  const size_t bytes = test::TwinParameterBytes(state->name);
  launch.parameters.resize((bytes + 7) / 8);
  std::memcpy(launch.parameters.data(), parameters[0], bytes);
  launch.shape.parts = static_cast<unsigned>(DrawParts(world));
  const bool backwards = world.random() % 2 == 0;
  Enqueue(world, *stream,
          {.step = [&world, launch = std::move(launch), backwards, done = 0U]() mutable {
            std::vector<uint64_t> translated;
            if (!Translate(world, launch, &translated) || !HasShared(world, launch)) return true;
            launch.shape.part = backwards ? launch.shape.parts - 1 - done : done;
            launch.twin(translated.data(), launch.shape);
            return ++done == launch.shape.parts;
          }});
  return kSuccess;
}

}  // namespace weft::fake_cuda
