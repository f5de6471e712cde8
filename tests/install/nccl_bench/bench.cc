// bench THREADS DEVICES: one line for each operation, "all_reduce 1048576 bytes: 0 wrong out of place, 0 wrong in place".
//
// One thread makes all communicators (ncclCommInitAll) where there is one thread; else each thread makes those of its devices, by a
// unique id.
#include "bench.h"

#include <atomic>
#include <thread>
#include <vector>

// Of versions before 2.13.
extern "C" __attribute__((weak)) const char* ncclGetLastError(ncclComm_t) {
  return "";
}

namespace {

constexpr size_t kCounts[] = {1, 1000, 65536};
constexpr size_t kCountMax = 65536;

struct Device {
  int rank = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  void* send = nullptr;
  void* receive = nullptr;
  ncclWindow_t windows[2] = {nullptr, nullptr};
  void* handle = nullptr;
};

std::atomic<size_t> wrong[2];

void Open(Device* device, int ranks) {
  const size_t bytes = kCountMax * static_cast<size_t>(ranks) * sizeof(float);
  CHECK_CUDA(cudaSetDevice(device->rank));
  CHECK_CUDA(cudaStreamCreateWithFlags(&device->stream, cudaStreamNonBlocking));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
  CHECK_NCCL(ncclMemAlloc(&device->send, bytes));
  CHECK_NCCL(ncclMemAlloc(&device->receive, bytes));
#else
  CHECK_CUDA(cudaMalloc(&device->send, bytes));
  CHECK_CUDA(cudaMalloc(&device->receive, bytes));
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  CHECK_NCCL(ncclCommWindowRegister(device->comm, device->send, bytes, &device->windows[0],
                                    NCCL_WIN_COLL_SYMMETRIC));
  CHECK_NCCL(ncclCommWindowRegister(device->comm, device->receive, bytes, &device->windows[1],
                                    NCCL_WIN_DEFAULT));
#endif
  CHECK_NCCL(ncclCommRegister(device->comm, device->receive, bytes, &device->handle));
}

void Close(Device* device) {
  ncclResult_t state = ncclInternalError;
  CHECK_NCCL(ncclCommGetAsyncError(device->comm, &state));
  CHECK_NCCL(state);
  CHECK_NCCL(ncclCommDeregister(device->comm, device->handle));
  for (ncclWindow_t window : device->windows)
    CHECK_NCCL(ncclCommWindowDeregister(device->comm, window));
  CHECK_NCCL(ncclCommDestroy(device->comm));
  CHECK_NCCL(ncclMemFree(device->send));
  CHECK_NCCL(ncclMemFree(device->receive));
  CHECK_CUDA(cudaStreamDestroy(device->stream));
}

// All devices of this thread; the other threads do the same.
void Run(const Operation& operation, size_t count, bool in_place, std::vector<Device>* devices,
         int ranks) {
  const auto sent_from = [&](Device& device) {
    float* const base = static_cast<float*>(in_place ? device.receive : device.send);
    return base + (in_place ? operation.in_place_sent_at(count, device.rank) : 0);
  };
  const auto received_at = [&](Device& device) {
    return static_cast<float*>(device.receive) +
           (in_place ? operation.in_place_received_at(count, device.rank) : 0);
  };
  for (Device& device : *devices) {
    CHECK_CUDA(
        cudaMemset(device.receive, 0xff, kCountMax * static_cast<size_t>(ranks) * sizeof(float)));
    std::vector<float> values(operation.sent(count, ranks));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = Sent(i, device.rank);
    CHECK_CUDA(cudaMemcpy(sent_from(device), values.data(), values.size() * sizeof(float),
                          cudaMemcpyHostToDevice));
  }
  if (devices->size() > 1) CHECK_NCCL(ncclGroupStart());
  for (Device& device : *devices) {
    CHECK_NCCL(operation.run(sent_from(device), received_at(device), count, device.comm,
                             device.rank, ranks, device.stream));
  }
  if (devices->size() > 1) CHECK_NCCL(ncclGroupEnd());
  for (Device& device : *devices) {
    CHECK_CUDA(cudaStreamSynchronize(device.stream));
    std::vector<float> values(operation.received(count, ranks));
    CHECK_CUDA(cudaMemcpy(values.data(), received_at(device), values.size() * sizeof(float),
                          cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < values.size(); ++i)
      wrong[in_place] += values[i] != operation.expected(i, count, device.rank, ranks);
  }
}

int thread_count = 1;
std::atomic<int> met{0};

// Waits for all threads.
void Meet() {
  const int number = met++;
  while (met < (number / thread_count + 1) * thread_count)
    std::this_thread::yield();
}

void RunAll(std::vector<Device>* devices, int ranks) {
  for (Device& device : *devices)
    Open(&device, ranks);
  for (size_t number = 0; number < kOperationCount; ++number) {
    const Operation& operation = kOperations[number];
    const bool both = operation.in_place_sent_at != nullptr;
    for (const size_t count : kCounts) {
      Run(operation, count, false, devices, ranks);
      if (both) Run(operation, count, true, devices, ranks);
    }
    Meet();
    if (devices->front().rank == 0) {
      std::printf("%s: %zu wrong out of place, ", operation.name, wrong[0].exchange(0));
      both ? std::printf("%zu wrong in place\n", wrong[1].exchange(0))
           : std::printf("none in place\n");
    }
    Meet();
  }
  for (Device& device : *devices)
    Close(&device);
}

}  // namespace

int main(int argc, char** argv) {
  thread_count = argc > 1 ? std::atoi(argv[1]) : 1;
  const int per_thread = argc > 2 ? std::atoi(argv[2]) : 1;
  const int ranks = thread_count * per_thread;
  int version = 0;
  CHECK_NCCL(ncclGetVersion(&version));
  if (version != NCCL_VERSION_CODE) return 4;
  std::vector<std::vector<Device>> devices(static_cast<size_t>(thread_count),
                                           std::vector<Device>(static_cast<size_t>(per_thread)));
  for (int rank = 0; rank < ranks; ++rank)
    devices[static_cast<size_t>(rank / per_thread)][static_cast<size_t>(rank % per_thread)].rank =
        rank;
  if (thread_count == 1) {
    std::vector<ncclComm_t> comms(static_cast<size_t>(ranks));
    CHECK_NCCL(ncclCommInitAll(comms.data(), ranks, nullptr));
    for (Device& device : devices[0])
      device.comm = comms[static_cast<size_t>(device.rank)];
    RunAll(&devices[0], ranks);
    return 0;
  }
  if (per_thread != 1) return 5;  // one thread makes one communicator by an id
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (std::vector<Device>& own : devices) {
    threads.emplace_back([&own, &id, ranks] {
      CHECK_NCCL(ncclGroupStart());
      CHECK_NCCL(ncclCommInitRank(&own[0].comm, ranks, id, own[0].rank));
      CHECK_NCCL(ncclGroupEnd());
      RunAll(&own, ranks);
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return 0;
}
