// weft's memory on devices, through the C interface: on the fake driver, or on the one that WEFT_CUDA_LIBRARY names, such as
// libcuda.so.1.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <future>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/weft.h"

#include "tests/device/device_fixture.h"

namespace weft::test {
namespace {

class Devices : public DeviceFixture {};

class Memory : public MemoryFixture {};

TEST_F(Devices, AreCountedAndDescribed) {
  int32_t count = 0;
  ASSERT_EQ(weft_device_count(WEFT_DEVICE_CUDA, &count), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(count, cuda_.devices);
  std::set<std::string> uuids;
  for (int32_t device = 0; device < count; ++device) {
    weft_device_info_t info = {.struct_size = sizeof(info)};
    ASSERT_EQ(weft_device_info(WEFT_DEVICE_CUDA, device, &info), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(info.device, device);
    EXPECT_NE(std::string(info.name), "");
    EXPECT_NE(std::string(info.bus_id), "");
    EXPECT_GT(info.total_bytes, kMiB);
    EXPECT_GE(info.compute_major, 5);
    EXPECT_GE(info.multiprocessors, 1);
    EXPECT_GE(info.driver_version, 12000);
    const std::string uuid = info.uuid;
    EXPECT_EQ(uuid.size(), 40u) << uuid;
    EXPECT_EQ(uuid.substr(0, 4), "GPU-");
    uuids.insert(uuid);
  }
  EXPECT_EQ(uuids.size(), static_cast<size_t>(count));
  weft_device_info_t info = {.struct_size = sizeof(info)};
  EXPECT_EQ(weft_device_info(WEFT_DEVICE_CUDA, count, &info), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("device is " + std::to_string(count))) << weft_last_error();
  EXPECT_EQ(weft_device_info(WEFT_DEVICE_CUDA, -2, &info), WEFT_INVALID_ARGUMENT);
}

TEST_F(Devices, TheCurrentOneIsThatOfTheThread) {
  weft_device_info_t info = {.struct_size = sizeof(info)};
  ASSERT_EQ(weft_device_info(WEFT_DEVICE_CUDA, WEFT_DEVICE_CURRENT, &info), WEFT_SUCCESS)
      << weft_last_error();
  EXPECT_EQ(info.device, 0);
  std::thread([] {
    weft_device_info_t none = {.struct_size = sizeof(none)};
    EXPECT_EQ(weft_device_info(WEFT_DEVICE_CUDA, WEFT_DEVICE_CURRENT, &none),
              WEFT_INVALID_ARGUMENT);
    EXPECT_TRUE(Says("current context")) << weft_last_error();
    weft_mem_config_t config = Config(64);
    config.device = WEFT_DEVICE_CURRENT;
    void* block = nullptr;
    EXPECT_EQ(weft_mem_alloc_on(&config, &block), WEFT_INVALID_ARGUMENT);
  }).join();
  weft_mem_config_t config = Config(64);
  config.device = WEFT_DEVICE_CURRENT;
  void* block = nullptr;
  ASSERT_EQ(weft_mem_alloc_on(&config, &block), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(Query(block).device, 0);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
}

TEST_F(Memory, IsZeroedAlignedAndKnown) {
  for (const size_t bytes :
       {size_t{1}, size_t{511}, size_t{513}, size_t{70'000}, kMiB, kMiB + 1, 3 * kMiB}) {
    char* const block = static_cast<char*>(Alloc(bytes, stream_));
    EXPECT_EQ(AddressOf(block) % 512, 0u);
    for (const size_t at : {size_t{0}, bytes - 1}) {
      const weft_mem_info_t info = Query(block + at);
      EXPECT_EQ(info.kind, WEFT_MEM_SYMMETRIC);
      EXPECT_EQ(info.device_kind, WEFT_DEVICE_CUDA);
      EXPECT_EQ(info.device, 0);
      EXPECT_EQ(info.references, 1);
      EXPECT_EQ(info.base, block);
      EXPECT_GE(info.bytes, bytes);
      EXPECT_EQ(info.flags, 0u);
    }
    EXPECT_TRUE(AllAre(Read(block, bytes), 0)) << bytes;
    // What comes next must not see what was here.
    EXPECT_EQ(cuda_.MemsetD8Async(AddressOf(block), 0x5a, bytes, stream_), 0);
    EXPECT_TRUE(AllAre(Read(block, bytes), 0x5a)) << bytes;
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(Query(block).kind, WEFT_MEM_PRIVATE);
    EXPECT_EQ(Query(block).device_kind, WEFT_DEVICE_HOST);
    EXPECT_EQ(weft_mem_free(block), WEFT_INVALID_ARGUMENT);
  }
  ExpectNothingHeld();
}

TEST_F(Memory, OfOtherDevicesIsTheirs) {
  if (cuda_.devices < 2) GTEST_SKIP() << "one device";
  weft_mem_config_t config = Config(4096);
  config.device = cuda_.devices - 1;
  void* block = nullptr;
  ASSERT_EQ(weft_mem_alloc_on(&config, &block), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(Query(block).device, cuda_.devices - 1);
  int32_t where = -1;
  EXPECT_EQ(
      cuda_.PointerGetAttribute(&where, cuda::PointerAttribute::kDeviceOrdinal, AddressOf(block)),
      0);
  EXPECT_EQ(where, cuda_.devices - 1);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  config.device = cuda_.devices;
  EXPECT_EQ(weft_mem_alloc_on(&config, &block), WEFT_INVALID_ARGUMENT);
  EXPECT_TRUE(Says("CUDA has")) << weft_last_error();
}

TEST_F(Memory, ManySmallBlocksShareChunks) {
  std::vector<void*> blocks;
  std::set<void*> places;
  for (int i = 0; i < 10'000; ++i) {
    blocks.push_back(Alloc(4096, stream_));
    places.insert(blocks.back());
  }
  EXPECT_EQ(places.size(), blocks.size());
  EXPECT_LE(free_bytes_ - std::min(free_bytes_, FreeBytes()), 64 * kMiB);
  EXPECT_EQ(cuda_.StreamSynchronize(stream_), 0);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(7));
  for (void* const block : blocks)
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  ExpectNothingHeld();
}

TEST_F(Memory, TenThousandAllocationsLeakNothing) {
  std::mt19937 random(11);
  std::vector<void*> live;
  for (int i = 0; i < 10'000; ++i) {
    const size_t bytes = random() % 50 == 0 ? random() % (4 * kMiB) + 1 : random() % 20'000 + 1;
    live.push_back(Alloc(bytes, random() % 2 == 0 ? stream_ : nullptr));
    if (live.size() > 40) {
      std::swap(live[random() % live.size()], live.back());
      EXPECT_EQ(weft_mem_free(live.back()), WEFT_SUCCESS) << weft_last_error();
      live.pop_back();
    }
  }
  for (void* const block : live)
    EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  ExpectNothingHeld();
}

TEST_F(Memory, ALargeBlockGoesBackAtOnce) {
  void* const block = Alloc(64 * kMiB, stream_);
  EXPECT_LE(FreeBytes() + 64 * kMiB, free_bytes_ + 2 * kMiB);
  EXPECT_EQ(cuda_.StreamSynchronize(stream_), 0);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  weft_device_info_t info = {.struct_size = sizeof(info)};
  ASSERT_EQ(weft_device_info(WEFT_DEVICE_CUDA, 0, &info), WEFT_SUCCESS);
  // Plain memory waits for the next allocation.
  const uint32_t mapped = WEFT_DEVICE_VIRTUAL_MEMORY | WEFT_DEVICE_POSIX_DESCRIPTORS;
  if ((info.flags & mapped) == mapped) {
    EXPECT_GE(FreeBytes(), free_bytes_);
  }
  ExpectNothingHeld();
}

TEST_F(Memory, ALackOfItSaysHowMuchIsFree) {
  weft_device_info_t device = {.struct_size = sizeof(device)};
  ASSERT_EQ(weft_device_info(WEFT_DEVICE_CUDA, 0, &device), WEFT_SUCCESS);
  void* const some = Alloc(64);
  for (const size_t bytes :
       {SIZE_MAX, size_t{PTRDIFF_MAX}, static_cast<size_t>(device.total_bytes)}) {
    const weft_mem_config_t config = Config(bytes);
    void* block = nullptr;
    EXPECT_EQ(weft_mem_alloc_on(&config, &block), WEFT_OUT_OF_MEMORY) << weft_last_error();
    EXPECT_TRUE(Says("of device memory")) << weft_last_error();
    EXPECT_TRUE(Says("device 0")) << weft_last_error();
    if (bytes == device.total_bytes) {
      EXPECT_TRUE(Says(" are free")) << weft_last_error();
    }
    weft_error_info_t info = {.struct_size = sizeof(info)};
    EXPECT_EQ(weft_last_error_info(&info), WEFT_SUCCESS);
    EXPECT_EQ(info.device, 0);
    EXPECT_EQ(block, nullptr);
  }
  EXPECT_EQ(weft_mem_free(some), WEFT_SUCCESS);
  ExpectNothingHeld();
}

TEST_F(Memory, KeptBlocksTakeAsManyFreesAsTheyHaveReferences) {
  char* const block = static_cast<char*>(Alloc(10'000, stream_));
  void* begin = nullptr;
  EXPECT_EQ(weft_mem_retain(block + 5'000, &begin), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(begin, block);
  EXPECT_EQ(Query(block).references, 2);
  EXPECT_EQ(weft_mem_free(block + 1), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  EXPECT_EQ(Query(block).references, 1);
  EXPECT_EQ(weft_mem_free_on(block, stream_), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_free(block), WEFT_INVALID_ARGUMENT);
  EXPECT_EQ(weft_mem_retain(block, nullptr), WEFT_INVALID_ARGUMENT);
  ExpectNothingHeld();
}

// The zeros that weft has enqueued must not come when the memory is somebody else's.
TEST_F(Memory, ABlockIsNotHandedOutBeforeItsZeroingHasEnded) {
  void* const word = AllocPinned(64);
  HeldStream held(cuda_, word);
  void* const block = Alloc(3 * kMiB, held.get());
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << "and it has not waited";
  EXPECT_EQ(Query(block).kind, WEFT_MEM_PRIVATE);
  void* const small = Alloc(4096, held.get());
  EXPECT_EQ(weft_mem_free(small), WEFT_SUCCESS);
  std::vector<void*> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(Alloc(i % 2 == 0 ? 3 * kMiB : 4096, stream_));
    EXPECT_NE(others.back(), block);
    EXPECT_NE(others.back(), small);
  }
  held.LetGo();
  for (void* const other : others)
    EXPECT_EQ(weft_mem_free(other), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(word), WEFT_SUCCESS);
  ExpectNothingHeld();
}

TEST_F(Memory, FreedOnAStreamComesBackBehindIt) {
  void* const word = AllocPinned(64);
  HeldStream held(cuda_, word);
  void* const block = Alloc(4096, stream_);
  EXPECT_EQ(cuda_.StreamSynchronize(stream_), 0);
  EXPECT_EQ(cuda_.MemsetD8Async(AddressOf(block), 0x77, 4096, held.get()), 0);
  EXPECT_EQ(weft_mem_free_on(block, held.get()), WEFT_SUCCESS) << weft_last_error();
  EXPECT_EQ(weft_mem_free_on(block, held.get()), WEFT_INVALID_ARGUMENT) << "it is gone";
  std::vector<void*> others;
  for (int i = 0; i < 600; ++i) {
    others.push_back(Alloc(4096, stream_));
    ASSERT_NE(others.back(), block);
  }
  held.LetGo();
  bool again = false;
  for (int i = 0; i < 600 && !again; ++i) {
    others.push_back(Alloc(4096, stream_));
    again = others.back() == block;
  }
  EXPECT_TRUE(again);
  for (void* const other : others)
    EXPECT_TRUE(AllAre(Read(other, 4096), 0));
  for (void* const other : others)
    EXPECT_EQ(weft_mem_free(other), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(word), WEFT_SUCCESS);
  ExpectNothingHeld();
}

TEST_F(Memory, FreeingOnAStreamTakesMemoryOfDevices) {
  EXPECT_EQ(weft_mem_free_on(nullptr, stream_), WEFT_SUCCESS);
  void* host = nullptr;
  ASSERT_EQ(weft_mem_alloc(64, 0, &host), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free_on(host, stream_), WEFT_UNSUPPORTED);
  EXPECT_TRUE(Says("not pinned")) << weft_last_error();
  EXPECT_EQ(weft_mem_free(host), WEFT_SUCCESS);
  int local = 0;
  EXPECT_EQ(weft_mem_free_on(&local, stream_), WEFT_INVALID_ARGUMENT);
  void* const block = Alloc(64);
  EXPECT_EQ(weft_mem_free_on(block, nullptr), WEFT_SUCCESS) << weft_last_error();
}

TEST_F(Memory, ManyThreadsTakeAndGiveIt) {
  constexpr int kThreads = 4;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      cuda::Stream stream = nullptr;
      EXPECT_EQ(cuda_.CtxPushCurrent(context_), 0);
      EXPECT_EQ(cuda_.StreamCreate(&stream, cuda::kStreamNonBlocking), 0);
      std::mt19937 random(static_cast<unsigned>(i));
      std::vector<std::pair<void*, size_t>> live;
      for (int round = 0; round < 200; ++round) {
        const size_t bytes = random() % 20 == 0 ? kMiB + random() % kMiB : random() % 9'000 + 1;
        void* const block = round % 25 == 0 ? AllocPinned(bytes) : Alloc(bytes, stream);
        EXPECT_EQ(
            cuda_.MemsetD8Async(AddressOf(block), static_cast<unsigned char>(i + 1), bytes, stream),
            0);
        live.emplace_back(block, bytes);
        if (live.size() < 8) continue;
        std::swap(live[random() % live.size()], live.back());
        const auto [last, size] = live.back();
        live.pop_back();
        std::vector<unsigned char> read(size, 0xee);
        EXPECT_EQ(cuda_.MemcpyAsync(AddressOf(read.data()), AddressOf(last), size, stream), 0);
        if (round % 2 == 0) {
          EXPECT_EQ(weft_mem_free_on(last, stream), WEFT_SUCCESS) << weft_last_error();
          EXPECT_EQ(cuda_.StreamSynchronize(stream), 0);
        } else {
          EXPECT_EQ(cuda_.StreamSynchronize(stream), 0);
          EXPECT_EQ(weft_mem_free(last), WEFT_SUCCESS) << weft_last_error();
        }
        EXPECT_TRUE(AllAre(read, static_cast<unsigned char>(i + 1))) << "somebody else wrote it";
      }
      EXPECT_EQ(cuda_.StreamSynchronize(stream), 0);
      for (const auto& [block, bytes] : live)
        EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
      EXPECT_EQ(cuda_.StreamDestroy(stream), 0);
      cuda::Context left = nullptr;
      EXPECT_EQ(cuda_.CtxPopCurrent(&left), 0);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  ExpectNothingHeld();
}

// Whether a call waits for work on the device that nothing but this test ends.
template <typename Call>
bool WaitsForTheDevice(HeldStream* held, Call call) {
  std::future<void> done = std::async(std::launch::async, call);
  const bool waits = done.wait_for(std::chrono::milliseconds(500)) != std::future_status::ready;
  held->LetGo();
  done.get();
  return waits;
}

// A stream may wait for a rank that the freeing thread is to help.
TEST_F(Memory, FreeingItWaitsForNoDevice) {
  void* const word = AllocPinned(64);
  void* const blocks[] = {Alloc(64 * kMiB), Alloc(64), Alloc(3 * kMiB)};
  EXPECT_EQ(cuda_.CtxSynchronize(), 0);
  HeldStream held(cuda_, word);
  EXPECT_FALSE(WaitsForTheDevice(&held, [&] {
    EXPECT_EQ(weft_mem_free(blocks[0]), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mem_free(blocks[1]), WEFT_SUCCESS) << weft_last_error();
    EXPECT_EQ(weft_mem_free_on(blocks[2], held.get()), WEFT_SUCCESS) << weft_last_error();
  }));
  EXPECT_EQ(weft_mem_free(word), WEFT_SUCCESS);
  ExpectNothingHeld();
}

// Not promised of pinned memory, and to be known: a line for ./dev gpu run.
TEST_F(Memory, FreeingPinnedMemoryMayWait) {
  void* const word = AllocPinned(64);
  void* const block = AllocPinned(kMiB);
  HeldStream held(cuda_, word);
  const bool waits = WaitsForTheDevice(
      &held, [&] { EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error(); });
  std::printf("{\"fact\": \"cuMemHostUnregister waits for the device\", \"value\": \"%s\"}\n",
              waits ? "yes" : "no");
  EXPECT_EQ(weft_mem_free(word), WEFT_SUCCESS);
}

// Lines for ./dev gpu run: what allocating and freeing take, in turns.
TEST_F(Memory, TimesOfAllocations) {
  if (UseFakeDriver() != nullptr) GTEST_SKIP() << "the fake driver has no times";
  const auto report = [&](const char* name, size_t bytes, auto alloc) {
    std::string us;
    for (int i = 0; i < 20; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      void* const block = alloc(bytes);
      EXPECT_EQ(cuda_.CtxSynchronize(), 0);
      EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS) << weft_last_error();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - begin;
      us += (i == 0 ? "" : ", ") + std::to_string(took.count());
    }
    std::printf("{\"figure\": \"allocate, zero and free %s\", \"bytes\": %zu, \"us\": [%s]}\n",
                name, bytes, us.c_str());
  };
  const auto on_device = [&](size_t bytes) {
    return Alloc(bytes, stream_);
  };
  report("4 KiB of a device", 4096, on_device);
  report("4 MiB of a device", 4 * kMiB, on_device);
  report("256 MiB of a device", 256 * kMiB, on_device);
  report("4 MiB pinned", 4 * kMiB, [](size_t bytes) { return AllocPinned(bytes); });
  ExpectNothingHeld();
}

// In a child of this process that has not asked CUDA for anything itself. Its exit code is the line that did not hold, 0 if all did.
template <typename Body>
int InAChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST_F(Memory, AForkedChildHasNoneOfIt) {
  void* const block = Alloc(4096);
  void* const pinned = AllocPinned(4096);
  const int status = InAChild([&] {
    weft_mem_info_t info = {.struct_size = sizeof(info)};
    const weft_mem_config_t config = Config(64);
    const weft_mem_config_t pinning = {
        .struct_size = sizeof(pinning), .bytes = 64, .flags = WEFT_MEM_PINNED};
    weft_device_info_t device = {.struct_size = sizeof(device)};
    void* made = nullptr;
    int32_t count = 0;
    if (weft_mem_query(block, &info) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_free(block) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_free(pinned) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_free_on(block, nullptr) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_retain(block, nullptr) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_register(block, 64, 0) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_deregister(block) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_alloc_on(&config, &made) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_alloc_on(&pinning, &made) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_mem_alloc_copy(block, 64, &made) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_device_count(WEFT_DEVICE_CUDA, &count) != WEFT_FORKED) return __LINE__ % 256;
    if (weft_device_info(WEFT_DEVICE_CUDA, 0, &device) != WEFT_FORKED) return __LINE__ % 256;
    return 0;
  });
  EXPECT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the line, modulo 256";
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
  EXPECT_EQ(weft_mem_free(pinned), WEFT_SUCCESS);
}

TEST_F(Memory, TheHostCannotTouchThatOfADevice) {
  auto* const block = static_cast<unsigned char*>(Alloc(4096));
  EXPECT_EQ(cuda_.CtxSynchronize(), 0);
  const int status = InAChild([&] {
    signal(SIGSEGV, SIG_DFL);
    return static_cast<int>(__atomic_load_n(block, __ATOMIC_RELAXED));
  });
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(weft_mem_free(block), WEFT_SUCCESS);
}

}  // namespace
}  // namespace weft::test
