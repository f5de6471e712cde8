#include "comm/node/announced_buffers.h"

#include <optional>

#include "base/status.h"
#include "comm/node/heap.h"
#include "comm/node/shared_blocks.h"
#include "fmt/format.h"

namespace weft {
namespace {

// True, and where, if it lies in a shared block in the heap of another rank of the group.
bool InPeersHeap(const NodeState& state, const void* memory, size_t bytes, uint64_t* offset,
                 uint8_t* owner) {
  if (!ProcessSharedBlocks().MayHold(memory)) return false;
  const std::optional<SharedPlace> place = ProcessSharedBlocks().Find(memory, bytes);
  if (!place) return false;
  const int rank = state.RankOf(place->owner.get());
  if (rank < 0) return false;
  *offset = place->offset;
  *owner = static_cast<uint8_t>(rank);
  return true;
}

// The offset in a heap, or the address, where the elements begin.
absl::StatusOr<uint64_t> PeerPlace(const OperationFrame& frame, int peer, Side side, size_t begin,
                                   size_t count) {
  const bool input = side == Side::kInput;
  const size_t element = frame.shape().element_bytes;
  const BufferPlaces& places = frame.PlacesOf(peer);
  const uint64_t offset = input ? places.in_offset : places.out_offset;
  const uint64_t bytes = input ? places.in_bytes : places.out_bytes;
  const uint64_t elements = bytes / element;
  const bool within = begin <= elements && count <= elements - begin;
  if (within && offset <= UINT64_MAX - bytes) return offset + begin * element;
  return MakeError(
      WEFT_CORRUPT, {.rank = peer},
      fmt::format("rank {} announced {} bytes as its {}, of which elements {} to {} of {} bytes "
                  "each are needed; it is of another version of weft, or its memory is damaged",
                  peer, bytes, input ? "input" : "output", begin, begin + count, element));
}

}  // namespace

void DescribeBuffers(OperationFrame& frame, const SharedResult& shared, Arrival& line) {
  const NodeState& state = frame.state;
  const Collective& call = frame.call();
  auto& told = line.told;
  told = {.identity = frame.prepared.identity};
  BufferPlaces& places = state.self().places[frame.sequence % kWindow];
  places = {};
  if (shared.announced()) shared.Describe(frame, line, places);
  const bool swaps = (call.kind == OpKind::kAllToAll || call.kind == OpKind::kAllToAllV) &&
                     call.in == call.out && call.in != nullptr;
  if (frame.traits().iov || swaps || call.algorithm == Protocol::kStaged) return;
  const Heap& heap = ProcessHeap();
  const auto describe = [&](const void* memory, size_t bytes, MemoryKind* kind, uint64_t* at,
                            uint8_t* owner) {
    *kind = MemoryKind::kHeap;
    *owner = static_cast<uint8_t>(state.rank);
    if (bytes == 0) return;
    const std::optional<uint64_t> offset = heap.OffsetOf(memory, bytes);
    if (offset && (*offset < kFilePlaces || state.all_map_files())) {
      *at = *offset;
      frame.exposed = true;
    } else if (InPeersHeap(state, memory, bytes, at, owner)) {
      frame.exposed = true;
    } else {
      *kind = MemoryKind::kPrivate;
      *at = reinterpret_cast<uintptr_t>(memory);
    }
  };
  const size_t in_bytes = frame.shape().has_input ? InputBytes(call, state.size) : 0;
  const size_t out_bytes = frame.shape().has_output ? OutputBytes(call, state.size) : 0;
  places.in_bytes = in_bytes;
  places.out_bytes = out_bytes;
  describe(call.in, in_bytes, &told.in_kind, &places.in_offset, &told.in_owner);
  if (!shared.announced()) {
    describe(call.out, out_bytes, &told.out_kind, &places.out_offset, &told.out_owner);
  }
  told.reads_peers = state.reads_peers ? 1 : 0;
}

absl::StatusOr<char*> PeerBuffer(OperationFrame& frame, int peer, Side side, size_t begin,
                                 size_t count) {
  WEFT_ASSIGN_OR_RETURN(const uint64_t offset, PeerPlace(frame, peer, side, begin, count));
  const NodeState& state = frame.state;
  const auto& told = frame.ArrivalOf(peer).told;
  const int owner = side == Side::kInput ? told.in_owner : told.out_owner;
  const size_t bytes = count * frame.shape().element_bytes;
  char* buffer = nullptr;
  if (owner < state.size) {
    const absl::StatusOr<char*> found =
        state.peers[static_cast<size_t>(owner)]->Find(offset, bytes);
    if (!found.ok()) {
      frame.unread_peer = owner;
      return found.status();
    }
    buffer = *found;
  }
  if (buffer != nullptr) return buffer;
  return MakeError(
      WEFT_CORRUPT, {.rank = peer},
      fmt::format("rank {} announced a buffer at {} + {} bytes, outside the heap of rank {}", peer,
                  offset, bytes, owner));
}

absl::Status ReadPeer(OperationFrame& frame, int peer, size_t begin, size_t count, char* to) {
  WEFT_ASSIGN_OR_RETURN(const uint64_t address, PeerPlace(frame, peer, Side::kInput, begin, count));
  const size_t bytes = count * frame.shape().element_bytes;
  absl::Status read = frame.state.peers[static_cast<size_t>(peer)]->Read(address, to, bytes);
  if (read.ok()) return read;
  frame.unread_peer = peer;
  return Annotate(read, fmt::format("reading {} bytes of rank {}'s buffer; WEFT_SINGLE_COPY=0 does "
                                    "without: ",
                                    bytes, peer));
}

}  // namespace weft
