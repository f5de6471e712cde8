// An operation that writes too much is as wrong as one that writes other values, and harder to see. So whatever it must leave
// alone holds canaries, or in place its input, and is counted with the wrong elements. All pages are touched before anything
// is timed: untouched ones would be read as one page of zeros, from the cache.
#include "bench/weft_perf/job.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>

#include "weft/collective.h"
#include "weft/mem.h"
#include "weft/point_to_point.h"
#include "weft/vector.h"

#include "bench/weft_perf/ranks.h"

namespace weft::perf {

Buffer::~Buffer() {
  // What is shared goes with its group: after a failure not all ranks may come to free it together.
  if (block_ == nullptr || memory_ == Memory::kShared) return;
  if (memory_ == Memory::kSymmetric) {
    static_cast<void>(weft_mem_free(block_));
    return;
  }
  if (memory_ == Memory::kRegistered && weft_mem_deregister(block_) != WEFT_SUCCESS) return;
  munmap(block_, allocated_);
}

Outcome Buffer::Allocate(size_t bytes, size_t shift_bytes_max, Memory memory, weft_group_t group) {
  // Whole pages: what is registered consists of them.
  const size_t used = kPage + bytes + shift_bytes_max + kCanaryBytes;
  const size_t needed = (used + kPage - 1) / kPage * kPage;
  if (needed < bytes) return Fail(ExitCode::kInternal, Printf("%zu bytes are too many", bytes));
  void* block = nullptr;
  Outcome outcome;
  if (memory == Memory::kSymmetric) {
    outcome = Called("allocating symmetric buffers", weft_mem_alloc(needed, 0, &block));
  } else if (memory == Memory::kShared) {
    outcome = Called("allocating a shared buffer", weft_mem_alloc_shared(group, needed, &block));
  } else {
    block = mmap(nullptr, needed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) {
      outcome =
          Fail(ExitCode::kInternal, Printf("no memory for a buffer of %zu bytes: %s; lower -e",
                                           needed, std::strerror(errno)));
    }
  }
  if (!outcome.ok()) return outcome;
  block_ = static_cast<unsigned char*>(block);
  allocated_ = needed;
  memory_ = memory == Memory::kRegistered ? Memory::kPrivate : memory;
  std::memset(block_, 0, needed);
  if (memory != Memory::kRegistered) return {};
  outcome = Called("registering the buffers", weft_mem_register(block_, needed, 0));
  if (outcome.ok()) memory_ = memory;
  return outcome;
}

void Buffer::SetCanaries(size_t offset, size_t bytes) {
  std::memset(data() + offset - kCanaryBytes, kCanary, kCanaryBytes);
  std::memset(data() + offset + bytes, kCanary, kCanaryBytes);
}

size_t Buffer::ChangedCanaries(size_t offset, size_t bytes) const {
  return CountChangedCanaries(data() + offset - kCanaryBytes, kCanaryBytes) +
         CountChangedCanaries(data() + offset + bytes, kCanaryBytes);
}

void Job::SetSize(size_t wanted_bytes) {
  bytes = wanted_bytes;
  extent = ExtentOf(*operation, bytes, type->size, ranks, traffic);
  blocks = {};
  if (operation->layout != Layout::kTraffic) return;
  const size_t total = extent.count * ranks * type->size;
  size_t in_at = 0;
  size_t out_at = 0;
  for (size_t peer = 0; peer < ranks; ++peer) {
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
  return recv->data() + offset + shift + step * rank;
}

unsigned char* Job::recv_data(size_t shift) const {
  const size_t step = in_place ? extent.recv_in_place_step * type->size : 0;
  return recv->data() + offset + shift + step * rank;
}

// All-gather by exchanges with the neighbour in each dimension, of twice as much each time.
weft_result_t Job::RunHyperCube(weft_group_t group, const weft_call_t* call, size_t shift) const {
  unsigned char* out = recv_data(shift);
  const size_t chunk = extent.send_bytes;
  const unsigned char* in = send_data(shift);
  unsigned char* own = out + rank * chunk;
  if (in != own) std::memcpy(own, in, chunk);
  for (size_t round = 1; round < ranks; round *= 2) {
    const auto peer = static_cast<int>(rank ^ round);
    const size_t have = rank & ~(round - 1);
    const size_t want = have ^ round;
    const size_t count = extent.count * round;
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
  const auto root_rank = static_cast<int>(root);
  switch (operation->kind) {
    case OperationKind::kAllReduce:
      return weft_all_reduce(in, out, count, dtype, op, group, call, work);
    case OperationKind::kReduce:
      return weft_reduce(in, out, count, dtype, op, root_rank, group, call, work);
    case OperationKind::kBroadcast:
      return weft_broadcast(in, out, count, dtype, root_rank, group, call, work);
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
      return weft_gather(in, out, count, dtype, root_rank, group, call, work);
    case OperationKind::kScatter:
      return weft_scatter(in, out, count, dtype, root_rank, group, call, work);
    case OperationKind::kSendRecv:
      return weft_sendrecv(in, count, static_cast<int>((rank + 1) % ranks), 0, out, count,
                           static_cast<int>((rank + ranks - 1) % ranks), 0, dtype, nullptr, group,
                           call, work);
    case OperationKind::kHyperCube:
      return RunHyperCube(group, call, shift);
    case OperationKind::kScan:
      return weft_scan(in, out, count, dtype, op, group, call, work);
    case OperationKind::kExscan:
      return weft_exscan(in, out, count, dtype, op, group, call, work);
    case OperationKind::kBarrier:
      break;
  }
  return weft_barrier(group, call, work);
}

DataKey Job::Key(uint64_t seed) const {
  const bool exclusive = operation->kind == OperationKind::kExscan;
  const bool prefix = exclusive || operation->kind == OperationKind::kScan;
  return {.type = type,
          .reduction = operation->reduces ? reduction : nullptr,
          .ranks = ranks,
          .seed = seed,
          .length = std::max(extent.send_count, extent.recv_count),
          .reduced_ranks = prefix ? rank + (exclusive ? 0 : 1) : 0};
}

std::vector<Piece> Job::Result() const {
  const size_t count = extent.count;
  const bool has_result = !operation->rooted || rank == root;
  std::vector<Piece> pieces;
  // From each rank the block that begins at `first` in its input.
  const auto collect = [&](size_t first) {
    for (size_t from = 0; from < ranks; ++from)
      pieces.push_back({from, first, from * count, count});
  };
  switch (operation->kind) {
    case OperationKind::kAllReduce:
    case OperationKind::kReduce:
      if (has_result) pieces.push_back({Piece::kReduced, 0, 0, count});
      break;
    case OperationKind::kScan:
    case OperationKind::kExscan:
      if (operation->kind == OperationKind::kScan || rank > 0)
        pieces.push_back({Piece::kReduced, 0, 0, count});
      break;
    case OperationKind::kReduceScatter:
      pieces.push_back({Piece::kReduced, rank * count, 0, count});
      break;
    case OperationKind::kBroadcast:
      pieces.push_back({root, 0, 0, count});
      break;
    case OperationKind::kScatter:
      pieces.push_back({root, rank * count, 0, count});
      break;
    case OperationKind::kSendRecv:
      pieces.push_back({(rank + ranks - 1) % ranks, 0, 0, count});
      break;
    case OperationKind::kAllGather:
    case OperationKind::kHyperCube:
    case OperationKind::kGather:
      if (has_result) collect(0);
      break;
    case OperationKind::kAllToAll:
      collect(rank * count);
      break;
    case OperationKind::kAllToAllV:
      for (size_t from = 0; from < ranks; ++from) {
        size_t before = 0;  // what `from` sends to the ranks below this one
        for (size_t to = 0; to < rank; ++to) {
          before += traffic->Bytes(from, to, ranks, count * ranks * type->size) / type->size;
        }
        pieces.push_back({from, before, blocks.out_displacements[from], blocks.out_counts[from]});
      }
      break;
    case OperationKind::kBarrier:
      break;
  }
  return pieces;
}

// Of a result that all ranks have in one place each rank writes its share. In place that is its own input, or the
// root's alone.
void Job::SetSharedCanaries() const {
  const size_t region = recv_region();
  const size_t share = region / ranks;
  const bool roots = in_place && operation->rooted;
  const size_t begin = roots ? 0 : share * rank;
  const size_t end = roots || rank == ranks - 1 ? region : begin + share;
  if (!roots || rank == root) std::memset(recv->data() + offset + begin, kCanary, end - begin);
  if (rank == 0) recv->SetCanaries(offset, region);
}

void Job::SetCanaries() const {
  if (shared_result) {
    SetSharedCanaries();
  } else {
    std::memset(recv->data() + offset, kCanary, recv_region());
    recv->SetCanaries(offset, recv_region());
  }
  if (!in_place) send->SetCanaries(offset, extent.send_bytes);
}

void Job::Prepare(uint64_t seed) const {
  SetCanaries();
  // In place in one buffer only the root's is an input.
  if (shared_result && in_place && operation->rooted && rank != root) return;
  Pattern::Input(Key(seed), rank).Fill(send_data(0), 0, extent.send_count);
}

void Job::PrepareBlocks(const Pattern& input) const {
  constexpr size_t kBetweenBlocks = 977;  // anything that is not a multiple of the pattern's period
  SetCanaries();
  const bool dealt = operation->layout == Layout::kDeals || operation->layout == Layout::kSwaps;
  const bool has_blocks = dealt || operation->layout == Layout::kTraffic;
  size_t at = 0;
  for (size_t to = 0; to < (has_blocks ? ranks : 1); ++to) {
    const size_t whole = dealt ? extent.count : extent.send_count;
    const size_t count = blocks.in_counts.empty() ? whole : blocks.in_counts[to];
    input.Fill(send_data(0) + at * type->size, to * kBetweenBlocks, count);
    at += count;
  }
}

size_t Job::CountChangedCanariesAround() const {
  const size_t changed = recv->ChangedCanaries(offset, recv_region());
  return in_place ? changed : changed + send->ChangedCanaries(offset, extent.send_bytes);
}

// Elements [first, last) of the output buffer hold what Prepare left there: in place a part of the
// input, elsewhere canaries.
size_t Job::CountTouched(const Pattern& input, size_t first, size_t last) const {
  const unsigned char* region = recv->data() + offset;
  const size_t size = type->size;
  const size_t input_at = extent.send_in_place_step * rank;
  const size_t input_end = input_at + extent.send_count;
  const size_t from = in_place ? std::clamp(input_at, first, last) : last;
  const size_t to = in_place ? std::clamp(input_end, from, last) : last;
  return CountChangedCanaries(region + first * size, (from - first) * size) +
         input.CountWrong(region + from * size, from - input_at, to - from) +
         CountChangedCanaries(region + to * size, (last - to) * size);
}

size_t Job::CountWrongPieces(const DataKey& key) const {
  const Pattern input = Pattern::Input(key, rank);
  const size_t recv_at = in_place ? extent.recv_in_place_step * rank : 0;
  size_t wrong = 0;
  size_t seen = 0;  // elements of the output buffer
  for (const Piece& piece : Result()) {
    const size_t at = recv_at + piece.at;
    wrong += CountTouched(input, seen, at);
    const Pattern expected =
        piece.from == Piece::kReduced ? Pattern::Reduced(key) : Pattern::Input(key, piece.from);
    wrong += expected.CountWrong(recv->data() + offset + at * type->size, piece.first, piece.count);
    seen = at + piece.count;
  }
  return wrong + CountTouched(input, seen, recv_region() / type->size);
}

size_t Job::CountWrong(uint64_t seed) const {
  const DataKey key = Key(seed);
  size_t wrong = CountWrongPieces(key);
  if (!in_place) {
    wrong += Pattern::Input(key, rank).CountWrong(send_data(0), 0, extent.send_count);
  }
  return wrong + CountChangedCanariesAround();
}

}  // namespace weft::perf
