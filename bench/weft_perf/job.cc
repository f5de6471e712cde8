#include "bench/weft_perf/job.h"

#include <cstring>

#include "weft/collective.h"
#include "weft/point_to_point.h"
#include "weft/vector.h"

namespace weft::perf {

void Job::SetSize(size_t wanted_bytes) {
  bytes = wanted_bytes;
  extent = ExtentOf(*operation, bytes, type->size, ranks, traffic);
  blocks = {};
  if (operation->layout != Layout::kTraffic) return;
  const size_t total = extent.count * static_cast<size_t>(ranks) * type->size;
  size_t in_at = 0;
  size_t out_at = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    blocks.in_counts.push_back(traffic->Bytes(rank, peer, ranks, total) / type->size);
    blocks.out_counts.push_back(traffic->Bytes(peer, rank, ranks, total) / type->size);
    blocks.in_displacements.push_back(in_at);
    blocks.out_displacements.push_back(out_at);
    in_at += blocks.in_counts.back();
    out_at += blocks.out_counts.back();
  }
}

unsigned char* Job::send_data(size_t shift) const {
  if (!in_place) return send->data() + offset + shift;
  const size_t step = extent.send_in_place_step * type->size;
  return recv->data() + offset + shift + step * static_cast<size_t>(rank);
}

unsigned char* Job::recv_data(size_t shift) const {
  const size_t step = in_place ? extent.recv_in_place_step * type->size : 0;
  return recv->data() + offset + shift + step * static_cast<size_t>(rank);
}

// All-gather by exchanges with the neighbour in each dimension, of twice as much each time.
weft_result_t Job::RunHyperCube(weft_group_t group, const weft_call_t* call, size_t shift) const {
  unsigned char* out = recv_data(shift);
  const size_t chunk = extent.send_bytes;
  const unsigned char* in = send_data(shift);
  unsigned char* own = out + static_cast<size_t>(rank) * chunk;
  if (in != own) std::memcpy(own, in, chunk);
  for (int round = 1; round < ranks; round *= 2) {
    const int peer = rank ^ round;
    const auto have = static_cast<size_t>(rank & ~(round - 1));
    const auto want = have ^ static_cast<size_t>(round);
    const size_t count = extent.count * static_cast<size_t>(round);
    const weft_result_t result =
        weft_sendrecv(out + have * chunk, count, peer, 0, out + want * chunk, count, peer, 0,
                      type->dtype, nullptr, group, call, nullptr);
    if (result != WEFT_SUCCESS) return result;
  }
  return WEFT_SUCCESS;
}

weft_result_t Job::Start(weft_group_t group, const weft_call_t* call, size_t shift,
                         weft_work_t* work) const {
  const void* in = send_data(shift);
  void* out = recv_data(shift);
  const size_t count = extent.count;
  const weft_dtype_t dtype = type->dtype;
  switch (operation->kind) {
    case OperationKind::kAllReduce:
      return weft_all_reduce(in, out, count, dtype, op, group, call, work);
    case OperationKind::kReduce:
      return weft_reduce(in, out, count, dtype, op, root, group, call, work);
    case OperationKind::kBroadcast:
      return weft_broadcast(in, out, count, dtype, root, group, call, work);
    case OperationKind::kAllGather:
      return weft_all_gather(in, out, count, dtype, group, call, work);
    case OperationKind::kReduceScatter:
      return weft_reduce_scatter(in, out, count, dtype, op, group, call, work);
    case OperationKind::kAllToAll:
      return weft_all_to_all(in, out, count, dtype, group, call, work);
    case OperationKind::kAllToAllV:
      return weft_all_to_all_v(in, blocks.in_counts.data(), blocks.in_displacements.data(), out,
                               blocks.out_counts.data(), blocks.out_displacements.data(), dtype,
                               group, call, work);
    case OperationKind::kGather:
      return weft_gather(in, out, count, dtype, root, group, call, work);
    case OperationKind::kScatter:
      return weft_scatter(in, out, count, dtype, root, group, call, work);
    case OperationKind::kSendRecv:
      return weft_sendrecv(in, count, (rank + 1) % ranks, 0, out, count, (rank + ranks - 1) % ranks,
                           0, dtype, nullptr, group, call, work);
    case OperationKind::kHyperCube:
      return RunHyperCube(group, call, shift);
    case OperationKind::kBarrier:
      break;
  }
  return weft_barrier(group, call, work);
}

}  // namespace weft::perf
