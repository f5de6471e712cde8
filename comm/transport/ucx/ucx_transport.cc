// A callback of UCX's only takes note: lines are made and connected when the transport is moved.
#include "comm/transport/ucx/ucx_transport.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/new_fd.h"
#include "base/status.h"

namespace weft {
namespace {

constexpr int64_t kLeaveNs = 1'000'000'000;
constexpr int64_t kLeaveNapNs = 100'000;
// For the word of a peer that is leaving as well, or still moves: one that does neither has had all that it waits for.
constexpr int64_t kByeNs = 100'000'000;
// UCX's descriptor may never rest (its issue 7864, after a connection was closed). It is left out then, as sleeps are bounded anyway.
constexpr int64_t kShortSleepNs = 100'000;
constexpr int kRestlessMax = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<UcxTransport>> UcxTransport::Make(const Seams& seams,
                                                                 std::unique_ptr<UcxPort> port,
                                                                 UcxSettings settings) {
  UniqueFd ready = MakeEvent(1);
  if (!ready.valid()) return SystemError(errno, "could not make a descriptor for UCX");
  return std::unique_ptr<UcxTransport>(
      new UcxTransport(seams, std::move(port), std::move(settings), std::move(ready)));
}

UcxTransport::UcxTransport(const Seams& seams, std::unique_ptr<UcxPort> port, UcxSettings settings,
                           UniqueFd ready)
    : seams_(seams),
      settings_(std::move(settings)),
      ready_(std::move(ready)),
      port_(std::move(port)),
      peers_(settings_.addresses.size()) {
  port_->SetListener(this);
}

UcxTransport::~UcxTransport() {
  MutexLock lock(mutex_);
  // Of a forked child the connections are the parent's to use.
  if (port_->here()) Part();
  port_->SetListener(nullptr);
}

// --- Peers ---------------------------------------------------------------------------------------

UcxLine& UcxTransport::LineOf(int number) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  if (peer.line == nullptr) {
    peer.line = std::make_unique<UcxLine>(
        *port_, seams_,
        UcxLine::Ends{.self = settings_.self, .peer = number, .secret = settings_.secret});
  }
  return *peer.line;
}

MessageLink& UcxTransport::LinkOf(int number) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  if (peer.link == nullptr) {
    peer.link = std::make_unique<MessageLink>(number);
    UcxLine& line = LineOf(number);
    absl::Status connected = line.Connect(settings_.addresses[static_cast<size_t>(number)]);
    if (connected.ok()) {
      peer.link->Attach(line.MakeStream());
    } else {
      peer.reported = true;
      events_.push_back({.peer = number, .why = std::move(connected)});
    }
  }
  return *peer.link;
}

void UcxTransport::Heard(std::string_view bytes) {
  UcxHead head;
  if (bytes.size() < sizeof(head)) return;
  std::memcpy(&head, bytes.data(), sizeof(head));
  if (head.from < 0 || static_cast<size_t>(head.from) >= peers_.size() ||
      head.from == settings_.self) {
    return;
  }
  LineOf(head.from).Hear(head, bytes.substr(sizeof(head)));
}

void UcxTransport::Lost(uint64_t number, std::string_view why) {
  LineOf(static_cast<int>(number)).Lose(why);
}

// --- Transport -----------------------------------------------------------------------------------

void UcxTransport::Post(Transfer* transfer) {
  MutexLock lock(mutex_);
  LinkOf(transfer->peer).Post(transfer);
}

bool UcxTransport::Advance() {
  MutexLock lock(mutex_);
  return Move();
}

bool UcxTransport::Move() {
  bool moved = port_->Progress();
  for (size_t number = 0; number < peers_.size(); ++number) {
    Peer& peer = peers_[number];
    if (peer.line == nullptr || peer.reported) continue;
    MessageLink& link = LinkOf(static_cast<int>(number));
    moved |= link.Advance();
    peer.line->AnswerBye();
    if (link.failure().ok() || peer.reported) continue;
    peer.reported = true;
    events_.push_back({.peer = static_cast<int>(number), .why = link.failure()});
  }
  moved_ |= moved;
  return moved;
}

void UcxTransport::CloseGroup(uint64_t group_id) {
  MutexLock lock(mutex_);
  for (const Peer& peer : peers_) {
    if (peer.link != nullptr) peer.link->CloseGroup(group_id);
  }
}

std::optional<OfferedMessage> UcxTransport::Offered(int peer, const StreamId& stream) {
  MutexLock lock(mutex_);
  return LinkOf(peer).Offered(stream);
}

std::vector<LinkEvent> UcxTransport::TakeEvents() {
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void UcxTransport::AppendPollItems(std::vector<PollItem>* items) {
  MutexLock lock(mutex_);
  bool now = false;
  for (const Peer& peer : peers_) {
    if (peer.line == nullptr || peer.reported) continue;
    now = now || peer.link == nullptr || peer.link->HasUnread() ||
          peer.line->Ready(peer.link->WantsToWrite());
  }
  const bool armed = port_->module().arm(port_->worker()) == UcxAnswer::kDone;
  if (IsRestless()) return;
  if (now || !armed) items->push_back({.handle = ready_.get(), .want_read = true});
  items->push_back(
      {.handle = port_->module().event_descriptor(port_->worker()), .want_read = true});
}

// Sleeps have ended at once, again and again, and nothing had come; nor has it since.
bool UcxTransport::IsRestless() {
  const int64_t now_ns = seams_.clock->NowNs();
  const bool at_once = now_ns - slept_ns_ < kShortSleepNs;
  slept_ns_ = now_ns;
  if (std::exchange(moved_, false)) {
    restless_ = 0;
  } else if (restless_ <= kRestlessMax) {
    restless_ = at_once ? restless_ + 1 : 0;
  }
  return restless_ > kRestlessMax;
}

// --- The end -------------------------------------------------------------------------------------

void UcxTransport::Turn() {
  if (!Move()) (void)seams_.net->Poll({}, seams_.clock->NowNs() + kLeaveNapNs);
}

bool UcxTransport::AllQuiet() {
  bool all = true;
  for (const Peer& peer : peers_)
    all = all && (peer.link == nullptr || peer.link->Quiet());
  return all;
}

bool UcxTransport::AllParted() {
  bool all = true;
  for (const Peer& peer : peers_)
    all = all && (peer.line == nullptr || peer.line->PartedWell());
  return all;
}

// UCX has sent all when the kernel or the adapter has it; that it gets there the peer says, as what is unread when a connection is closed may
// take back what was sent.
void UcxTransport::Part() {
  const int64_t until_ns = seams_.clock->NowNs() + kLeaveNs;
  while (!AllQuiet() && seams_.clock->NowNs() < until_ns)
    Turn();
  for (const Peer& peer : peers_)
    if (peer.line != nullptr) peer.line->SayBye();
  const int64_t parted_by_ns = std::min(until_ns, seams_.clock->NowNs() + kByeNs);
  while (!AllParted() && seams_.clock->NowNs() < parted_by_ns)
    Turn();
  for (Peer& peer : peers_) {
    peer.link.reset();
    if (peer.line != nullptr) peer.line->Disconnect();
  }
  const int64_t ended_by_ns = seams_.clock->NowNs() + kByeNs;
  while (port_->module().ending(port_->worker()) > 0 && seams_.clock->NowNs() < ended_by_ns) {
    if (!port_->Progress()) (void)seams_.net->Poll({}, seams_.clock->NowNs() + kLeaveNapNs);
  }
}

}  // namespace weft
