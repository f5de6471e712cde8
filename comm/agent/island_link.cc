// The handshake is the store's, byte for byte, but for what stands in the client's fields: the island in place of the rank, the
// epoch in place of the size. Its keys come from a secret that only links use, so that no side of it can be played to a store.
#include "comm/agent/island_link.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/keyed_hash.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kLinkReadBytes = 16'384;
// An idle link keeps no more than this of each buffer: there are many, and they are idle nearly always.
constexpr size_t kKeptBytes = 256;
// A system asks for an idle connection's other end each second. One that was silent for that long is not: what asks may itself be late.
constexpr int64_t kMachineAskedNs = 3'000'000'000;
// The longer a process is silent, the less often it is told that this one is there: what it does not read stands in its machine's memory.
constexpr int64_t kBeatsPerSilence = 8;
constexpr int64_t kLookAtLeastNs = 10'000'000;

void ShrinkIfEmpty(std::string* buffer) {
  if (buffer->empty() && buffer->capacity() > kKeptBytes) buffer->shrink_to_fit();
}

// How long a machine may not have answered whose process has said nothing for `silent_ns`. When it is cut off both stop at one moment, so it is
// missed after `least_ns`. While its process is stopped for long its system is asked each second, and by few beats.
int64_t MachinePatienceNs(int64_t silent_ns, int64_t least_ns) {
  return std::clamp(silent_ns / 2, least_ns, std::max(least_ns, kMachineAskedNs));
}

std::string LinkSecret(std::string_view job_secret) {
  return DeriveKey(job_secret, "", "weft islands 1");
}

}  // namespace

IslandLink::IslandLink(const Seams& seams, IslandLinkSettings settings, bool dialed)
    : seams_(seams),
      settings_(std::move(settings)),
      dialed_(dialed),
      state_(dialed ? State::kConnecting : State::kHandshake),
      epoch_(settings_.self.epoch),
      deadline_ns_(seams.clock->NowNs() + settings_.attempt_ns),
      heard_ns_(seams.clock->NowNs()),
      said_ns_(heard_ns_) {}

IslandLink::~IslandLink() {
  if (handle_ >= 0) seams_.net->Close(handle_);
}

std::unique_ptr<IslandLink> IslandLink::Dial(const Seams& seams, IslandLinkSettings settings,
                                             const Endpoint& endpoint) {
  std::unique_ptr<IslandLink> link(new IslandLink(seams, std::move(settings), true));
  const absl::StatusOr<int> handle = seams.net->Connect(endpoint);
  if (handle.ok()) {
    link->Hold(*handle);
  } else {
    link->Fail(handle.status());
  }
  return link;
}

std::unique_ptr<IslandLink> IslandLink::Accept(const Seams& seams, IslandLinkSettings settings,
                                               int handle) {
  std::unique_ptr<IslandLink> link(new IslandLink(seams, std::move(settings), false));
  link->Hold(handle);
  link->handshake_ =
      LinkHandshake::Accepted(LinkSecret(link->settings_.secret), *link->seams_.random);
  link->ShakeHands();
  link->Flush();
  return link;
}

// The link looks after itself by beats; but what it has sent last outlives it in the kernel, which sends it again and again to a machine
// that is gone. Any time below silence_ns would be shorter than what a process may be stopped for.
void IslandLink::Hold(int handle) {
  handle_ = handle;
  seams_.net->KeepFromChildren(handle);
  if (settings_.unanswered_ns > 0) seams_.net->EndUnanswered(handle, settings_.unanswered_ns);
}

PollItem IslandLink::Item() const {
  const bool connecting = state_ == State::kConnecting;
  return {.handle = handle_, .want_read = !connecting, .want_write = connecting || !out_.empty()};
}

int64_t IslandLink::NextWakeNs() const {
  if (failed()) return std::numeric_limits<int64_t>::max();
  if (!ready()) return deadline_ns_;
  return std::min(LookForMachineNs(), NextBeatNs());
}

int64_t IslandLink::LookForMachineNs() const {
  return std::max(heard_ns_ + settings_.silence_ns, look_again_ns_);
}

int64_t IslandLink::NextBeatNs() const {
  if (finished_) return std::numeric_limits<int64_t>::max();
  return said_ns_ + std::max(settings_.beat_ns, (said_ns_ - heard_ns_) / kBeatsPerSilence);
}

int64_t IslandLink::answered_ns() const {
  if (failed() || state_ == State::kConnecting) return 0;
  const int64_t unanswered_ns = seams_.net->UnansweredNs(handle_);
  return unanswered_ns >= seams_.clock->NowNs() ? 0 : seams_.clock->AgoNs(unanswered_ns);
}

bool IslandLink::MachineAnswers(int64_t heard_ns, int64_t least_ns) const {
  const int64_t now_ns = seams_.clock->NowNs();
  const int64_t answered_at_ns = answered_ns();
  return answered_at_ns > 0 &&
         now_ns < answered_at_ns + MachinePatienceNs(now_ns - heard_ns, least_ns);
}

void IslandLink::Advance(bool readable, bool writable) {
  if (failed()) return;
  const bool connects = state_ == State::kConnecting;
  if (connects && writable) FinishConnect();
  // What came meanwhile was not polled for.
  if (readable || connects) Receive();
  Flush();
  const int64_t now_ns = seams_.clock->NowNs();
  if (!ready() && !failed() && now_ns >= deadline_ns_) {
    Fail(MakeError(WEFT_TIMEOUT, "it does not answer"));
  }
  if (!ready()) return;
  if (now_ns >= LookForMachineNs()) {
    const int64_t until_ns =
        answered_ns() + MachinePatienceNs(now_ns - heard_ns_, settings_.silence_ns);
    if (now_ns >= until_ns) {
      Fail(MakeError(WEFT_TIMEOUT, "it has fallen silent"));
      return;
    }
    look_again_ns_ = std::max(until_ns, now_ns + kLookAtLeastNs);
  }
  if (now_ns >= NextBeatNs()) {
    Send(IslandFrame::kBeat, "");
    Flush();
  }
}

void IslandLink::Send(IslandFrame type, std::string_view body) {
  if (!sealer_ || failed() || finished_) return;
  if (out_.size() + body.size() > kUnsentBytesMax) {
    Fail(MakeError(WEFT_UNREACHABLE, "it does not read what is sent to it"));
    return;
  }
  said_ns_ = seams_.clock->NowNs();
  sealer_->Seal({.type = static_cast<FrameType>(type), .body = std::string(body)}, &out_);
}

void IslandLink::FinishSending() {
  if (finished_ || failed()) return;
  finished_ = true;
  seams_.net->FinishWriting(handle_);
}

void IslandLink::Flush() {
  while (state_ != State::kConnecting && !failed() && !out_.empty()) {
    const IoResult result = seams_.net->Write(handle_, out_.data(), out_.size());
    // A broken connection shows when it is read; what is left to read there may be worth it.
    if (result.state != IoState::kDone) return;
    out_.erase(0, result.bytes);
  }
  ShrinkIfEmpty(&out_);
}

std::optional<Frame> IslandLink::Next() {
  while (ready()) {
    std::optional<Frame> frame = Open();
    // What came before the end counts.
    if (!frame && !failed() && !ending_.ok()) Fail(ending_);
    if (!frame) return std::nullopt;
    if (frame->type != static_cast<FrameType>(IslandFrame::kBeat)) return frame;
  }
  return std::nullopt;
}

void IslandLink::Fail(absl::Status why) {
  if (failed()) return;
  state_ = State::kFailed;
  failure_ = std::move(why);
  in_.clear();
  out_.clear();
  if (handle_ >= 0) seams_.net->Close(std::exchange(handle_, -1));
}

// --- Handshake -----------------------------------------------------------------------------------

void IslandLink::FinishConnect() {
  const absl::Status finished = seams_.net->FinishConnect(handle_);
  if (!finished.ok()) {
    Fail(finished);
    return;
  }
  handshake_ = LinkHandshake::Dialled(
      LinkSecret(settings_.secret),
      {.rank = settings_.self.island, .size = static_cast<int32_t>(epoch_)}, *seams_.random);
  state_ = State::kHandshake;
  // Its process may be stopped.
  deadline_ns_ = std::max(deadline_ns_, seams_.clock->NowNs() + settings_.greet_ns);
}

void IslandLink::ShakeHands() {
  const absl::Status taken = handshake_->Take(&in_);
  out_ += handshake_->TakeOutput();
  if (!taken.ok()) Fail(taken);
  if (failed() || !handshake_->done()) return;
  epoch_ = static_cast<uint32_t>(handshake_->claim().size);
  const SessionKeys& keys = handshake_->keys();
  opener_.emplace(dialed_ ? keys.server_key : keys.client_key, epoch_);
  sealer_.emplace(dialed_ ? keys.client_key : keys.server_key, epoch_);
  handshake_.reset();
  state_ = State::kWho;
  SayWho();
}

void IslandLink::SayWho() {
  Send(IslandFrame::kWho, EncodeWho(settings_.self));
}

void IslandLink::ReadWho() {
  const std::optional<Frame> frame = Open();
  if (!frame) return;
  absl::StatusOr<IslandWho> who = frame->type == static_cast<FrameType>(IslandFrame::kWho)
                                      ? DecodeWho(frame->body)
                                      : MakeError(WEFT_CORRUPT, "it does not say who it is");
  if (!who.ok()) {
    Fail(who.status());
    return;
  }
  peer_ = *who;
  state_ = State::kReady;
}

// --- Bytes ---------------------------------------------------------------------------------------

void IslandLink::Receive() {
  while (state_ != State::kConnecting && !failed() && ending_.ok()) {
    size_t wanted = kLinkReadBytes;
    if (state_ == State::kHandshake) wanted = handshake_->wanted() - in_.size();
    char buffer[kLinkReadBytes];
    const IoResult result = seams_.net->Read(handle_, buffer, wanted);
    if (result.state == IoState::kWouldBlock) return;
    if (result.state != IoState::kDone) {
      ending_ = MakeError(WEFT_UNREACHABLE, result.state == IoState::kClosed
                                                ? "it has closed the connection"
                                                : "the connection broke");
      if (!ready()) Fail(ending_);
      return;
    }
    in_.append(buffer, result.bytes);
    heard_ns_ = seams_.clock->NowNs();
    if (state_ == State::kHandshake) ShakeHands();
    if (state_ == State::kWho) ReadWho();
    // The owner takes what is here before there is more.
    if (ready() && in_.size() >= kLinkReadBytes) return;
  }
}

std::optional<Frame> IslandLink::Open() {
  Frame frame;
  const absl::StatusOr<bool> complete = opener_->Open(&in_, &frame);
  if (!complete.ok()) {
    Fail(complete.status());
    return std::nullopt;
  }
  if (!*complete) {
    ShrinkIfEmpty(&in_);
    return std::nullopt;
  }
  return frame;
}

}  // namespace weft
