#include "bench/weft_perf/job.h"

#include <cstring>

#include "weft/collective.h"

namespace weft::perf {

unsigned char* Job::send_data(size_t shift) const {
  if (!in_place) return send->data() + offset + shift;
  const size_t step = extent.send_in_place_step * type->size;
  return recv->data() + offset + shift + step * static_cast<size_t>(rank);
}

unsigned char* Job::recv_data(size_t shift) const {
  const size_t step = in_place ? extent.recv_in_place_step * type->size : 0;
  return recv->data() + offset + shift + step * static_cast<size_t>(rank);
}

weft_result_t Job::Start(weft_group_t group, const weft_call_t* call, size_t shift,
                         weft_work_t* work) const {
  const void* in = send_data(shift);
  void* out = recv_data(shift);
  const size_t count = extent.count;
  switch (operation->kind) {
    case OperationKind::kAllReduce:
      return weft_all_reduce(in, out, count, type->dtype, reduction->op, group, call, work);
    case OperationKind::kReduce:
      return weft_reduce(in, out, count, type->dtype, reduction->op, root, group, call, work);
    case OperationKind::kBroadcast:
      return weft_broadcast(in, out, count, type->dtype, root, group, call, work);
    case OperationKind::kAllGather:
      return weft_all_gather(in, out, count, type->dtype, group, call, work);
    case OperationKind::kReduceScatter:
      return weft_reduce_scatter(in, out, count, type->dtype, reduction->op, group, call, work);
    case OperationKind::kBarrier:
      break;
  }
  return weft_barrier(group, call, work);
}

DataKey Job::Key(uint64_t seed) const {
  return {type, reduction, ranks, seed, std::max(extent.send_count, extent.recv_count)};
}

void Job::Prepare(uint64_t seed) const {
  const Pattern input = Pattern::Input(Key(seed), rank);
  const size_t recv_region = in_place ? extent.bytes() : extent.recv_bytes;
  std::memset(recv->data() + offset, kCanary, recv_region);
  input.Fill(send_data(0), 0, extent.send_count);
  recv->SetCanaries(offset, recv_region);
  if (!in_place) send->SetCanaries(offset, extent.send_bytes);
}

size_t Job::CountWrongOutput(const DataKey& key) const {
  const unsigned char* out = recv_data(0);
  const size_t count = extent.count;
  switch (operation->kind) {
    case OperationKind::kAllReduce:
      return Pattern::Reduced(key).CountWrong(out, 0, count);
    case OperationKind::kReduce:
      if (rank == root) return Pattern::Reduced(key).CountWrong(out, 0, count);
      // Only the root gets a result; the others' output stays what it was.
      return in_place ? Pattern::Input(key, rank).CountWrong(out, 0, count)
                      : CountChangedCanaries(out, extent.recv_bytes);
    case OperationKind::kBroadcast:
      return Pattern::Input(key, root).CountWrong(out, 0, count);
    case OperationKind::kAllGather: {
      size_t wrong = 0;
      for (int from = 0; from < ranks; ++from) {
        const size_t first = static_cast<size_t>(from) * extent.send_bytes;
        wrong += Pattern::Input(key, from).CountWrong(out + first, 0, count);
      }
      return wrong;
    }
    case OperationKind::kReduceScatter:
      return Pattern::Reduced(key).CountWrong(out, static_cast<size_t>(rank) * count, count);
    case OperationKind::kBarrier:
      break;
  }
  return 0;
}

size_t Job::CountChangedInput(const DataKey& key) const {
  const Pattern input = Pattern::Input(key, rank);
  if (!in_place) return input.CountWrong(send_data(0), 0, extent.send_count);
  if (operation->kind != OperationKind::kReduceScatter) return 0;
  // In place, this rank's own chunk became the result; the others' chunks stay.
  const size_t first = static_cast<size_t>(rank) * extent.count;
  const size_t last = first + extent.count;
  return input.CountWrong(send_data(0), 0, first) +
         input.CountWrong(send_data(0) + last * type->size, last, extent.send_count - last);
}

size_t Job::CountWrong(uint64_t seed) const {
  const DataKey key = Key(seed);
  size_t wrong = CountWrongOutput(key) + CountChangedInput(key);
  const size_t recv_region = in_place ? extent.bytes() : extent.recv_bytes;
  wrong += recv->ChangedCanaries(offset, recv_region);
  if (!in_place) wrong += send->ChangedCanaries(offset, extent.send_bytes);
  return wrong;
}

}  // namespace weft::perf
