// Whatever is issued or offered is matched at once, so nothing that fits waits for the next step.
#include "comm/hierarchy/span_messages.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "comm/kernels/dtype.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Sequence numbers of streams: collectives are below; a message, and that it has come.
constexpr uint64_t kMessageStreams = uint64_t{1} << 63;
constexpr uint64_t kFinStreams = kMessageStreams | uint64_t{1} << 62;

constexpr uint32_t kSignatureOfMessages = 0x6d736700;  // "msg", and the type
// Of messages to oneself that were sent and not received yet.
constexpr size_t kCopiedBytesMax = 1 << 20;

weft_dtype_t DtypeOf(uint32_t signature) {
  return static_cast<weft_dtype_t>(signature ^ kSignatureOfMessages);
}

// 0: it is no message's signature, as of another version of weft.
size_t ElementBytesOf(uint32_t signature) {
  return signature >> 8 == kSignatureOfMessages >> 8 ? DtypeSize(DtypeOf(signature)) : 0;
}

}  // namespace

uint32_t MessageSignature(weft_dtype_t dtype) {
  return kSignatureOfMessages | static_cast<uint32_t>(dtype);
}

std::string ElementsOfSignature(uint32_t signature, uint64_t bytes) {
  if (ElementBytesOf(signature) == 0) return fmt::format("{} bytes", bytes);
  return ElementsText(bytes / ElementBytesOf(signature), DtypeOf(signature));
}

Transfer SpanMessages::Half(const SpanMessage& message, int peer, uint64_t tag,
                            uint64_t number) const {
  const bool is_send = message.message.is_send;
  void* const memory = is_send ? const_cast<void*>(message.message.in) : message.message.out;
  return {.peer = route_.peers[static_cast<size_t>(peer)],
          .stream = {route_.group_id, kMessageStreams | number},
          .tag = tag,
          .signature = MessageSignature(message.message.dtype),
          .is_send = is_send,
          .memory = static_cast<std::byte*>(memory),
          .bytes = message.bytes};
}

Transfer SpanMessages::FinOf(const Transfer& data) {
  return {.peer = data.peer,
          .stream = {data.stream.group_id, kFinStreams | data.stream.sequence},
          .tag = data.tag,
          .signature = kSignatureOfMessages,
          .is_send = !data.is_send};
}

// --- Issuing -------------------------------------------------------------------------------------

void SpanMessages::Issue(SpanMessage* message) {
  under_way_.push_back(message);
  if (!message->message.is_send) {
    IssueReceive(message);
  } else if (message->message.peer == route_.rank) {
    SendToSelf(message);
  } else {
    IssueSend(message);
  }
}

void SpanMessages::IssueSend(SpanMessage* send) {
  Peer& peer = At(send->message.peer);
  send->data = Half(*send, send->message.peer, send->message.tag, ++peer.issued);
  if (peer.posted < kSpanSendsMax) {
    PostSend(send);
  } else {
    peer.waiting.push_back(send);
  }
}

void SpanMessages::PostSend(SpanMessage* send) {
  ++At(send->message.peer).posted;
  if (send->has_fin()) {
    send->fin = FinOf(send->data);
    route_.transport->Post(&send->fin);
  }
  if (route_.traffic != nullptr) route_.traffic->Count(send->message.peer, send->data.bytes);
  route_.transport->Post(&send->data);
}

// (P2)
void SpanMessages::IssueReceive(SpanMessage* receive) {
  const auto found = std::find_if(offers_.begin(), offers_.end(), [&](const Offer& offer) {
    return AsksFor(receive->message, offer.source, offer.tag);
  });
  if (found == offers_.end()) {
    unmatched_.push_back(receive);
    return;
  }
  if (receive->message.is_probe) return EndProbe(receive, *found);
  Offer offer = std::move(*found);
  offers_.erase(found);
  Match(receive, std::move(offer));
}

void SpanMessages::SendToSelf(SpanMessage* send) {
  const bool kept = TakeUp({.source = route_.rank,
                            .tag = send->message.tag,
                            .signature = MessageSignature(send->message.dtype),
                            .bytes = send->bytes,
                            .own = send});
  if (!kept || send->has_fin() || copied_bytes_ + send->bytes > kCopiedBytesMax) return;
  Offer& offer = offers_.back();
  const auto* const in = static_cast<const std::byte*>(send->message.in);
  offer.copied.assign(in, in + send->bytes);
  offer.own = nullptr;
  copied_bytes_ += send->bytes;
  send->done = true;
}

// --- Matching ------------------------------------------------------------------------------------

bool SpanMessages::TakeOffers() {
  if (unmatched_.empty()) return false;
  wanted_.assign(peers_.size(), false);
  for (const SpanMessage* const receive : unmatched_) {
    if (receive->message.peer == WEFT_ANY_SOURCE) {
      wanted_.assign(peers_.size(), true);
      break;
    }
    wanted_[static_cast<size_t>(receive->message.peer)] = true;
  }
  bool any = false;
  first_asked_ = (first_asked_ + 1) % size();
  for (int i = 0; i < size(); ++i) {
    const int source = (first_asked_ + i) % size();
    if (source != route_.rank && wanted_[static_cast<size_t>(source)]) any |= TakeOffersOf(source);
  }
  return any;
}

// (P1)
bool SpanMessages::TakeOffersOf(int source) {
  Peer& peer = At(source);
  bool any = false;
  while (const std::optional<OfferedMessage> offered =
             route_.transport->Offered(route_.peers[static_cast<size_t>(source)],
                                       {route_.group_id, kMessageStreams | (peer.offered + 1)})) {
    TakeUp({.source = source,
            .tag = offered->tag,
            .signature = offered->signature,
            .bytes = offered->bytes,
            .number = ++peer.offered});
    any = true;
  }
  return any;
}

// An offer that has become known. True if nobody receives it yet; then it is the last of the offers.
bool SpanMessages::TakeUp(Offer offer) {
  for (auto at = unmatched_.begin(); at != unmatched_.end();) {
    SpanMessage* const receive = *at;
    if (!AsksFor(receive->message, offer.source, offer.tag)) {
      ++at;
      continue;
    }
    at = unmatched_.erase(at);
    if (!receive->message.is_probe) {
      Match(receive, std::move(offer));
      return false;
    }
    EndProbe(receive, offer);
  }
  offers_.push_back(std::move(offer));
  return true;
}

void SpanMessages::EndProbe(SpanMessage* probe, const Offer& offer) {
  probe->source = offer.source;
  const size_t element_bytes = ElementBytesOf(offer.signature);
  const bool known = element_bytes != 0;
  probe->facts = {.tag = offer.tag,
                  .count = known ? offer.bytes / element_bytes : offer.bytes,
                  .dtype = known ? DtypeOf(offer.signature) : WEFT_UINT8};
  probe->done = true;
}

void SpanMessages::Withdraw(const SpanMessage* probe) {
  std::erase(unmatched_, probe);
  std::erase(under_way_, probe);
}

void SpanMessages::Match(SpanMessage* receive, Offer offer) {
  receive->source = offer.source;
  receive->facts = {
      .tag = offer.tag, .count = receive->message.count, .dtype = receive->message.dtype};
  if (offer.source == route_.rank) return MatchOwn(receive, std::move(offer));
  receive->data = Half(*receive, offer.source, offer.tag, offer.number);
  route_.transport->Post(&receive->data);
}

void SpanMessages::MatchOwn(SpanMessage* receive, Offer offer) {
  SpanMessage* const send = offer.own;
  copied_bytes_ -= offer.copied.size();
  const size_t bytes = offer.bytes;
  receive->data = Half(*receive, route_.rank, offer.tag, 0);
  if (bytes != receive->bytes || offer.signature != receive->data.signature) {
    receive->data.other_signature = offer.signature;
    receive->data.other_bytes = bytes;
    if (failed_ == nullptr) failed_ = receive;
    return;
  }
  const void* const from = send != nullptr ? send->message.in : offer.copied.data();
  if (bytes > 0) std::memcpy(receive->message.out, from, bytes);
  receive->done = true;
  if (send != nullptr) send->done = true;
}

// --- Moving --------------------------------------------------------------------------------------

bool SpanMessages::Step() {
  bool moved = TakeOffers();
  for (size_t i = 0; i < under_way_.size(); ++i)
    moved |= Advance(under_way_[i]);
  std::erase_if(under_way_, [](const SpanMessage* message) { return message->done; });
  return moved;
}

// True if it went on.
bool SpanMessages::Advance(SpanMessage* message) {
  if (message->done) return true;
  const TransferState state = message->data.state();
  if (state == TransferState::kMismatch && failed_ == nullptr) failed_ = message;
  if (state != TransferState::kDone) return false;
  bool moved = false;
  if (message->has_fin()) {
    if (message->fin.state() == TransferState::kIdle) {
      message->fin = FinOf(message->data);
      route_.transport->Post(&message->fin);
      moved = true;
    }
    if (message->fin.state() != TransferState::kDone) return moved;
  }
  message->done = true;
  if (!message->message.is_send) return true;
  Peer& peer = At(message->message.peer);
  --peer.posted;
  if (!peer.waiting.empty()) {
    SpanMessage* const next = peer.waiting.front();
    peer.waiting.pop_front();
    PostSend(next);
  }
  return true;
}

const SpanMessage* SpanMessages::Oldest() const {
  const auto oldest = std::find_if(under_way_.begin(), under_way_.end(),
                                   [](const SpanMessage* message) { return !message->done; });
  return oldest != under_way_.end() ? *oldest : nullptr;
}

const SpanMessage* SpanMessages::Late(int64_t now_ns) const {
  const auto late = std::find_if(
      under_way_.begin(), under_way_.end(),
      [&](const SpanMessage* message) { return !message->done && now_ns >= message->deadline_ns; });
  return late != under_way_.end() ? *late : nullptr;
}

const SpanMessage* SpanMessages::Awaiting(int rank) const {
  const auto awaiting = std::find_if(
      under_way_.begin(), under_way_.end(),
      [&](const SpanMessage* message) { return !message->done && message->awaited() == rank; });
  return awaiting != under_way_.end() ? *awaiting : nullptr;
}

void SpanMessages::GiveUpAll() {
  under_way_.clear();
  unmatched_.clear();
  offers_.clear();
  copied_bytes_ = 0;
  failed_ = nullptr;
  for (Peer& peer : peers_)
    peer.waiting.clear();
}

}  // namespace weft
