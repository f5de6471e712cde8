// Who dials is fixed by the numbers of the two ranks, so there is one connection for a pair. The other one waits: if it has posted something
// for the dialling rank, that one has posted the other half of it, or will.
#include "comm/transport/tcp_transport.h"

#include <algorithm>
#include <utility>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "comm/transport/socket_stream.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr int64_t kCloseNs = 1'000'000'000;
constexpr int64_t kCloseBrokenNs = 250'000'000;
constexpr int64_t kCloseNapNs = 200'000;
constexpr int64_t kGreetNs = 5'000'000'000;
constexpr int64_t kFirstPauseNs = 2'000'000;
constexpr int64_t kLongestPauseNs = 500'000'000;
// Strangers that are listened to at a time; further ones are let in when these are through.
constexpr size_t kGreetingsMax = 64;
// Whoever spins does not ask for new connections each time, which costs as much as a small message: that often while one is awaited, and else.
constexpr int64_t kAcceptAwaitedNs = 20'000;
constexpr int64_t kAcceptNs = 1'000'000;

std::string DataSecret(std::string_view job_secret) {
  return DeriveKey(job_secret, "", "weft data 2");
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpTransport>> TcpTransport::Make(const Seams& seams,
                                                                 TcpSettings settings) {
  uint64_t id = 0;
  WEFT_RETURN_IF_ERROR(seams.random->Fill(&id, sizeof(id)));
  id |= 1;  // 0 is none
  Endpoint endpoint = settings.endpoints[static_cast<size_t>(settings.self)];
  WEFT_ASSIGN_OR_RETURN(const int listener, seams.net->Listen(&endpoint));
  return std::unique_ptr<TcpTransport>(new TcpTransport(seams, std::move(settings), listener, id));
}

TcpTransport::TcpTransport(const Seams& seams, TcpSettings settings, int listener, uint64_t id)
    : seams_(seams),
      settings_(std::move(settings)),
      listener_(listener),
      id_(id),
      peers_(settings_.endpoints.size()) {}

// Data that the other side has not got would be lost if something of its own had come meanwhile and was not read.
TcpTransport::~TcpTransport() {
  // Of a forked child the connections are the parent's to use.
  if (pid_ == getpid()) Flush();
  seams_.net->Close(listener_);
}

void TcpTransport::Flush() {
  const int64_t until_ns = seams_.clock->NowNs() + kCloseNs;
  AdvanceUntilQuiet(until_ns);
  LeaveAll();
  AdvanceUntilQuiet(until_ns);
}

void TcpTransport::LeaveAll() {
  MutexLock lock(mutex_);
  for (const Peer& peer : peers_) {
    if (peer.link != nullptr) peer.link->Leave();
  }
}

// A link that is broken is waited for a moment only: the other side may be gone.
void TcpTransport::AdvanceUntilQuiet(int64_t until_ns) {
  const int64_t broken_until_ns = until_ns - kCloseNs + kCloseBrokenNs;
  const auto quiet = [&] {
    MutexLock lock(mutex_);
    const bool gives_up = seams_.clock->NowNs() >= broken_until_ns;
    return std::all_of(peers_.begin(), peers_.end(), [gives_up](const Peer& peer) {
      return peer.link == nullptr || peer.link->Quiet() || (gives_up && !peer.link->attached());
    });
  };
  while (!quiet() && seams_.clock->NowNs() < until_ns) {
    if (!TcpTransport::Advance()) (void)seams_.net->Poll({}, seams_.clock->NowNs() + kCloseNapNs);
  }
}

MessageLink& TcpTransport::LinkOf(int number) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  if (peer.link == nullptr) {
    peer.link = std::make_unique<MessageLink>(number, id_);
    const int64_t now_ns = seams_.clock->NowNs();
    peer.give_up_ns = now_ns + settings_.connect_ns;
    if (settings_.self < number) peer.dial_ns = now_ns;
  }
  return *peer.link;
}

void TcpTransport::Post(Transfer* transfer) {
  MutexLock lock(mutex_);
  LinkOf(transfer->peer).Post(transfer);
}

void TcpTransport::CloseGroup(uint64_t group_id) {
  MutexLock lock(mutex_);
  for (const Peer& peer : peers_) {
    if (peer.link != nullptr) peer.link->CloseGroup(group_id);
  }
}

std::optional<uint64_t> TcpTransport::OfferedTag(int peer, const StreamId& stream) {
  MutexLock lock(mutex_);
  return LinkOf(peer).OfferedTag(stream);
}

std::vector<LinkEvent> TcpTransport::TakeEvents() {
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void TcpTransport::AppendPollItems(std::vector<PollItem>* items) {
  MutexLock lock(mutex_);
  accept_ns_ = 0;
  if (greetings_.size() < kGreetingsMax) items->push_back({.handle = listener_, .want_read = true});
  for (const Greeting& greeting : greetings_) {
    items->push_back({.handle = greeting.fd.get(),
                      .want_read = !greeting.connecting,
                      .want_write = greeting.connecting || !greeting.out.empty()});
  }
  for (const Peer& peer : peers_) {
    if (peer.link == nullptr || !peer.link->attached()) continue;
    // A socket that can be written to is ready at once.
    items->push_back({.handle = peer.handle,
                      .want_read = true,
                      .want_write = peer.link->WantsToWrite() || peer.link->HasUnread() ||
                                    peer.link->PrepareToSleep()});
  }
}

bool TcpTransport::Advance() {
  MutexLock lock(mutex_);
  const int64_t now_ns = seams_.clock->NowNs();
  bool moved = now_ns >= accept_ns_ && AcceptAll();
  DialDue(now_ns);
  moved |= AdvanceGreetings();
  bool awaits = false;
  for (size_t number = 0; number < peers_.size(); ++number) {
    Peer& peer = peers_[number];
    if (peer.link == nullptr || peer.reported) continue;
    moved |= peer.link->Advance();
    awaits |= !peer.link->attached() && settings_.self > static_cast<int>(number);
    if (peer.again && peer.link->settled()) {
      peer.again = false;
      LogInfo("the connection with rank ", number, " is there again");
    }
    absl::Status failure = peer.link->failure();
    if (failure.ok() && peer.handle >= 0 && !peer.link->attached())
      Lost(static_cast<int>(number), now_ns);
    const bool dials = settings_.self < static_cast<int>(number) && !peer.connected;
    if (failure.ok() && dials && !peer.link->attached() && now_ns >= peer.give_up_ns) {
      failure = GivenUp(static_cast<int>(number));
    }
    if (failure.ok()) continue;
    peer.reported = true;
    peer.dial_ns = 0;
    events_.push_back({.peer = static_cast<int>(number), .why = std::move(failure)});
  }
  if (now_ns >= accept_ns_) accept_ns_ = now_ns + (awaits ? kAcceptAwaitedNs : kAcceptNs);
  return moved;
}

// The connection has broken: whoever dialled dials again. As long as none brings the link further, the pauses grow and the time is one.
void TcpTransport::Lost(int number, int64_t now_ns) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  peer.handle = -1;
  peer.connected = false;
  if (!peer.again) {
    peer.again = true;
    peer.give_up_ns = now_ns + settings_.again_ns;
    peer.pause_ns = 0;
    LogInfo("the connection with rank ", number,
            " has broken: ", FromAbsl(peer.link->broken().message()));
  }
  if (settings_.self > number) return;
  peer.dial_ns = now_ns + peer.pause_ns;
  peer.pause_ns = std::clamp(2 * peer.pause_ns, kFirstPauseNs, kLongestPauseNs);
}

absl::Status TcpTransport::GivenUp(int number) {
  const Peer& peer = peers_[static_cast<size_t>(number)];
  const std::string address = settings_.endpoints[static_cast<size_t>(number)].ToString();
  if (!peer.again) {
    return MakeError(WEFT_UNREACHABLE, fmt::format("no connection with rank {} at {} could be made",
                                                   number, address));
  }
  return MakeError(WEFT_UNREACHABLE,
                   fmt::format("the connection with rank {} at {} has broken ({}) and could not be "
                               "made again within {} s",
                               number, address, FromAbsl(peer.link->broken().message()),
                               static_cast<double>(settings_.again_ns) * 1e-9));
}

// --- Connections ---------------------------------------------------------------------------------

bool TcpTransport::AcceptAll() {
  bool any = false;
  while (greetings_.size() < kGreetingsMax) {
    const absl::StatusOr<int> handle = seams_.net->Accept(listener_);
    if (!handle.ok() || *handle < 0) return any;  // without descriptors: again at the next time
    any = true;
    greetings_.push_back(
        {.fd = UniqueFd(*handle),
         .deadline_ns = seams_.clock->NowNs() + kGreetNs,
         .handshake = LinkHandshake::Accepted(DataSecret(settings_.secret), *seams_.random)});
  }
  return any;
}

void TcpTransport::DialDue(int64_t now_ns) {
  for (size_t number = 0; number < peers_.size(); ++number) {
    const Peer& peer = peers_[number];
    if (peer.dial_ns == 0 || peer.dialling || now_ns < peer.dial_ns) continue;
    Dial(static_cast<int>(number));
  }
}

void TcpTransport::Dial(int number) {
  const absl::StatusOr<int> handle =
      seams_.net->Connect(settings_.endpoints[static_cast<size_t>(number)]);
  if (!handle.ok()) return DialAgain(number, handle.status());
  peers_[static_cast<size_t>(number)].dialling = true;
  const LinkClaim claim{.rank = settings_.self, .size = static_cast<int32_t>(peers_.size())};
  greetings_.push_back(
      {.fd = UniqueFd(*handle),
       .peer = number,
       .connecting = true,
       .deadline_ns = seams_.clock->NowNs() + kGreetNs,
       .handshake = LinkHandshake::Dialled(DataSecret(settings_.secret), claim, *seams_.random)});
}

void TcpTransport::DialAgain(int number, const absl::Status& why) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  peer.dialling = false;
  peer.connected = false;
  peer.pause_ns = std::clamp(2 * peer.pause_ns, kFirstPauseNs, kLongestPauseNs);
  peer.dial_ns = seams_.clock->NowNs() + peer.pause_ns;
  LogDebug("no connection with rank ", number, " yet: ", FromAbsl(why.message()));
}

bool TcpTransport::AdvanceGreetings() {
  bool moved = false;
  for (size_t i = 0; i < greetings_.size();) {
    Greeting& greeting = greetings_[i];
    absl::Status status = AdvanceGreeting(&greeting, &moved);
    if (status.ok() && seams_.clock->NowNs() >= greeting.deadline_ns) {
      status = MakeError(WEFT_TIMEOUT, "it does not answer");
    }
    const bool through = status.ok() && greeting.handshake.done() && greeting.out.empty();
    if (through) status = Introduce(&greeting);
    if (status.ok() && !through) {
      ++i;
      continue;
    }
    const int peer = greeting.peer;
    greetings_.erase(greetings_.begin() + static_cast<ptrdiff_t>(i));
    if (!status.ok() && peer >= 0) DialAgain(peer, status);
    if (!status.ok() && peer < 0)
      LogDebug("a connection was refused: ", FromAbsl(status.message()));
  }
  return moved;
}

absl::Status TcpTransport::AdvanceGreeting(Greeting* greeting, bool* moved) {
  if (greeting->connecting) {
    PollItem item{.handle = greeting->fd.get(), .want_write = true};
    WEFT_RETURN_IF_ERROR(seams_.net->Poll(std::span(&item, 1), 0));
    if (!item.writable) return absl::OkStatus();
    WEFT_RETURN_IF_ERROR(seams_.net->FinishConnect(greeting->fd.get()));
    greeting->connecting = false;
    greeting->deadline_ns = INT64_MAX;
    peers_[static_cast<size_t>(greeting->peer)].connected = true;
    *moved = true;
  }
  WEFT_RETURN_IF_ERROR(ReadGreeting(greeting, moved));
  while (!greeting->out.empty()) {
    const IoResult written =
        seams_.net->Write(greeting->fd.get(), greeting->out.data(), greeting->out.size());
    if (written.state == IoState::kWouldBlock) break;
    if (written.state != IoState::kDone) return MakeError(WEFT_UNREACHABLE, "the connection broke");
    greeting->out.erase(0, written.bytes);
    *moved = true;
  }
  return absl::OkStatus();
}

absl::Status TcpTransport::ReadGreeting(Greeting* greeting, bool* moved) {
  LinkHandshake& handshake = greeting->handshake;
  while (!handshake.done()) {
    WEFT_RETURN_IF_ERROR(handshake.Take(&greeting->in));
    greeting->out += handshake.TakeOutput();
    if (handshake.done()) break;
    char buffer[kClientHelloBytes];
    const size_t wanted = handshake.wanted() - greeting->in.size();
    const IoResult got = seams_.net->Read(greeting->fd.get(), buffer, wanted);
    if (got.state == IoState::kWouldBlock) break;
    if (got.state != IoState::kDone) {
      return MakeError(WEFT_UNREACHABLE, "the connection was closed");
    }
    greeting->in.append(buffer, got.bytes);
    *moved = true;
  }
  return absl::OkStatus();
}

// The handshake is through: the connection is the link of its peer.
absl::Status TcpTransport::Introduce(Greeting* greeting) {
  int number = greeting->peer;
  if (number < 0) {
    const LinkClaim& claim = greeting->handshake.claim();
    const auto size = static_cast<int32_t>(peers_.size());
    number = claim.rank;
    if (claim.size != size || number < 0 || number >= settings_.self) {
      return MakeError(WEFT_CORRUPT,
                       StrCat("it says that it is rank ", number, " of ", claim.size));
    }
  }
  MessageLink& link = LinkOf(number);
  Peer& peer = peers_[static_cast<size_t>(number)];
  peer.dialling = false;
  peer.dial_ns = 0;
  if (!link.failure().ok()) {
    return MakeError(WEFT_UNREACHABLE, StrCat("the link with rank ", number, " is lost"));
  }
  // Who dials knows first that the last one has broken.
  if (link.attached()) Lost(number, seams_.clock->NowNs());
  peer.handle = greeting->fd.get();
  link.Attach(std::make_unique<SocketStream>(std::move(greeting->fd)));
  return absl::OkStatus();
}

}  // namespace weft
