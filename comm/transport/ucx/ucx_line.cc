// A part is asked for at both ends in the order in which their headers stand in the bytes, so its number is its tag. One is under way in each
// direction at a time.
#include "comm/transport/ucx/ucx_line.h"

#include <array>
#include <cerrno>
#include <cstring>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kTakeBackNs = 1'000'000'000;
constexpr int64_t kTakeBackNapNs = 100'000;
constexpr size_t kBytesMax = kUcxSaidBytesMax - sizeof(UcxHead);

std::string KeyOf(const UcxLine::Ends& ends, int from, int to) {
  return KeyedHash(DeriveKey(ends.secret, "", "weft ucx 1"), fmt::format("{}>{}", from, to));
}

uint64_t TagOf(std::string_view key) {
  uint64_t tag = 0;
  std::memcpy(&tag, key.data() + UcxHead::kProofBytes, sizeof(tag));
  return tag;
}

}  // namespace

class UcxLine::Stream : public ByteStream {
 public:
  explicit Stream(UcxLine* line) : line_(*line) {}

  ~Stream() override { line_.EndParts(); }

  IoResult Write(std::span<const iovec> pieces) override { return line_.Write(pieces); }

  IoResult Read(std::span<const iovec> pieces) override { return line_.Read(pieces); }

  bool HasUnread() const override { return !line_.inbox_.empty(); }

  bool Sent() const override { return Flushed(); }

  bool Flushed() const override {
    return !line_.connected() || line_.lost_ || line_.ucx_.unsaid(line_.peer_) == 0;
  }

  PlacedParts placed() const override { return kPlaced; }

  IoResult SendPart(const std::byte* memory, size_t bytes) override {
    return line_.SendPart(memory, bytes);
  }

  IoResult ReceivePart(std::byte* memory, size_t bytes) override {
    return line_.ReceivePart(memory, bytes);
  }

  IoResult TakeBackSend() override { return line_.TakeBack(&line_.sending_, /*receive=*/false); }

  IoResult TakeBackReceive() override {
    return line_.TakeBack(&line_.receiving_, /*receive=*/true);
  }

 private:
  UcxLine& line_;
};

UcxLine::UcxLine(UcxPort& port, const Seams& seams, const Ends& ends)
    : port_(port), ucx_(port.module()), seams_(seams), self_(ends.self), number_(ends.peer) {
  const std::string out = KeyOf(ends, self_, number_);
  const std::string in = KeyOf(ends, number_, self_);
  proof_out_ = out.substr(0, UcxHead::kProofBytes);
  proof_in_ = in.substr(0, UcxHead::kProofBytes);
  tag_out_ = TagOf(out);
  tag_in_ = TagOf(in);
}

absl::Status UcxLine::Connect(const std::string& address) {
  absl::StatusOr<UcxPeer*> peer = port_.Connect(address, static_cast<uint64_t>(number_));
  if (!peer.ok()) return peer.status();
  peer_ = *peer;
  return absl::OkStatus();
}

std::unique_ptr<ByteStream> UcxLine::MakeStream() {
  return std::make_unique<Stream>(this);
}

// --- What comes in -------------------------------------------------------------------------------

void UcxLine::Hear(const UcxHead& head, std::string_view bytes) {
  if (!SameProof({head.proof, sizeof(head.proof)}, proof_in_)) return;
  switch (head.kind) {
    case UcxHead::Kind::kBytes:
      return inbox_.Take(head.number, bytes);
    case UcxHead::Kind::kBye:
      inbox_.End(head.number);
      owes_bye_ = true;
      return;
    case UcxHead::Kind::kByeHeard:
      bye_heard_ = true;
      return;
  }
}

void UcxLine::Lose(std::string_view why) {
  lost_ = true;
  if (inbox_.ended()) return;  // it has left
  LogInfo("UCX does not reach rank ", number_, " any more: ", why);
}

bool UcxLine::Ready(bool wants_to_write) {
  Look(&sending_);
  Look(&receiving_);
  const bool ended = sending_.answer != UcxAnswer::kUnderWay;
  return lost_ || inbox_.ended() || inbox_.broken() || owes_bye_ ||
         (receiving_.active && receiving_.answer != UcxAnswer::kUnderWay) ||
         (wants_to_write && connected() && (!sending_.active || ended) &&
          ucx_.unsaid(peer_) < kUcxUnsaidMax);
}

// --- Bytes ---------------------------------------------------------------------------------------

UcxAnswer UcxLine::Say(UcxHead::Kind kind, uint64_t number, std::span<const iovec> pieces) {
  UcxHead head = {.proof = {}, .number = number, .from = self_, .kind = kind, .unused = 0};
  std::memcpy(head.proof, proof_out_.data(), sizeof(head.proof));
  std::array<iovec, 3> all = {iovec{&head, sizeof(head)}};
  size_t count = 1;
  for (const iovec& piece : pieces)
    all[count++] = piece;
  return ucx_.say(peer_, all.data(), count);
}

// What cannot be said any more is no end: the peer may have said something before, which a read gives, and then the end.
IoResult UcxLine::Write(std::span<const iovec> pieces) {
  if (!connected() || lost_) return {};
  std::array<iovec, 2> taken;
  size_t count = 0;
  size_t bytes = 0;
  for (const iovec& piece : pieces) {
    const size_t fits = std::min(piece.iov_len, kBytesMax - bytes);
    if (fits == 0 || count == taken.size()) break;
    taken[count++] = {piece.iov_base, fits};
    bytes += fits;
  }
  const UcxAnswer answer = Say(UcxHead::Kind::kBytes, said_, std::span(taken.data(), count));
  if (answer != UcxAnswer::kDone) return {};  // of one that failed UCX says that it is lost
  ++said_;
  return {.state = IoState::kDone, .bytes = bytes};
}

IoResult UcxLine::Read(std::span<const iovec> pieces) {
  if (!inbox_.empty()) return {.state = IoState::kDone, .bytes = inbox_.Read(pieces)};
  if (inbox_.broken()) return {.state = IoState::kFailed, .error_number = EPROTO};
  if (inbox_.ended() || lost_) return {.state = IoState::kClosed};
  return {};
}

// --- Parts ---------------------------------------------------------------------------------------

void UcxLine::Look(Slot* slot) {
  if (slot->part == nullptr) return;
  slot->answer = ucx_.ask(slot->part);
  if (slot->answer != UcxAnswer::kUnderWay) slot->part = nullptr;
}

// Of one that was looked at.
IoResult UcxLine::ResultOf(Slot* slot, size_t bytes, uint64_t* count) {
  if (slot->answer == UcxAnswer::kUnderWay) return {};
  slot->active = false;
  if (slot->answer == UcxAnswer::kDone) {
    ++*count;
    return {.state = IoState::kDone, .bytes = bytes};
  }
  if (lost_) return {.state = IoState::kClosed};
  return {.state = IoState::kFailed, .error_number = EIO};
}

IoResult UcxLine::SendPart(const std::byte* memory, size_t bytes) {
  if (sending_.active) {
    Look(&sending_);
  } else {
    if (!connected() || lost_) return {};
    sending_.active = true;
    sending_.answer = ucx_.send_part(peer_, tag_out_ + sent_parts_, memory, bytes, &sending_.part);
  }
  return ResultOf(&sending_, bytes, &sent_parts_);
}

IoResult UcxLine::ReceivePart(std::byte* memory, size_t bytes) {
  if (receiving_.active) {
    Look(&receiving_);
  } else {
    if (lost_) return {.state = IoState::kClosed};
    receiving_.active = true;
    receiving_.answer = ucx_.receive_part(port_.worker(), tag_in_ + received_parts_, memory, bytes,
                                          &receiving_.part);
  }
  return ResultOf(&receiving_, bytes, &received_parts_);
}

void UcxLine::Await(Slot* slot, int64_t until_ns) {
  for (Look(slot); slot->answer == UcxAnswer::kUnderWay; Look(slot)) {
    const int64_t now_ns = seams_.clock->NowNs();
    if (now_ns >= until_ns) return;
    if (!port_.Progress()) (void)seams_.net->Poll({}, now_ns + kTakeBackNapNs);
  }
}

// What has been matched cannot be taken back; it ends soon if the peer lives and moves.
IoResult UcxLine::TakeBack(Slot* slot, bool receive) {
  if (!slot->active) return {.state = IoState::kClosed};
  if (receive && slot->part != nullptr) ucx_.cancel(slot->part);
  Await(slot, seams_.clock->NowNs() + kTakeBackNs);
  if (slot->answer == UcxAnswer::kUnderWay) {
    Break();
    return {.state = IoState::kFailed, .error_number = ETIMEDOUT};
  }
  const IoResult result = ResultOf(slot, 0, receive ? &received_parts_ : &sent_parts_);
  return result.state == IoState::kFailed && receive && !lost_ ? IoResult{} : result;
}

// UCX ends all that it has under way with the peer.
void UcxLine::Break() {
  if (connected()) ucx_.disconnect(peer_, /*flush=*/false);
  peer_ = nullptr;
  lost_ = true;
  const int64_t until_ns = seams_.clock->NowNs() + kTakeBackNs;
  for (Slot* const slot : {&sending_, &receiving_}) {
    if (!slot->active) continue;
    if (slot == &receiving_ && slot->part != nullptr) ucx_.cancel(slot->part);
    Await(slot, until_ns);
    if (slot->answer == UcxAnswer::kUnderWay) {
      LogError("UCX has not ended a part with rank ", number_, " though its connection was ended");
    }
    slot->active = false;
  }
}

void UcxLine::EndParts() {
  if (!port_.here()) return;
  for (Slot* const slot : {&sending_, &receiving_})
    if (slot->active) (void)TakeBack(slot, slot == &receiving_);
}

// --- The end -------------------------------------------------------------------------------------

void UcxLine::SayBye() {
  if (!connected() || lost_) return;
  if (Say(UcxHead::Kind::kBye, said_, {}) == UcxAnswer::kDone) ++said_;
}

void UcxLine::AnswerBye() {
  if (!owes_bye_ || !connected() || lost_) return;
  if (Say(UcxHead::Kind::kByeHeard, 0, {}) != UcxAnswer::kUnderWay) owes_bye_ = false;
}

void UcxLine::Disconnect() {
  if (connected()) ucx_.disconnect(peer_, /*flush=*/!PartedWell());
  peer_ = nullptr;
}

}  // namespace weft
