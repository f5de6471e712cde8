// A send must never wait for its receiver here, or two ranks that send to each other would. So what has no room stays in
// a list, is tried again at each step, and keeps its place: one that is small enough to go at once does not pass one that
// is not, since the receiver matches by order.
#include "comm/node/outbox.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "base/status.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {

// What the channel's making costs the heap: whole pages.
static_assert(sizeof(Channel) <= 36 << 10);

absl::Status Outbox::Corrupt(int destination, std::string_view what) const {
  return MakeError(WEFT_CORRUPT, {.rank = destination},
                   fmt::format("rank {} {}", state_.GroupRank(destination), what));
}

absl::Status Outbox::Prepare(int destination) {
  if (routes_[static_cast<size_t>(destination)].writer.open()) return absl::OkStatus();
  absl::StatusOr<void*> block = ProcessHeap().Allocate(sizeof(Channel));
  if (!block.ok()) return Annotate(block.status(), fmt::format("channel to {}: ", destination));
  blocks_.push_back(*block);
  auto* const channel = new (*block) Channel{};
  routes_[static_cast<size_t>(destination)].writer = ChannelWriter(channel);
  const char* const base = state_.peers[static_cast<size_t>(state_.rank)]->base();
  const auto offset = static_cast<uint64_t>(static_cast<char*>(*block) - base);
  state_.segment.messages(destination)
      .inbox[state_.rank]
      .store(offset + 1, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status Outbox::MakeStage(int destination) {
  absl::StatusOr<void*> block = ProcessHeap().Allocate(kStreamHalves * kStreamHalfBytes);
  if (!block.ok()) return Annotate(block.status(), fmt::format("staging to {}: ", destination));
  blocks_.push_back(*block);
  const char* const base = state_.peers[static_cast<size_t>(state_.rank)]->base();
  routes_[static_cast<size_t>(destination)].writer.SetStage(
      static_cast<char*>(*block), static_cast<uint64_t>(static_cast<char*>(*block) - base));
  return absl::OkStatus();
}

void Outbox::Add(MessageOperation& send, MessageList* ended) {
  const int destination = send.message().peer;
  Route& route = routes_[static_cast<size_t>(destination)];
  ++pending_;
  // Behind an earlier one that waits for room, whatever its size: receives match in order of issue.
  if (!route.unsent.empty() || !Write(destination, send, ended)) route.unsent.PushBack(send);
}

void Outbox::End(MessageOperation& send, MessageList* ended) {
  --pending_;
  ended->PushBack(send);
}

// The record of a send that is in no list.
bool Outbox::Write(int destination, MessageOperation& send, MessageList* ended) {
  Route& route = routes_[static_cast<size_t>(destination)];
  const Message& message = send.message();
  const size_t bytes = send.bytes();
  MessageHeader header{.kind = RecordKind::kEager,
                       .dtype = static_cast<uint16_t>(message.dtype),
                       .epoch = state_.epoch,
                       .tag = message.tag,
                       .count = message.count};
  const bool eager = bytes <= kEagerBytes;
  if (!eager) {
    std::optional<uint64_t> place = ProcessHeap().OffsetOf(message.in, bytes);
    if (place && *place >= kFilePlaces && !state_.all_map_files()) place.reset();
    const bool readable =
        !place && state_.single_copy && bytes >= state_.tuning.single_copy_message_min_bytes;
    header.kind = place      ? RecordKind::kHeapRts
                  : readable ? RecordKind::kReadableRts
                             : RecordKind::kRts;
    header.rts = route.next_rts;
    if (place) header.place = *place;
    if (readable) header.place = reinterpret_cast<uintptr_t>(message.in);
  }
  if (!route.writer.Write(header, message.in, eager ? bytes : 0)) return false;
  if (eager) {
    End(send, ended);
  } else {
    send.rts = route.next_rts++;
    send.exposed = header.kind == RecordKind::kHeapRts;
    send.in_file = send.exposed && header.place >= kFilePlaces;
    send.readable = header.kind == RecordKind::kReadableRts;
    route.announced.PushBack(send);
  }
  state_.Notify(destination);
  return true;
}

absl::Status Outbox::ReadReplies(int destination, MessageList* ended, bool* moved) {
  Route& route = routes_[static_cast<size_t>(destination)];
  Reply reply;
  while (true) {
    const ChannelWriter::Found found = route.writer.NextReply(&reply);
    if (found == ChannelWriter::Found::kNone) return absl::OkStatus();
    MessageOperation* send = route.announced.front();
    while (send != nullptr && send->rts != reply.rts)
      send = send->next();
    const bool taken = reply.kind == Reply::kFin;
    const bool known = found == ChannelWriter::Found::kReply && send != nullptr &&
                       (taken ? send->exposed || send->readable
                              : reply.kind == Reply::kCts && (!send->exposed || send->in_file));
    if (!known)
      return Corrupt(destination, "answered a large message that this rank has not announced");
    *moved = true;
    route.announced.Remove(*send);
    if (taken) {
      End(*send, ended);
      continue;
    }
    MessageRing::SetState(send->recorded, MessageState::kMatched);
    route.streaming.PushBack(*send);
    if (!route.writer.has_stage()) WEFT_RETURN_IF_ERROR(MakeStage(destination));
  }
}

// As many chunks as there are free halves, then ends what the receiver has all of.
bool Outbox::Stream(int destination, MessageList* ended) {
  Route& route = routes_[static_cast<size_t>(destination)];
  bool moved = false;
  for (MessageOperation* send = route.streaming.front(); send != nullptr;) {
    char* const half = send->moved < send->bytes() ? route.writer.FreeHalf() : nullptr;
    if (half != nullptr) {
      const size_t chunk = std::min(kStreamHalfBytes, send->bytes() - send->moved);
      std::memcpy(half, static_cast<const char*>(send->message().in) + send->moved, chunk);
      send->moved += chunk;
      route.writer.PublishChunk();
      send->last_chunk = route.writer.staged();
      moved = true;
      state_.Notify(destination);
    } else if (send->moved < send->bytes()) {
      break;
    } else {
      send = send->next();
    }
  }
  while (MessageOperation* const send = route.streaming.front()) {
    if (send->moved < send->bytes() || !route.writer.Drained(send->last_chunk)) break;
    route.streaming.Remove(*send);
    End(*send, ended);
    moved = true;
  }
  return moved;
}

absl::Status Outbox::Step(MessageList* ended, bool* moved) {
  if (idle()) return absl::OkStatus();
  for (int destination = 0; destination < state_.size; ++destination) {
    Route& route = routes_[static_cast<size_t>(destination)];
    if (route.idle()) continue;
    WEFT_RETURN_IF_ERROR(ReadReplies(destination, ended, moved));
    if (!route.streaming.empty() && Stream(destination, ended)) *moved = true;
    while (MessageOperation* const send = route.unsent.front()) {
      route.unsent.Remove(*send);
      if (!Write(destination, *send, ended)) {
        route.unsent.PushFront(*send);
        break;
      }
      *moved = true;
    }
  }
  return absl::OkStatus();
}

void Outbox::TakeAll(MessageList* ended) {
  for (Route& route : routes_) {
    for (MessageList* list : {&route.unsent, &route.announced, &route.streaming}) {
      while (MessageOperation* const send = list->PopFront())
        End(*send, ended);
    }
  }
}

}  // namespace weft
