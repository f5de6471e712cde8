// The memory: a place for each rank at the bell, then the heads of the rings, then their bytes; the ring from rank i to rank j of n is
// number i n + j, and those from a rank to itself are left out of the bytes alone.
#include "comm/transport/shared_memory_transport.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include <unistd.h>

#include "base/status.h"
#include "fmt/format.h"

namespace weft {
namespace {

// Of all rings together, but for the bounds of one. The largest is as long as a second-level cache, so that what is read is no longer in
// the cache of who wrote it, which makes a large message three times as quick; see docs/perf/transport.md.
constexpr size_t kRingsBytesMax = 16 << 20;
constexpr size_t kRingBytesMax = 1 << 20;
constexpr size_t kRingBytesMin = 4 << 10;

constexpr int64_t kLeaveNs = 1'000'000'000;
constexpr int64_t kLeaveNapNs = 200'000;

size_t HeadBytes(size_t size) {
  return size * sizeof(Doorbell::Place) + size * size * sizeof(RingHead);
}

SharedMemoryRing RingFrom(std::byte* memory, int size, int from, int to) {
  const auto n = static_cast<size_t>(size);
  const auto i = static_cast<size_t>(from);
  const auto j = static_cast<size_t>(to);
  auto* const heads = reinterpret_cast<RingHead*>(memory + n * sizeof(Doorbell::Place));
  const size_t bytes = SharedMemoryTransport::RingBytesFor(size);
  const size_t number = i * (n - 1) + (j > i ? j - 1 : j);
  return {
      .head = heads + i * n + j, .bytes = memory + HeadBytes(n) + number * bytes, .size = bytes};
}

}  // namespace

size_t SharedMemoryTransport::RingBytesFor(int size) {
  const auto n = static_cast<size_t>(size);
  const size_t share = kRingsBytesMax / std::max(n * (n - 1), size_t{1});
  return std::clamp(std::bit_floor(share), kRingBytesMin, kRingBytesMax);
}

size_t SharedMemoryTransport::BytesFor(int size) {
  const auto n = static_cast<size_t>(size);
  return HeadBytes(n) + n * (n - 1) * RingBytesFor(size);
}

void SharedMemoryTransport::Clear(std::byte* memory, int size) {
  const auto n = static_cast<size_t>(size);
  auto* const places = reinterpret_cast<Doorbell::Place*>(memory);
  for (size_t i = 0; i < n; ++i)
    new (places + i) Doorbell::Place{};
  auto* const heads = reinterpret_cast<RingHead*>(places + n);
  for (size_t i = 0; i < n * n; ++i)
    new (heads + i) RingHead{};
}

absl::StatusOr<std::unique_ptr<SharedMemoryTransport>> SharedMemoryTransport::Make(
    const Seams& seams, const SharedMemorySettings& settings) {
  const std::vector<int>& ranks = settings.ranks;
  if (ranks.size() > static_cast<size_t>(kRanksMax)) {
    return MakeError(WEFT_UNSUPPORTED,
                     fmt::format("{} ranks on one node; at most {} can talk over shared memory",
                                 ranks.size(), kRanksMax));
  }
  const auto self = std::find(ranks.begin(), ranks.end(), settings.self) - ranks.begin();
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<Doorbell> bell,
                        Doorbell::Make(reinterpret_cast<Doorbell::Place*>(settings.memory),
                                       static_cast<int>(self), *seams.random));
  return std::unique_ptr<SharedMemoryTransport>(
      new SharedMemoryTransport(seams, settings, std::move(bell)));
}

SharedMemoryTransport::SharedMemoryTransport(const Seams& seams,
                                             const SharedMemorySettings& settings,
                                             std::unique_ptr<Doorbell> bell)
    : seams_(seams),
      size_(static_cast<int>(settings.ranks.size())),
      pid_(getpid()),
      bell_(std::move(bell)) {
  const std::vector<int>& ranks = settings.ranks;
  const auto self =
      static_cast<int>(std::find(ranks.begin(), ranks.end(), settings.self) - ranks.begin());
  for (int place = 0; place < size_; ++place) {
    if (place == self) continue;
    const int rank = ranks[static_cast<size_t>(place)];
    auto stream = std::make_unique<RingStream>(RingFrom(settings.memory, size_, self, place),
                                               RingFrom(settings.memory, size_, place, self),
                                               bell_.get(), place);
    Peer peer{.rank = rank,
              .place = place,
              .link = std::make_unique<MessageLink>(rank),
              .stream = stream.get()};
    peer.link->Attach(std::move(stream));
    peers_.push_back(std::move(peer));
  }
}

SharedMemoryTransport::~SharedMemoryTransport() {
  SharedMemoryTransport::Leave();
}

// What was begun to be said is put into the rings, if those who read them are there.
void SharedMemoryTransport::Leave() {
  if (getpid() != pid_) return;  // a forked child has no such memory
  const int64_t until_ns = seams_.clock->NowNs() + kLeaveNs;
  while (true) {
    {
      MutexLock lock(mutex_);
      if (left_) return;
      if (AllQuiet() || seams_.clock->NowNs() >= until_ns) {
        left_ = true;
        peers_.clear();
        bell_->Leave(size_);
        return;
      }
    }
    if (SharedMemoryTransport::Advance()) continue;
    (void)seams_.net->Poll({}, seams_.clock->NowNs() + kLeaveNapNs);
  }
}

bool SharedMemoryTransport::AllQuiet() {
  bool all = true;
  for (const Peer& peer : peers_) {
    if (peer.link->Quiet()) continue;
    bell_->Probe(peer.place);
    all = false;
  }
  return all;
}

SharedMemoryTransport::Peer& SharedMemoryTransport::PeerOf(int rank) {
  return *std::lower_bound(peers_.begin(), peers_.end(), rank,
                           [](const Peer& peer, int wanted) { return peer.rank < wanted; });
}

void SharedMemoryTransport::Post(Transfer* transfer) {
  MutexLock lock(mutex_);
  if (left_) {
    transfer->SetState(TransferState::kRetracted);
    return;
  }
  PeerOf(transfer->peer).link->Post(transfer);
}

bool SharedMemoryTransport::Advance() {
  MutexLock lock(mutex_);
  if (left_) return false;
  if (bell_->owes()) bell_->PayOwed();
  bool moved = false;
  for (Peer& peer : peers_) {
    if (peer.reported) continue;
    const bool any = peer.link->Advance();
    moved |= any;
    if (any && peer.link->attached()) peer.stream->TellOfRoom();
    if (peer.link->failure().ok()) continue;
    peer.reported = true;
    events_.push_back({.peer = peer.rank, .why = peer.link->failure()});
  }
  return moved;
}

void SharedMemoryTransport::CloseGroup(uint64_t group_id) {
  MutexLock lock(mutex_);
  for (const Peer& peer : peers_)
    peer.link->CloseGroup(group_id);
}

std::optional<OfferedMessage> SharedMemoryTransport::Offered(int peer, const StreamId& stream) {
  MutexLock lock(mutex_);
  return left_ ? std::nullopt : PeerOf(peer).link->Offered(stream);
}

std::vector<LinkEvent> SharedMemoryTransport::TakeEvents() {
  MutexLock lock(mutex_);
  return std::exchange(events_, {});
}

void SharedMemoryTransport::AppendPollItems(std::vector<PollItem>* items) {
  MutexLock lock(mutex_);
  if (left_) return;
  for (const Peer& peer : peers_) {
    if (peer.link->attached() && peer.link->WantsToWrite()) peer.stream->SayStarved();
  }
  bell_->Arm();
  // What came before is seen here, what comes from now on rings.
  bool now = bell_->owes();
  for (const Peer& peer : peers_) {
    now = now || (peer.link->attached() && peer.stream->Ready(peer.link->WantsToWrite()));
  }
  items->push_back(bell_->Item(now));
}

}  // namespace weft
