#include "bench.h"

namespace {

size_t One(size_t count, int) {
  return count;
}

size_t Each(size_t count, int ranks) {
  return count * static_cast<size_t>(ranks);
}

size_t Begin(size_t, int) {
  return 0;
}

size_t OwnPart(size_t count, int rank) {
  return count * static_cast<size_t>(rank);
}

float Sum(size_t i, int ranks) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank)
    sum += Sent(i, rank);
  return sum;
}

// Everybody with everybody, as long as NCCL had no function for it.
ncclResult_t AllToAll(const void* send, void* receive, size_t count, ncclComm_t comm, int,
                      int ranks, cudaStream_t stream) {
  const size_t bytes = count * sizeof(float);
  CHECK_NCCL(ncclGroupStart());
  for (int peer = 0; peer < ranks; ++peer) {
    const size_t at = bytes * static_cast<size_t>(peer);
    CHECK_NCCL(ncclSend(static_cast<const char*>(send) + at, count, ncclFloat, peer, comm, stream));
    CHECK_NCCL(ncclRecv(static_cast<char*>(receive) + at, count, ncclFloat, peer, comm, stream));
  }
  return ncclGroupEnd();
}

ncclResult_t SendRecv(const void* send, void* receive, size_t count, ncclComm_t comm, int rank,
                      int ranks, cudaStream_t stream) {
  CHECK_NCCL(ncclGroupStart());
  CHECK_NCCL(ncclSend(send, count, ncclFloat, (rank + 1) % ranks, comm, stream));
  CHECK_NCCL(ncclRecv(receive, count, ncclFloat, (rank + ranks - 1) % ranks, comm, stream));
  return ncclGroupEnd();
}

}  // namespace

const Operation kOperations[] = {
    {"all_reduce", One, One, Begin, Begin,
     [](size_t i, size_t, int, int ranks) { return Sum(i, ranks); },
     [](const void* send, void* receive, size_t count, ncclComm_t comm, int, int,
        cudaStream_t stream) {
       return ncclAllReduce(send, receive, count, ncclFloat, ncclSum, comm, stream);
     }},
    {"all_gather", One, Each, OwnPart, Begin,
     [](size_t i, size_t count, int, int) { return Sent(i % count, static_cast<int>(i / count)); },
     [](const void* send, void* receive, size_t count, ncclComm_t comm, int, int,
        cudaStream_t stream) {
       return ncclAllGather(send, receive, count, ncclFloat, comm, stream);
     }},
    {"reduce_scatter", Each, One, Begin, OwnPart,
     [](size_t i, size_t count, int rank, int ranks) {
       return Sum(i + count * static_cast<size_t>(rank), ranks);
     },
     [](const void* send, void* receive, size_t count, ncclComm_t comm, int, int,
        cudaStream_t stream) {
       return ncclReduceScatter(send, receive, count, ncclFloat, ncclSum, comm, stream);
     }},
    {"broadcast", One, One, Begin, Begin, [](size_t i, size_t, int, int) { return Sent(i, 0); },
     [](const void* send, void* receive, size_t count, ncclComm_t comm, int, int,
        cudaStream_t stream) {
       return ncclBroadcast(send, receive, count, ncclFloat, 0, comm, stream);
     }},
    // These have no form in place.
    {"sendrecv", One, One, nullptr, nullptr,
     [](size_t i, size_t, int rank, int ranks) { return Sent(i, (rank + ranks - 1) % ranks); },
     SendRecv},
    {"alltoall", Each, Each, nullptr, nullptr,
     [](size_t i, size_t count, int rank, int) {
       return Sent(i % count + count * static_cast<size_t>(rank), static_cast<int>(i / count));
     },
     AllToAll},
};
const size_t kOperationCount = sizeof(kOperations) / sizeof(kOperations[0]);
