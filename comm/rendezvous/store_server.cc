// Whoever connects is a stranger until it has proven that it knows the secret, and costs little even afterwards: a client that
// is owed an answer is not read. What it has sent by then is in memory, where no poll() announces it; `behind` remembers it.
// A connection is closed only at the end of a step, or a new one could get a handle that items of this step still carry.
#include "comm/rendezvous/store_server.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wire.h"

namespace weft {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kAcceptPauseNs = 100'000'000;
constexpr int kAcceptsPerStep = 64;
constexpr size_t kServerReadBytes = 64 * 1024;
// What one client is served in a step before it is the next one's turn.
constexpr size_t kAnswerBytesPerStep = kStoreValueBytesMax;
constexpr int32_t kWorldMax = 65536;
constexpr size_t kLogBytesMax = 160;
// Remembered for a program that may never ask.
constexpr size_t kGoneMax = kWorldMax;

}  // namespace

struct StoreServer::Connection {
  int handle = -1;
  uint64_t id = 0;  // rises: the oldest has the smallest
  PeerIdentity peer;
  bool proven = false;
  bool refused = false;  // gets its verdict, and is dropped when it has it
  bool dropped = false;
  bool behind = false;      // `in` may hold requests that were not served yet
  int64_t deadline_ns = 0;  // of the handshake
  std::string hello;        // as sent
  std::string in;
  std::string out;
  uint64_t answered_bytes = 0;
  int32_t rank = -1;
  std::optional<FrameOpener> opener;
  std::optional<FrameSealer> sealer;
};

StoreServer::StoreServer(const Seams& seams, StoreServerOptions options)
    : seams_(seams), options_(std::move(options)) {}

StoreServer::~StoreServer() {
  for (const auto& [handle, connection] : connections_)
    seams_.net->Close(handle);
  for (const Listener& listener : listeners_)
    seams_.net->Close(listener.handle);
}

absl::Status StoreServer::AddListener(Endpoint* endpoint) {
  if (endpoint->kind == Endpoint::Kind::kTcp && options_.secret.empty() && !options_.insecure) {
    return MakeError(WEFT_INVALID_USAGE,
                     StrCat("will not serve the store on ", endpoint->ToString(),
                            " without a job secret; set WEFT_JOB_SECRET_FILE, start the ranks with "
                            "weftrun, or set WEFT_INSECURE=1 on a network you trust"));
  }
  WEFT_ASSIGN_OR_RETURN(const int handle, seams_.net->Listen(endpoint));
  listeners_.push_back({handle, *endpoint});
  return absl::OkStatus();
}

std::vector<int> StoreServer::listeners() const {
  std::vector<int> handles;
  for (const Listener& listener : listeners_)
    handles.push_back(listener.handle);
  return handles;
}

void StoreServer::AppendPollItems(std::vector<PollItem>* items) const {
  if (seams_.clock->NowNs() >= accept_again_ns_) {
    for (const Listener& listener : listeners_) {
      items->push_back({.handle = listener.handle, .want_read = true});
    }
  }
  for (const auto& [handle, connection] : connections_) {
    // A client that does not read its answers is not read either: that bounds `in`.
    items->push_back({.handle = handle,
                      .want_read = connection->out.empty() && !connection->behind,
                      .want_write = !connection->out.empty()});
  }
}

int64_t StoreServer::NextWakeNs() const {
  int64_t wake_ns = std::numeric_limits<int64_t>::max();
  for (const auto& [handle, connection] : connections_) {
    if (!connection->proven) wake_ns = std::min(wake_ns, connection->deadline_ns);
    if (CanGoOn(*connection)) wake_ns = seams_.clock->NowNs();
  }
  if (accept_again_ns_ > seams_.clock->NowNs()) wake_ns = std::min(wake_ns, accept_again_ns_);
  const bool unlogged = std::any_of(unlogged_.begin(), unlogged_.end(), [](auto n) { return n; });
  if (unlogged) wake_ns = std::min(wake_ns, logged_ns_ + kSecondNs);
  return wake_ns;
}

void StoreServer::Step() {
  std::vector<PollItem> items;
  AppendPollItems(&items);
  const absl::Status polled = seams_.net->Poll(items, std::numeric_limits<int64_t>::min());
  if (!polled.ok()) LogWarn("store: ", FromAbsl(polled.message()));
  for (const PollItem& item : items) {
    if (!polled.ok()) break;
    const auto connection = connections_.find(item.handle);
    if (connection == connections_.end()) {
      if (item.readable) Accept(item.handle);
    } else if (!connection->second->dropped) {
      Advance(*connection->second, item.readable, item.writable);
    }
  }
  ExpireStrangers();
  SweepDropped();
  LogRefusals();
}

size_t StoreServer::buffered_bytes() const {
  size_t bytes = 0;
  for (const auto& [handle, connection] : connections_)
    bytes += connection->in.size() + connection->out.size();
  return bytes;
}

bool StoreServer::Deserted() const {
  return world_size_ > 0 && client_count_ == 0 && came_.size() >= static_cast<size_t>(world_size_);
}

void StoreServer::ForgetWorld() {
  came_.clear();
  world_size_ = 0;
}

// --- Strangers -----------------------------------------------------------------------------------

void StoreServer::Accept(int listener) {
  for (int i = 0; i < kAcceptsPerStep; ++i) {
    const absl::StatusOr<int> handle = seams_.net->Accept(listener);
    if (!handle.ok()) {
      // Out of descriptors: the connection stays in the queue, and asking at once would spin.
      if (!starved_) {
        LogWarn(
            "store: ", FromAbsl(handle.status().message()),
            "; ranks wait until there is one, which is looked for every 0.1 s; raise the limit on "
            "open files, ulimit -n");
      }
      starved_ = true;
      accept_again_ns_ = seams_.clock->NowNs() + kAcceptPauseNs;
      return;
    }
    if (*handle < 0) return;
    starved_ = false;
    Greet(*handle);
  }
}

void StoreServer::Greet(int handle) {
  auto connection = std::make_unique<Connection>();
  connection->handle = handle;
  connection->id = next_id_++;
  connection->peer = seams_.net->Peer(handle);
  connection->deadline_ns = seams_.clock->NowNs() + kHandshakeNs;
  Connection& stranger = *connection;
  MakeRoom();
  connections_[handle] = std::move(connection);
  if (options_.uid >= 0 && stranger.peer.uid >= 0 && stranger.peer.uid != options_.uid) {
    Refuse(stranger, Refusal::kForeignUser);
    return;
  }
  ServerHello hello;
  hello.needs_secret = !options_.secret.empty();
  if (const absl::Status random = seams_.random->Fill(hello.nonce.data(), hello.nonce.size());
      !random.ok()) {
    LogWarn("store: ", FromAbsl(random.message()));
    Drop(stranger);
    return;
  }
  stranger.hello = EncodeServerHello(hello);
  stranger.out = stranger.hello;
  Flush(stranger);
}

// Refuses the oldest stranger if there are too many.
void StoreServer::MakeRoom() {
  size_t count = 0;
  Connection* oldest = nullptr;
  for (const auto& [handle, connection] : connections_) {
    if (connection->proven || connection->dropped) continue;
    ++count;
    if (oldest == nullptr || connection->id < oldest->id) oldest = connection.get();
  }
  if (count >= kStrangersMax) {
    oldest->refused ? Drop(*oldest) : Refuse(*oldest, Refusal::kCrowded);
  }
}

void StoreServer::ExpireStrangers() {
  const int64_t now_ns = seams_.clock->NowNs();
  for (const auto& [handle, connection] : connections_) {
    if (connection->proven || connection->dropped || now_ns < connection->deadline_ns) continue;
    connection->refused ? Drop(*connection) : Refuse(*connection, Refusal::kTooSlow);
  }
}

void StoreServer::ReadHello(Connection& connection) {
  if (!Receive(connection, kClientHelloBytes - connection.in.size())) return;
  const Refusal refusal = CheckPrefix(connection.in);
  if (refusal != Refusal::kNone) {
    Refuse(connection, refusal);
  } else if (connection.in.size() == kClientHelloBytes) {
    Judge(connection);
  }
}

void StoreServer::Judge(Connection& connection) {
  const std::string fields = connection.in.substr(0, kClientFieldsBytes);
  const std::string proof = connection.in.substr(kClientFieldsBytes);
  const absl::StatusOr<ClientHello> hello = DecodeClientFields(fields);
  const SessionKeys keys = MakeSessionKeys(options_.secret, connection.hello, fields);
  if (!hello.ok() || !SameProof(proof, keys.client_proof)) {
    Refuse(connection, Refusal::kWrongSecret);
    return;
  }
  connection.in.clear();
  connection.proven = true;
  connection.rank = hello->rank;
  connection.opener.emplace(keys.client_key, options_.epoch);
  connection.sealer.emplace(keys.server_key, options_.epoch);
  connection.out += EncodeVerdict({.proof = keys.server_proof});
  ++client_count_;
  if (hello->rank >= 0 && hello->rank < kWorldMax && hello->size <= kWorldMax) {
    came_.insert(hello->rank);
    world_size_ = std::max(world_size_, hello->size);
  }
  Flush(connection);
}

void StoreServer::Refuse(Connection& connection, Refusal refusal) {
  std::string details;
  if (refusal == Refusal::kGarbage) details = StrCat(" speaking ", GuessProtocol(connection.in));
  if (refusal == Refusal::kWrongVersion) {
    WireReader reader(std::string_view(connection.in).substr(kStoreMagic.size(), 2));
    details = StrCat(" speaking version ", reader.U16(), ", this is ", kStoreVersion);
  }
  Count(refusal, connection.peer.address, details);
  // Who speaks the protocol is told why, as long as its handshake may take.
  if (refusal == Refusal::kWrongVersion || refusal == Refusal::kWrongSecret ||
      refusal == Refusal::kForeignUser) {
    if (connection.hello.empty()) connection.out = EncodeServerHello({});
    connection.out += EncodeVerdict({.refusal = refusal});
    connection.refused = true;
    Flush(connection);
  } else {
    Drop(connection);
  }
}

void StoreServer::Count(Refusal refusal, const std::string& address, std::string_view details) {
  ++refused_[static_cast<size_t>(refusal)];
  ++unlogged_[static_cast<size_t>(refusal)];
  last_refused_ = StrCat(address, details).substr(0, kLogBytesMax);
}

// One line a second at most, however many connections were refused.
void StoreServer::LogRefusals() {
  std::string counts;
  for (int i = 1; i < kRefusalCount; ++i) {
    if (unlogged_[i] == 0) continue;
    counts +=
        StrCat(counts.empty() ? "" : ", ", unlogged_[i], " ", RefusalName(static_cast<Refusal>(i)));
  }
  const int64_t now_ns = seams_.clock->NowNs();
  if (counts.empty() || (logged_ns_ != INT64_MIN && now_ns < logged_ns_ + kSecondNs)) return;
  const std::string where = listeners_.empty() ? "" : listeners_[0].endpoint.ToString();
  LogWarn("store at ", where, ": refused connections: ", counts, "; the last from ", last_refused_);
  unlogged_ = {};
  logged_ns_ = now_ns;
}

// --- Connections ---------------------------------------------------------------------------------

void StoreServer::Advance(Connection& connection, bool readable, bool writable) {
  if (writable) Flush(connection);
  if (connection.dropped || connection.refused) return;
  if (!connection.proven) {
    if (readable) ReadHello(connection);
  } else if (CanGoOn(connection) ||
             (readable && !connection.behind && Receive(connection, kServerReadBytes))) {
    ServeFrames(connection);
  }
}

bool StoreServer::CanGoOn(const Connection& connection) const {
  return connection.behind && connection.out.empty();
}

// As long as the client takes its answers: a few bytes may ask for a value of a megabyte, so what is
// owed to a client is one answer at most, and other clients have their turn after some.
void StoreServer::ServeFrames(Connection& connection) {
  Frame frame;
  const size_t stop_bytes = connection.answered_bytes + kAnswerBytesPerStep;
  while (!connection.dropped) {
    connection.behind = true;
    if (!connection.out.empty() || connection.answered_bytes >= stop_bytes) return;
    const absl::StatusOr<bool> complete = connection.opener->Open(&connection.in, &frame);
    connection.behind = complete.ok() && *complete;
    if (complete.ok() && !*complete) return;
    if (!complete.ok()) {
      Count(Refusal::kBadFrame, connection.peer.address,
            StrCat(" (", FromAbsl(complete.status().message()), ")"));
      Drop(connection);
    } else if (!Serve(connection, frame)) {
      Count(Refusal::kBadFrame, connection.peer.address, StrCat(" of rank ", connection.rank));
      Drop(connection);
    }
  }
}

bool StoreServer::Serve(Connection& connection, const Frame& frame) {
  if (frame.type == FrameType::kLeave) {
    Drop(connection);
    return true;
  }
  std::vector<StoreData::Answer> answers;
  if (!data_.Serve(connection.handle, frame, &answers)) return false;
  for (const StoreData::Answer& answer : answers)
    Send(answer);
  return true;
}

void StoreServer::Send(const StoreData::Answer& answer) {
  const auto found = connections_.find(answer.client);
  if (found == connections_.end() || found->second->dropped) return;
  Connection& connection = *found->second;
  connection.sealer->Seal(answer.frame, &connection.out);
  connection.answered_bytes += answer.frame.body.size();
  Flush(connection);
}

// Reads at most `bytes_max` more; false if nothing came or the connection is gone.
bool StoreServer::Receive(Connection& connection, size_t bytes_max) {
  const size_t before = connection.in.size();
  connection.in.resize(before + bytes_max);
  const IoResult result =
      seams_.net->Read(connection.handle, connection.in.data() + before, bytes_max);
  connection.in.resize(before + (result.state == IoState::kDone ? result.bytes : 0));
  if (result.state == IoState::kClosed || result.state == IoState::kFailed) Drop(connection);
  return result.state == IoState::kDone;
}

void StoreServer::Flush(Connection& connection) {
  while (!connection.out.empty()) {
    const IoResult result =
        seams_.net->Write(connection.handle, connection.out.data(), connection.out.size());
    if (result.state == IoState::kWouldBlock) return;
    if (result.state != IoState::kDone) {
      Drop(connection);
      return;
    }
    connection.out.erase(0, result.bytes);
  }
  if (connection.refused) Drop(connection);
}

// The handle stays in the table until the end of the step, so that no new connection takes its
// number while items of this step still carry it.
void StoreServer::Drop(Connection& connection) {
  if (connection.dropped) return;
  connection.dropped = true;
  if (connection.proven) --client_count_;
  if (connection.proven && connection.rank < -1 && gone_.size() < kGoneMax) {
    gone_.push_back(connection.rank);
  }
  data_.Forget(connection.handle);
}

void StoreServer::SweepDropped() {
  for (auto item = connections_.begin(); item != connections_.end();) {
    if (item->second->dropped) {
      seams_.net->Close(item->first);
      item = connections_.erase(item);
    } else {
      ++item;
    }
  }
}

}  // namespace weft
