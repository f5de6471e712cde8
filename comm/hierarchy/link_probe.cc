#include "comm/hierarchy/link_probe.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "base/seams.h"
#include "base/status.h"
#include "base/wait.h"
#include "comm/hierarchy/socket_wait.h"
#include "fmt/format.h"

namespace weft {
namespace {

constexpr uint32_t kBurst = 16;
constexpr uint32_t kSmallBytes = 8;
constexpr uint32_t kBulkBytes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20};
constexpr uint32_t kEnd = UINT32_MAX;
constexpr int kRoundTrips = 15;
constexpr int kBursts = 5;
constexpr int kBulks = 3;
// After a failure, for large messages that are under way.
constexpr int64_t kWindDownNs = 1'000'000'000;

// A round: so many messages of so many bytes are coming. kEnd: none does any more.
struct Order {
  uint32_t messages = 0;
  uint32_t bytes = 0;
};

// Noise only adds; but the best moment is not what a job meets.
int64_t LowerQuartile(std::vector<int64_t> times) {
  const auto quarter = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quarter, times.end());
  return *quarter;
}

bool IsUnderWay(const Transfer& transfer) {
  return transfer.state() == TransferState::kPosted;
}

// The messages of one who asks and one who answers, numbered in each direction.
class Way {
 public:
  Way(Transport* transport, int peer, const StreamId& stream)
      : transport_(transport), peer_(peer), stream_(stream) {}

  void Send(Transfer* transfer, void* memory, size_t bytes) {
    Post(transfer, true, sent_++, memory, bytes);
  }

  void Receive(Transfer* transfer, void* memory, size_t bytes) {
    Post(transfer, false, received_++, memory, bytes);
  }

 private:
  void Post(Transfer* transfer, bool is_send, uint64_t tag, void* memory, size_t bytes) {
    *transfer = {.peer = peer_,
                 .stream = stream_,
                 .tag = tag,
                 .is_send = is_send,
                 .memory = static_cast<std::byte*>(memory),
                 .bytes = bytes};
    transport_->Post(transfer);
  }

  Transport* const transport_;
  const int peer_;
  const StreamId stream_;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

// Whom the previous rank asks.
class Answerer {
 public:
  explicit Answerer(const Way& way, std::byte* memory) : way_(way), memory_(memory) {
    way_.Receive(&order_transfer_, &order_, sizeof(order_));
  }

  // All has been asked.
  bool done() const { return done_; }

  // What it has been asked for is no round.
  bool failed() const { return failed_; }

  // Messages that it has asked for are to come.
  bool receives() const { return begun_ && std::any_of(bulk_.begin(), bulk_.end(), IsUnderWay); }

  void Step() {
    while (!done_ && !failed_ && !IsUnderWay(order_transfer_)) {
      if (order_transfer_.state() != TransferState::kDone) {
        failed_ = true;
        return;
      }
      if (IsUnderWay(answer_)) return;
      if (!begun_) {
        Begin();
        continue;
      }
      for (uint32_t i = 0; i < order_.messages; ++i) {
        if (IsUnderWay(bulk_[i])) return;
      }
      Say();
      begun_ = false;
      way_.Receive(&order_transfer_, &order_, sizeof(order_));
    }
  }

 private:
  void Begin() {
    done_ = order_.messages == kEnd;
    failed_ = !done_ && (order_.messages > kBurst || order_.bytes > kBulkBytes[3]);
    if (done_ || failed_) return;
    begun_ = true;
    // Nobody reads them.
    for (uint32_t i = 0; i < order_.messages; ++i)
      way_.Receive(&bulk_[i], memory_ + size_t{i} * kSmallBytes, order_.bytes);
    if (order_.messages > 0) Say();
  }

  void Say() { way_.Send(&answer_, &word_, sizeof(word_)); }

  Way way_;
  std::byte* const memory_;
  Order order_;
  Transfer order_transfer_;
  std::array<Transfer, kBurst> bulk_;
  Transfer answer_;
  uint64_t word_ = 0;
  bool begun_ = false;
  bool done_ = false;
  bool failed_ = false;
};

class LinkProbe {
 public:
  explicit LinkProbe(const LinkProbeSettings& settings)
      : settings_(settings),
        memory_(2 * (size_t{kBulkBytes[3]} + size_t{kBurst} * kSmallBytes)),
        way_(settings.transport, settings.next, StreamOf(settings.self)),
        answerer_(Way(settings.transport, settings.previous, StreamOf(settings.previous)),
                  memory_.data() + memory_.size() / 2) {}

  LinkProbe(const LinkProbe&) = delete;
  LinkProbe& operator=(const LinkProbe&) = delete;

  // Its transfers are its own again.
  ~LinkProbe() { settings_.transport->CloseGroup(settings_.group_id); }

  absl::StatusOr<LinkCost> Run() {
    absl::StatusOr<LinkCost> cost = Ask();
    if (!cost.ok()) WindDown();
    return cost;
  }

 private:
  absl::StatusOr<LinkCost> Ask() {
    const auto asked = [this] {
      return answerer_.done();
    };
    if (!settings_.asks_first) WEFT_RETURN_IF_ERROR(Await(settings_.previous, asked));
    WEFT_ASSIGN_OR_RETURN(const LinkCost cost, Measure());
    WEFT_RETURN_IF_ERROR(Await(settings_.previous, asked));
    return cost;
  }

  // A link may be broken for a large message that is taken back while it is under way, and the group needs the link.
  void WindDown() {
    const int64_t until_ns = MonotonicNs() + kWindDownNs;
    const auto under_way = [this] {
      return answerer_.receives() || std::any_of(bulk_.begin(), bulk_.end(), IsUnderWay);
    };
    while (under_way() && MonotonicNs() < until_ns) {
      if (settings_.transport->Advance()) {
        answerer_.Step();
      } else {
        Nap(until_ns);
      }
    }
  }

  void Nap(int64_t until_ns) {
    std::vector<PollItem> items;
    settings_.transport->AppendPollItems(&items);
    (void)SystemSeams().net->Poll(items, std::min(until_ns, MonotonicNs() + kSocketNapNs));
  }

  StreamId StreamOf(int asks) const {
    return {settings_.group_id, static_cast<uint64_t>(asks) + 1};
  }

  bool IsLate() const { return MonotonicNs() >= settings_.deadline_ns; }

  absl::Status Late(int awaited) const {
    return MakeError(
        WEFT_TIMEOUT, {.rank = awaited},
        fmt::format(
            "measuring links takes too long: rank {} waits for rank {}, which {}", settings_.self,
            awaited,
            answerer_.done() || awaited != settings_.previous ? "is to answer" : "is to ask"));
  }

  // What `awaited` is to do.
  template <typename Ready>
  absl::Status Await(int awaited, const Ready& ready) {
    const auto ended = [&] {
      (void)settings_.transport->Advance();
      answerer_.Step();
      return answerer_.failed() || ready();
    };
    const auto late = [&] {
      return IsLate();
    };
    while (true) {
      EventCount nobody;
      Deadline at_once{0};  // its sleeps are not on sockets
      if (WaitUntil(nobody, kAwake, at_once, ended, late) == WaitResult::kReady) break;
      if (late()) return Late(awaited);
      Nap(settings_.deadline_ns);
    }
    if (!answerer_.failed()) return absl::OkStatus();
    return MakeError(WEFT_CORRUPT, {.rank = settings_.previous},
                     fmt::format("rank {} asks rank {} for what is no measurement of a link",
                                 settings_.previous, settings_.self));
  }

  absl::Status AwaitEnd(const Transfer& transfer) {
    WEFT_RETURN_IF_ERROR(Await(settings_.next, [&] { return !IsUnderWay(transfer); }));
    if (transfer.state() == TransferState::kDone) return absl::OkStatus();
    return MakeError(WEFT_CORRUPT, {.rank = settings_.next},
                     fmt::format("rank {} does not measure the link from rank {}", settings_.next,
                                 settings_.self));
  }

  // What it takes, in nanoseconds.
  absl::StatusOr<int64_t> Round(uint32_t messages, uint32_t bytes) {
    // However quickly the answers come: none is waited for, so nobody would look at the clock.
    if (IsLate()) return Late(settings_.next);
    order_ = {messages, bytes};
    int64_t begun_ns = MonotonicNs();
    way_.Receive(&answer_, &word_, sizeof(word_));
    way_.Send(&order_transfer_, &order_, sizeof(order_));
    if (messages > 0) {
      // The other side has said that it waits for them.
      WEFT_RETURN_IF_ERROR(AwaitEnd(answer_));
      way_.Receive(&answer_, &word_, sizeof(word_));
      begun_ns = MonotonicNs();
      for (uint32_t i = 0; i < messages; ++i)
        way_.Send(&bulk_[i], memory_.data(), bytes);
    }
    WEFT_RETURN_IF_ERROR(AwaitEnd(answer_));
    const int64_t took_ns = MonotonicNs() - begun_ns;
    WEFT_RETURN_IF_ERROR(AwaitEnd(order_transfer_));
    for (uint32_t i = 0; i < messages; ++i)
      WEFT_RETURN_IF_ERROR(AwaitEnd(bulk_[i]));
    return std::max<int64_t>(took_ns, 1);
  }

  // The lower quartile of some rounds, at least one, until `until_ns`.
  absl::StatusOr<int64_t> Rounds(int count, uint32_t messages, uint32_t bytes, int64_t until_ns) {
    std::vector<int64_t> times;
    while (times.empty() ||
           (static_cast<int>(times.size()) < count && MonotonicNs() + times.back() < until_ns)) {
      WEFT_ASSIGN_OR_RETURN(times.emplace_back(), Round(messages, bytes));
    }
    return LowerQuartile(std::move(times));
  }

  absl::StatusOr<LinkCost> Measure() {
    WEFT_RETURN_IF_ERROR(Round(0, 0).status());  // there is a connection then
    const int64_t begun_ns = MonotonicNs();
    const auto part = [&](int64_t parts) {
      return begun_ns + settings_.budget_ns * parts / 4;
    };
    WEFT_ASSIGN_OR_RETURN(const int64_t trip_ns, Rounds(kRoundTrips, 0, 0, part(1)));
    WEFT_ASSIGN_OR_RETURN(const int64_t burst_ns, Rounds(kBursts, kBurst, kSmallBytes, part(2)));
    int64_t smaller_ns = trip_ns;
    int64_t larger_ns = 0;
    uint32_t more_bytes = 0;
    for (size_t i = 0; i < std::size(kBulkBytes); ++i) {
      if (i > 0) {
        // As much longer as it is larger, and then the budget is spent.
        if (MonotonicNs() + 4 * larger_ns > part(4)) break;
        smaller_ns = larger_ns;
      }
      WEFT_ASSIGN_OR_RETURN(larger_ns, Rounds(kBulks, 1, kBulkBytes[i], part(4)));
      more_bytes = kBulkBytes[i] - (i > 0 ? kBulkBytes[i - 1] : 0);
    }
    order_ = {kEnd, 0};
    way_.Send(&order_transfer_, &order_, sizeof(order_));
    WEFT_RETURN_IF_ERROR(AwaitEnd(order_transfer_));
    return CostOf(trip_ns, burst_ns, larger_ns - smaller_ns, more_bytes);
  }

  // What is slower than a round trip is more than noise.
  static LinkCost CostOf(int64_t trip_ns, int64_t burst_ns, int64_t more_ns, uint32_t more_bytes) {
    const int64_t one_way_ns = trip_ns / 2;
    LinkCost cost;
    cost.overhead_ns = std::clamp<int64_t>((burst_ns - trip_ns) / (kBurst - 1), 1,
                                           std::max<int64_t>(1, one_way_ns / 2));
    cost.latency_ns = std::max<int64_t>(0, one_way_ns - 2 * cost.overhead_ns);
    cost.ns_per_byte =
        static_cast<double>(std::max<int64_t>(more_ns, 1)) / static_cast<double>(more_bytes);
    return cost;
  }

  const LinkProbeSettings settings_;
  std::vector<std::byte> memory_;  // what is sent, and what is received
  Way way_;
  Order order_;
  Transfer order_transfer_;
  std::array<Transfer, kBurst> bulk_;
  Transfer answer_;
  uint64_t word_ = 0;
  Answerer answerer_;
};

}  // namespace

absl::StatusOr<LinkCost> ProbeLink(const LinkProbeSettings& settings) {
  return LinkProbe(settings).Run();
}

}  // namespace weft
