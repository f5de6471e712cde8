// Who dials is fixed by the numbers of the two ranks, so there is one connection of each number for a pair. The other one waits: if it has posted something
// for the dialling rank, that one has posted the other half of it, or will.
#include "comm/transport/tcp_transport.h"

#include <algorithm>
#include <utility>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/keyed_hash.h"
#include "base/later.h"
#include "base/log.h"
#include "base/refused_call.h"
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
constexpr int64_t kAwayNs = 1'000'000'000;
// A connection beside the main one that breaks again within this time has not been mended: small packets may pass where large ones do not.
constexpr int64_t kLastsNs = 5'000'000'000;
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

// Of a connection with one that does not take what was sent: after so much time it is as good as broken.
void BreakSoon(int handle) {
  constexpr unsigned kSilentMs = 3000;
  (void)setsockopt(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, &kSilentMs, sizeof(kSilentMs));
}

}  // namespace

absl::StatusOr<std::unique_ptr<TcpTransport>> TcpTransport::Make(const Seams& seams,
                                                                 TcpSettings settings) {
  uint64_t id = 0;
  WEFT_RETURN_IF_ERROR(seams.random->Fill(&id, sizeof(id)));
  id |= 1;  // 0 is none
  std::vector<int> listeners;
  for (Endpoint endpoint : settings.endpoints[static_cast<size_t>(settings.self)]) {
    const absl::StatusOr<int> listener = seams.net->Listen(&endpoint);
    if (!listener.ok()) {
      for (const int opened : listeners)
        seams.net->Close(opened);
      return listener.status();
    }
    listeners.push_back(*listener);
  }
  return std::unique_ptr<TcpTransport>(
      new TcpTransport(seams, std::move(settings), std::move(listeners), id));
}

TcpTransport::TcpTransport(const Seams& seams, TcpSettings settings, std::vector<int> listeners,
                           uint64_t id)
    : seams_(seams),
      settings_(std::move(settings)),
      listeners_(std::move(listeners)),
      id_(id),
      may_have_more_(listeners_.size() > 1 || settings_.streams > 1),
      peers_(settings_.endpoints.size()) {}

// Data that the other side has not got would be lost if something of its own had come meanwhile and was not read.
TcpTransport::~TcpTransport() {
  // Of a forked child the connections are the parent's to use.
  if (pid_ == getpid()) Flush();
  for (const int listener : listeners_)
    seams_.net->Close(listener);
}

void TcpTransport::Flush() {
  const int64_t until_ns = seams_.clock->NowNs() + kCloseNs;
  AdvanceUntilQuiet(until_ns);
  LeaveAll();
  AdvanceUntilQuiet(std::max(until_ns, seams_.clock->NowNs() + kCloseBrokenNs));
}

void TcpTransport::LeaveAll() {
  MutexLock lock(mutex_);
  LogShares();
  for (const Peer& peer : peers_) {
    if (peer.link != nullptr) peer.link->Leave();
  }
}

// For those who measure rails.
void TcpTransport::LogShares() {
  for (size_t number = 0; number < peers_.size(); ++number) {
    const Peer& peer = peers_[number];
    if (peer.beside.empty()) continue;
    std::string shares;
    for (int connection = 0; connection < peer.connections(); ++connection) {
      const Endpoint& to = EndpointOf(static_cast<int>(number), connection);
      shares += StrCat(connection == 0 ? "" : ", ", peer.link->sent(connection), " bytes to ",
                       to.ToString());
    }
    LogInfo("rank ", number, " was sent ", shares);
  }
}

// A link that is broken, and connections beside the main one, are waited for a moment only: the other side may be gone, and learns of these over the
// main one.
void TcpTransport::AdvanceUntilQuiet(int64_t until_ns) {
  const int64_t broken_until_ns = until_ns - kCloseNs + kCloseBrokenNs;
  const auto quiet = [&] {
    MutexLock lock(mutex_);
    const bool gives_up = seams_.clock->NowNs() >= broken_until_ns;
    return std::all_of(peers_.begin(), peers_.end(), [gives_up](const Peer& peer) {
      return peer.link == nullptr || peer.link->Quiet(/*beside=*/!gives_up) ||
             (gives_up && !peer.link->attached());
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
    peer.main.give_up_ns = now_ns + settings_.connect_ns;
    if (Dials(number)) peer.main.dial_ns = now_ns;
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

std::optional<OfferedMessage> TcpTransport::Offered(int peer, const StreamId& stream) {
  MutexLock lock(mutex_);
  return LinkOf(peer).Offered(stream);
}

std::vector<LinkEvent> TcpTransport::TakeEvents() {
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void TcpTransport::AppendTraffic(std::vector<LinkTraffic>* traffic) {
  MutexLock lock(mutex_);
  for (size_t number = 0; number < peers_.size(); ++number) {
    Peer& peer = peers_[number];
    for (int connection = 0; peer.link != nullptr && connection < peer.connections();
         ++connection) {
      const int handle = peer.line(connection).handle;
      if (handle < 0 || !peer.link->attached(connection)) continue;
      traffic->push_back({.peer = static_cast<int>(number),
                          .connection = connection,
                          .addresses = peer.line(connection).addresses,
                          .stream = seams_.net->Traffic(handle)});
    }
  }
}

void TcpTransport::AppendPollItems(std::vector<PollItem>* items) {
  MutexLock lock(mutex_);
  accept_ns_ = 0;
  for (const int listener : listeners_) {
    if (greetings_.size() < kGreetingsMax)
      items->push_back({.handle = listener, .want_read = true});
  }
  for (const Greeting& greeting : greetings_) {
    items->push_back({.handle = greeting.fd.get(),
                      .want_read = !greeting.connecting,
                      .want_write = greeting.connecting || !greeting.out.empty()});
  }
  for (Peer& peer : peers_) {
    if (peer.link == nullptr) continue;
    // A socket that can be written to is ready at once.
    bool now = peer.link->PrepareToSleep();
    for (int connection = 0; connection < peer.connections(); ++connection) {
      const int handle = peer.line(connection).handle;
      if (handle < 0 || !peer.link->attached(connection)) continue;
      items->push_back({.handle = handle,
                        .want_read = true,
                        .want_write = now || peer.link->WantsToWrite(connection) ||
                                      peer.link->HasUnread(connection)});
      now = false;
    }
  }
}

bool TcpTransport::Advance() {
  MutexLock lock(mutex_);
  const int64_t now_ns = seams_.clock->NowNs();
  if (now_ns - looked_ns_ > kAwayNs) Forgive(now_ns);
  looked_ns_ = now_ns;
  bool moved = now_ns >= accept_ns_ && AcceptAll();
  DialDue(now_ns);
  moved |= AdvanceGreetings();
  bool awaits = false;
  for (size_t number = 0; number < peers_.size(); ++number) {
    Peer& peer = peers_[number];
    if (peer.link == nullptr || peer.reported) continue;
    moved |= peer.link->Advance();
    awaits |= !Dials(static_cast<int>(number)) && !peer.link->attached();
    absl::Status failure = peer.link->failure();
    if (failure.ok() && LookAfter(static_cast<int>(number), 0, now_ns))
      failure = GivenUp(static_cast<int>(number));
    if (failure.ok()) {
      if (!peer.beside.empty() || (may_have_more_ && peer.link->WantsMore()))
        LookAfterBeside(static_cast<int>(number), now_ns);
      continue;
    }
    peer.reported = true;
    peer.main.dial_ns = 0;
    for (Line& line : peer.beside)
      line.DoWithout();
    events_.push_back({.peer = static_cast<int>(number), .why = std::move(failure)});
  }
  if (now_ns >= accept_ns_) accept_ns_ = now_ns + (awaits ? kAcceptAwaitedNs : kAcceptNs);
  return moved;
}

// Time in which nobody looked, as all computed, does not count: neither end could get on.
void TcpTransport::Forgive(int64_t now_ns) {
  const int64_t away_ns = now_ns - looked_ns_;
  const auto forgive = [&](int64_t* time_ns, int64_t most_ns) {
    if (*time_ns == 0 || *time_ns == INT64_MAX) return;
    *time_ns = std::max(*time_ns, std::min(Later(*time_ns, away_ns), Later(now_ns, most_ns)));
  };
  for (Peer& peer : peers_) {
    for (int connection = 0; connection < peer.connections(); ++connection) {
      Line& line = peer.line(connection);
      forgive(&line.give_up_ns, line.again ? settings_.again_ns : settings_.connect_ns);
    }
  }
  for (Greeting& greeting : greetings_)
    forgive(&greeting.deadline_ns, kGreetNs);
}

// True if it cannot be made.
bool TcpTransport::LookAfter(int number, int connection, int64_t now_ns) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  Line& line = peer.line(connection);
  if (line.again && peer.link->settled(connection)) {
    if (line.settled_ns == 0) line.settled_ns = now_ns;
    line.again = connection > 0 && now_ns - line.settled_ns < kLastsNs &&
                 peer.link->Progress(connection) == line.progress;
    if (!line.again) LogInfo("the connection with ", Name(number, connection), " is there again");
  }
  const bool attached = line.handle >= 0 && peer.link->attached(connection);
  if (line.handle >= 0 && !attached) Lost(number, connection, now_ns);
  return Dials(number) && !line.connected && !attached && now_ns >= line.give_up_ns;
}

// The connections beside the main one.
void TcpTransport::LookAfterBeside(int number, int64_t now_ns) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  if (Dials(number) && peer.beside.empty()) {
    const int connections = ConnectionsOver(RailsWith(number), settings_.streams);
    peer.beside.resize(static_cast<size_t>(connections) - 1,
                       {.dial_ns = now_ns, .give_up_ns = now_ns + settings_.connect_ns});
  }
  for (int connection = 1; connection < peer.connections(); ++connection) {
    Line& line = peer.line(connection);
    if (peer.link->given_up(connection)) {
      line.DoWithout();
      continue;
    }
    if (!LookAfter(number, connection, now_ns)) continue;
    LogWarn("the connection with ", Name(number, connection), " could not be made",
            line.why.ok() ? "" : StrCat(" (", line.why.message(), ")"),
            ": large messages go without it");
    if (peer.link->has(connection)) peer.link->GiveUp(connection);
    line.DoWithout();
  }
}

int TcpTransport::RailsWith(int number) const {
  const auto rails = [this](int rank) {
    return settings_.endpoints[static_cast<size_t>(rank)].size();
  };
  return static_cast<int>(std::min(rails(settings_.self), rails(number)));
}

const Endpoint& TcpTransport::EndpointOf(int number, int connection) const {
  return settings_
      .endpoints[static_cast<size_t>(number)][static_cast<size_t>(connection % RailsWith(number))];
}

// "tcp:10.0.0.7:4711 (interface eth0, chosen automatically)".
std::string TcpTransport::Place(int number, int connection) const {
  std::string address = EndpointOf(number, connection).ToString();
  const auto index = static_cast<size_t>(number);
  if (index >= settings_.choices.size() || settings_.choices[index].empty()) return address;
  return StrCat(address, " (", settings_.choices[index], ")");
}

std::string TcpTransport::Name(int number, int connection) const {
  if (connection == 0) return StrCat("rank ", number);
  return StrCat("rank ", number, ", number ", connection, ", at ", Place(number, connection));
}

// The connection has broken: whoever dialled dials again. As long as none brings the link further, the pauses grow and the time is one.
void TcpTransport::Lost(int number, int connection, int64_t now_ns) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  Line& line = peer.line(connection);
  line.handle = -1;
  line.connected = false;
  const bool lasted = line.settled_ns != 0 && now_ns - line.settled_ns >= kLastsNs;
  line.settled_ns = 0;
  if (peer.link->given_up(connection)) return;
  if (!line.again || lasted) {
    line.again = true;
    line.progress = peer.link->Progress(connection);
    line.give_up_ns = now_ns + settings_.again_ns;
    line.pause_ns = 0;
    LogInfo("the connection with ", Name(number, connection),
            " has broken: ", FromAbsl(peer.link->broken(connection).message()));
  }
  if (!Dials(number)) return;
  line.dial_ns = now_ns + line.pause_ns;
  line.pause_ns = std::clamp(2 * line.pause_ns, kFirstPauseNs, kLongestPauseNs);
}

absl::Status TcpTransport::GivenUp(int number) {
  const Peer& peer = peers_[static_cast<size_t>(number)];
  const std::string address = Place(number, 0);
  if (!peer.main.again) {
    const std::string_view why =
        peer.main.why.ok() ? "it does not answer" : FromAbsl(peer.main.why.message());
    return MakeError(WEFT_UNREACHABLE,
                     fmt::format("no connection with rank {} at {} could be made: {}; WEFT_IFNAME "
                                 "on that rank's machine names another interface",
                                 number, address, why));
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
  for (const int listener : listeners_) {
    while (greetings_.size() < kGreetingsMax) {
      const absl::StatusOr<int> handle = seams_.net->Accept(listener);
      if (!handle.ok() || *handle < 0) break;  // without descriptors: again at the next time
      any = true;
      greetings_.push_back(
          {.fd = UniqueFd(*handle),
           .deadline_ns = seams_.clock->NowNs() + kGreetNs,
           .handshake = LinkHandshake::Accepted(DataSecret(settings_.secret), *seams_.random)});
    }
  }
  return any;
}

void TcpTransport::DialDue(int64_t now_ns) {
  for (size_t number = 0; number < peers_.size(); ++number) {
    Peer& peer = peers_[number];
    for (int connection = 0; connection < peer.connections(); ++connection) {
      const Line& line = peer.line(connection);
      if (line.dial_ns == 0 || line.dialling || now_ns < line.dial_ns) continue;
      Dial(static_cast<int>(number), connection);
    }
  }
}

void TcpTransport::Dial(int number, int connection) {
  const absl::StatusOr<int> handle = seams_.net->Connect(EndpointOf(number, connection));
  if (!handle.ok()) return DialAgain(number, connection, handle.status());
  peers_[static_cast<size_t>(number)].line(connection).dialling = true;
  const LinkClaim claim{.rank = settings_.self,
                        .size = static_cast<int32_t>(peers_.size()),
                        .connection = static_cast<uint32_t>(connection)};
  greetings_.push_back(
      {.fd = UniqueFd(*handle),
       .peer = number,
       .connection = connection,
       .connecting = true,
       .deadline_ns = seams_.clock->NowNs() + kGreetNs,
       .handshake = LinkHandshake::Dialled(DataSecret(settings_.secret), claim, *seams_.random)});
}

void TcpTransport::DialAgain(int number, int connection, const absl::Status& why) {
  Peer& peer = peers_[static_cast<size_t>(number)];
  if (connection >= peer.connections()) return;
  Line& line = peer.line(connection);
  line.dialling = false;
  line.connected = false;
  if (line.done_without()) return;
  line.pause_ns = std::clamp(2 * line.pause_ns, kFirstPauseNs, kLongestPauseNs);
  line.dial_ns = seams_.clock->NowNs() + line.pause_ns;
  line.why = why;
  if (IsRefusedCall(why)) line.give_up_ns = seams_.clock->NowNs();
  LogDebug("no connection with ", Name(number, connection), " yet: ", FromAbsl(why.message()));
}

bool TcpTransport::AdvanceGreetings() {
  bool moved = false;
  for (size_t i = 0; i < greetings_.size();) {
    Greeting& greeting = greetings_[i];
    absl::Status status = AdvanceGreeting(&greeting, &moved);
    const bool through = status.ok() && greeting.handshake.done() && greeting.out.empty();
    if (status.ok() && !through && seams_.clock->NowNs() >= greeting.deadline_ns) {
      status = MakeError(WEFT_TIMEOUT, "it does not answer");
    }
    if (through) status = Introduce(&greeting);
    if (status.ok() && !through) {
      ++i;
      continue;
    }
    const int peer = greeting.peer;
    const int connection = greeting.connection;
    greetings_.erase(greetings_.begin() + static_cast<ptrdiff_t>(i));
    if (!status.ok() && peer >= 0) DialAgain(peer, connection, status);
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
    Peer& peer = peers_[static_cast<size_t>(greeting->peer)];
    if (greeting->connection < peer.connections()) peer.line(greeting->connection).connected = true;
    if (greeting->connection > 0) BreakSoon(greeting->fd.get());
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

// The handshake is through: the connection is one of its peer's link.
absl::Status TcpTransport::Introduce(Greeting* greeting) {
  int number = greeting->peer;
  int connection = greeting->connection;
  if (number < 0) {
    const LinkClaim& claim = greeting->handshake.claim();
    const auto size = static_cast<int32_t>(peers_.size());
    number = claim.rank;
    if (claim.size != size || number < 0 || number >= settings_.self ||
        claim.connection >= uint32_t{kLinkConnectionsMax}) {
      return MakeError(WEFT_CORRUPT, StrCat("it says that it is rank ", number, " of ", claim.size,
                                            ", connection ", claim.connection));
    }
    connection = static_cast<int>(claim.connection);
  }
  MessageLink& link = LinkOf(number);
  Peer& peer = peers_[static_cast<size_t>(number)];
  if (!link.failure().ok()) {
    return MakeError(WEFT_UNREACHABLE, StrCat("the link with rank ", number, " is lost"));
  }
  if (connection > 0 && peer.connections() <= connection)
    peer.beside.resize(static_cast<size_t>(connection));
  Line& line = peer.line(connection);
  line.dialling = false;
  line.dial_ns = 0;
  if (link.given_up(connection)) {
    return MakeError(WEFT_UNREACHABLE, "it is done without");
  }
  // Who dials knows first that the last one has broken.
  if (link.has(connection) && link.attached(connection))
    Lost(number, connection, seams_.clock->NowNs());
  line.handle = greeting->fd.get();
  line.addresses = seams_.net->Addresses(line.handle);
  link.Attach(std::make_unique<SocketStream>(std::move(greeting->fd)), connection);
  if (connection > 0) BreakSoon(line.handle);
  return absl::OkStatus();
}

}  // namespace weft
