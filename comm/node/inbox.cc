// Receives are matched in the order of issue on both sides, and a ring can be read from its front only, while a receive
// may want what lies behind. So a record that nobody wants yet is either left, which keeps the sender waiting, or put
// aside, which costs memory of this rank: it is put aside while somebody waits for what is behind it, up to a bound.
// Whatever a peer has written is checked before it is believed, as the peer may be broken, and may be writing still.
#include "comm/node/inbox.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

#include "base/log.h"
#include "base/status.h"
#include "comm/kernels/dtype.h"
#include "comm/node/heap.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Copied from a peer's buffer at once, so that an abort is seen soon and other messages move too.
constexpr size_t kSliceBytes = 512 << 10;
// What a message put aside costs besides its payload, about.
constexpr size_t kAsideBytes = 128;

size_t PayloadBytes(const MessageHeader& header) {
  if (header.kind != RecordKind::kEager) return 0;
  return header.count * DtypeSize(static_cast<weft_dtype_t>(header.dtype));
}

char* Out(const MessageOperation& recv) {
  return static_cast<char*>(recv.message().out);
}

}  // namespace

absl::Status Inbox::Corrupt(int source, std::string_view what) const {
  return MakeError(WEFT_CORRUPT, {.rank = source},
                   fmt::format("rank {} {}", state_.GroupRank(source), what));
}

void Inbox::Post(MessageOperation& recv) {
  posted_.PushBack(recv);
  ++(recv.message().peer == WEFT_ANY_SOURCE ? wanted_from_any_ : At(recv.message().peer).wanted);
}

void Inbox::Unpost(MessageOperation& recv) {
  posted_.Remove(recv);
  --(recv.message().peer == WEFT_ANY_SOURCE ? wanted_from_any_ : At(recv.message().peer).wanted);
}

// The reader stays closed as long as the source has sent nothing.
absl::Status Inbox::Open(int source) {
  const uint64_t word =
      state_.segment.messages(state_.rank).inbox[source].load(std::memory_order_acquire);
  if (word == 0) return absl::OkStatus();
  NodePeer* const peer = state_.peers[static_cast<size_t>(source)].get();
  char* const place =
      (word - 1) % Heap::kAlignment == 0 ? peer->At(word - 1, sizeof(Channel)) : nullptr;
  if (place == nullptr) return Corrupt(source, "announced a channel outside its heap");
  At(source).reader = ChannelReader(reinterpret_cast<Channel*>(place), peer);
  return absl::OkStatus();
}

absl::Status Inbox::Add(MessageOperation& recv, MessageList* ended) {
  ++pending_;
  if (unexpected_bytes_ > 0) {
    WEFT_RETURN_IF_ERROR(MatchUnexpected(recv, ended));
    if (recv.source >= 0) return absl::OkStatus();
  }
  Post(recv);
  bool moved = false;
  if (recv.message().peer != WEFT_ANY_SOURCE) return Scan(recv.message().peer, ended, &moved);
  for (int i = 0; i < state_.size && recv.source < 0; ++i) {
    WEFT_RETURN_IF_ERROR(Scan((next_any_ + i) % state_.size, ended, &moved));
  }
  return absl::OkStatus();
}

absl::Status Inbox::MatchUnexpected(MessageOperation& recv, MessageList* ended) {
  const bool any = recv.message().peer == WEFT_ANY_SOURCE;
  for (int i = 0; i < (any ? state_.size : 1); ++i) {
    const int source = any ? (next_any_ + i) % state_.size : recv.message().peer;
    auto& aside = At(source).unexpected;
    const auto found = std::find_if(aside.begin(), aside.end(), [&](const Unexpected& message) {
      return AsksFor(recv.message(), source, message.header.tag);
    });
    if (found == aside.end()) continue;
    if (recv.message().is_probe) {
      EndProbe(recv, source, found->header, ended);
      return absl::OkStatus();
    }
    Unexpected message = std::move(*found);
    aside.erase(found);
    unexpected_bytes_ -= kAsideBytes + PayloadBytes(message.header);
    return Match(recv, source, message.header,
                 reinterpret_cast<const char*>(message.payload.data()), ended);
  }
  return absl::OkStatus();
}

// The first posted receive that asks for the message; probes posted before it have seen the message, and end.
MessageOperation* Inbox::FindPosted(int source, const MessageHeader& header, MessageList* ended) {
  for (MessageOperation *at = posted_.front(), *next = nullptr; at != nullptr; at = next) {
    next = at->next();
    if (!AsksFor(at->message(), source, header.tag)) continue;
    if (!at->message().is_probe) return at;
    Unpost(*at);
    EndProbe(*at, source, header, ended);
  }
  return nullptr;
}

// `probe` is in no list.
void Inbox::EndProbe(MessageOperation& probe, int source, const MessageHeader& header,
                     MessageList* ended) {
  probe.source = source;
  probe.facts = {
      .tag = header.tag, .count = header.count, .dtype = static_cast<weft_dtype_t>(header.dtype)};
  MessageRing::SetCourse(probe.recorded, 0, source);
  End(probe, ended);
}

void Inbox::Withdraw(MessageOperation& probe) {
  Unpost(probe);
  --pending_;
}

absl::StatusOr<bool> Inbox::PutAside(int source, const MessageHeader& header, const char* payload) {
  const size_t bytes = PayloadBytes(header);
  if (unexpected_bytes_ + kAsideBytes + bytes > kUnexpectedBytesMax) return false;
  Unexpected message{header, {}};
  if (bytes > 0) {
    WEFT_ASSIGN_OR_RETURN(message.payload,
                          PrivateMemory::Allocate(bytes, 64, "a message that nobody asked for"));
    std::memcpy(message.payload.data(), payload, bytes);
  }
  try {
    At(source).unexpected.push_back(std::move(message));
  } catch (const std::bad_alloc&) {
    return MakeError(WEFT_OUT_OF_MEMORY, "keeping a message that nobody asked for: out of memory");
  }
  unexpected_bytes_ += kAsideBytes + bytes;
  return true;
}

// One pass over what the ring holds now, while somebody wants something of it.
absl::Status Inbox::Scan(int source, MessageList* ended, bool* moved) {
  if (!Wanted(source)) return absl::OkStatus();
  ChannelReader& reader = At(source).reader;
  if (!reader.open()) {
    WEFT_RETURN_IF_ERROR(Open(source));
    if (!reader.open()) return absl::OkStatus();
  }
  if (!reader.Refresh()) return Corrupt(source, "counts its messages wrongly");
  absl::Status status;
  while (status.ok() && Wanted(source)) {
    MessageHeader header;
    const char* payload = nullptr;
    const ChannelReader::Found found = reader.Look(&header, &payload);
    if (found == ChannelReader::Found::kNone) break;
    if (found == ChannelReader::Found::kCorrupt) {
      return Corrupt(source, "has written a message that is none");
    }
    if (header.epoch != state_.epoch) {
      return Corrupt(source, fmt::format("is of membership epoch {}, this rank of {}", header.epoch,
                                         state_.epoch));
    }
    if (MessageOperation* const recv = FindPosted(source, header, ended)) {
      Unpost(*recv);
      status = Match(*recv, source, header, payload, ended);
    } else if (!Wanted(source)) {
      *moved = true;  // a probe has seen it, and nobody waits for what is behind it
      break;
    } else {
      const absl::StatusOr<bool> aside = PutAside(source, header, payload);
      status = aside.status();
      if (!aside.ok() || !*aside) break;
    }
    reader.Consume(header);
    *moved = true;
  }
  if (reader.PublishConsumed()) state_.Notify(source);
  return status;
}

// `recv` is in no list; `payload` is an eager message's.
absl::Status Inbox::Match(MessageOperation& recv, int source, const MessageHeader& header,
                          const char* payload, MessageList* ended) {
  const Message& message = recv.message();
  const auto dtype = static_cast<weft_dtype_t>(header.dtype);
  recv.source = source;
  if (message.info != nullptr)
    recv.facts = {.tag = header.tag, .count = message.count, .dtype = message.dtype};
  if (message.peer == WEFT_ANY_SOURCE) {
    next_any_ = (source + 1) % state_.size;
    MessageRing::SetCourse(recv.recorded, 0, source);
  }
  if (header.count != message.count || dtype != message.dtype) {
    At(source).matched.PushBack(recv);  // ends with all others
    return MakeError(
        WEFT_MISMATCH, {.group = group_, .operation = "recv"},
        fmt::format("recv on group {}: rank {} sent {} with tag {}, rank {} expects {}; both sides "
                    "must name the same count and type",
                    group_, state_.GroupRank(source), ElementsText(header.count, dtype), header.tag,
                    state_.GroupRank(state_.rank), ElementsText(message.count, message.dtype)));
  }
  if (header.kind == RecordKind::kEager) {
    if (recv.bytes() > 0) std::memcpy(message.out, payload, recv.bytes());
    End(recv, ended);
    return absl::OkStatus();
  }
  MessageRing::SetState(recv.recorded, MessageState::kMatched);
  recv.rts = header.rts;
  if (header.kind == RecordKind::kHeapRts) {
    absl::StatusOr<char*> place = At(source).reader.Find(header.place, recv.bytes());
    if (place.ok()) {
      recv.place = *place;
    } else {  // the sender has ended, or this process may not map any more; the former is found while it is waited for
      LogInfo("recv on group ", group_, ": a message of rank ", source,
              " is streamed: ", place.status().message());
    }
  } else if (header.kind == RecordKind::kReadableRts && state_.single_copy &&
             state_.peers[static_cast<size_t>(source)]->readable()) {
    recv.address = header.place;
  }
  At(source).matched.PushBack(recv);
  return absl::OkStatus();
}

void Inbox::End(MessageOperation& recv, MessageList* ended) {
  --pending_;
  ended->PushBack(recv);
}

// `peer_access` is raised before the abort word is read, and an aborting sender writes the abort word
// before it reads `peer_access`: either this rank touches nothing, or the sender waits for it.
bool Inbox::CopySlice(MessageOperation& recv) {
  MessageControl& self = state_.segment.messages(state_.rank);
  self.peer_access.store(1, std::memory_order_seq_cst);
  const bool aborted = state_.aborted();
  if (!aborted) {
    const size_t slice = std::min(kSliceBytes, recv.bytes() - recv.moved);
    std::memcpy(Out(recv) + recv.moved, recv.place + recv.moved, slice);
    recv.moved += slice;
  }
  self.peer_access.store(0, std::memory_order_seq_cst);
  NotifyAll(self.waiters);
  return !aborted;
}

// Private memory is only ever read, so the sender of an aborted message does not wait for this
// rank, and may have changed its buffer: hence the look for an abort afterwards. What cannot be
// read (the system forbids it by now, the memory is a device's, the sender is dead) is streamed
// from its beginning; that a sender is dead others find.
bool Inbox::ReadSlice(int source, MessageOperation& recv) {
  const NodePeer& sender = *state_.peers[static_cast<size_t>(source)];
  const size_t slice = std::min(kSliceBytes, recv.bytes() - recv.moved);
  const absl::Status read = sender.Read(recv.address + recv.moved, Out(recv) + recv.moved, slice);
  if (state_.aborted()) return false;
  if (read.ok()) {
    recv.moved += slice;
    return true;
  }
  recv.address = 0;
  recv.moved = 0;
  if (!At(source).unreadable) {
    LogInfo("recv on group ", group_, ": a message of rank ", source,
            " is streamed: ", read.message());
  }
  At(source).unreadable = true;
  return true;
}

// Copies what is mapped here, reads what can be read, accepts the rest.
absl::Status Inbox::Answer(int source, MessageList* ended, bool* moved) {
  Source& from = At(source);
  for (MessageOperation *recv = from.matched.front(), *next = nullptr; recv != nullptr;
       recv = next) {
    next = recv->next();
    if (recv->reads_itself() && recv->moved < recv->bytes()) {
      const bool goes_on = recv->place != nullptr ? CopySlice(*recv) : ReadSlice(source, *recv);
      if (!goes_on) return absl::OkStatus();
      *moved = true;
    }
    const bool ready = !recv->reads_itself() || recv->moved == recv->bytes();
    if (!ready || !from.reader.CanReply()) continue;
    from.matched.Remove(*recv);
    from.reader.PublishReply(recv->rts, recv->reads_itself() ? Reply::kFin : Reply::kCts);
    state_.Notify(source);
    *moved = true;
    if (recv->reads_itself()) {
      End(*recv, ended);
    } else {
      from.streaming.PushBack(*recv);
    }
  }
  return absl::OkStatus();
}

absl::Status Inbox::Drain(int source, MessageList* ended, bool* moved) {
  Source& from = At(source);
  for (uint32_t chunks = 0; chunks < kStreamHalves && !from.streaming.empty(); ++chunks) {
    const char* chunk = nullptr;
    const ChannelReader::Found found = from.reader.NextChunk(&chunk);
    if (found == ChannelReader::Found::kCorrupt) return Corrupt(source, "stages wrongly");
    if (found == ChannelReader::Found::kNone) break;
    MessageOperation& recv = *from.streaming.front();
    const size_t bytes = std::min(kStreamHalfBytes, recv.bytes() - recv.moved);
    std::memcpy(Out(recv) + recv.moved, chunk, bytes);
    recv.moved += bytes;
    from.reader.PublishDrained();
    state_.Notify(source);
    *moved = true;
    if (recv.moved < recv.bytes()) continue;
    from.streaming.Remove(recv);
    End(recv, ended);
  }
  return absl::OkStatus();
}

absl::Status Inbox::Step(MessageList* ended, bool* moved) {
  if (idle()) return absl::OkStatus();
  for (int source = 0; source < state_.size; ++source) {
    WEFT_RETURN_IF_ERROR(Scan(source, ended, moved));
    Source& from = At(source);
    if (!from.matched.empty()) WEFT_RETURN_IF_ERROR(Answer(source, ended, moved));
    if (!from.streaming.empty()) WEFT_RETURN_IF_ERROR(Drain(source, ended, moved));
  }
  return absl::OkStatus();
}

void Inbox::TakeAll(MessageList* ended) {
  while (MessageOperation* const recv = posted_.front()) {
    Unpost(*recv);
    End(*recv, ended);
  }
  for (Source& source : sources_) {
    for (MessageList* list : {&source.matched, &source.streaming}) {
      while (MessageOperation* const recv = list->PopFront())
        End(*recv, ended);
    }
  }
}

}  // namespace weft
