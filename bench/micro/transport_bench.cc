// A message there and one back between two processes of this machine, over shared memory, over TCP on loopback, and over UCX if its module
// is there, which speaks TCP unless UCX_TLS says otherwise.
//
//   transport_bench [ROUNDS]      // 7 rounds of each carrier and size in turns; one JSON object on standard output
//
// Both processes move their transports until the message has come, as a group that waits does before it sleeps; with "sleeps" they sleep as
// soon as nothing can be moved. Median, least and most of the rounds: microseconds for half of the way there and back.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/net.h"
#include "base/options.h"
#include "base/seams.h"
#include "base/wait.h"
#include "comm/transport/routed_transport.h"
#include "comm/transport/shared_memory_transport.h"
#include "comm/transport/tcp_transport.h"
#include "comm/transport/ucx/load_ucx.h"
#include "comm/transport/ucx/ucx_port.h"
#include "comm/transport/ucx/ucx_transport.h"

namespace weft {
namespace {

constexpr size_t kSizes[] = {8, 4096, 65'536, 1 << 20, 16 << 20};
constexpr int64_t kRoundNs = 150'000'000;
constexpr int64_t kLimitNs = 10'000'000'000;

// kRouted: shared memory, beside TCP that nobody needs, as in a group of several islands.
enum class Carrier { kSharedMemory, kRouted, kTcp, kUcx };

constexpr Carrier kCarriers[] = {Carrier::kSharedMemory, Carrier::kRouted, Carrier::kTcp,
                                 Carrier::kUcx};

const char* NameOf(Carrier carrier) {
  switch (carrier) {
    case Carrier::kSharedMemory:
      return "shared memory";
    case Carrier::kRouted:
      return "routed";
    case Carrier::kTcp:
      return "tcp";
    case Carrier::kUcx:
      return "ucx";
  }
  return "";
}

[[noreturn]] void Give(const char* what) {
  std::fprintf(stderr, "transport_bench: %s\n", what);
  _exit(1);
}

// How two processes tell each other where they are.
struct Addresses {
  std::atomic<size_t> bytes[2];
  char text[2][UcxPort::kAddressBytesMax];
};

// What both processes know; the memory outlives their transports.
struct Setup {
  Setup()
      : bytes(SharedMemoryTransport::BytesFor(2)),
        memory(static_cast<std::byte*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))),
        addresses(new (mmap(nullptr, sizeof(Addresses), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Addresses) {
    SharedMemoryTransport::Clear(memory, 2);
  }

  Setup(const Setup&) = delete;
  Setup& operator=(const Setup&) = delete;

  ~Setup() {
    munmap(memory, bytes);
    munmap(addresses, sizeof(Addresses));
  }

  const size_t bytes;
  std::byte* const memory;
  Addresses* const addresses;
  std::vector<std::vector<Endpoint>> endpoints;
};

std::unique_ptr<Transport> JoinUcx(const Setup& setup, int rank) {
  UcxPort::Settings ports;
  if (EnvironmentValue("UCX_TLS") == nullptr) ports.transports = "tcp";
  auto port = UcxPort::Open(ports);
  if (!port.ok()) Give("no UCX");
  const std::string& own = (*port)->address();
  std::copy(own.begin(), own.end(), setup.addresses->text[rank]);
  setup.addresses->bytes[rank].store(own.size());
  UcxSettings settings{.secret = "bench", .self = rank};
  const int64_t until_ns = MonotonicNs() + kLimitNs;
  for (int other = 0; other < 2; ++other) {
    while (setup.addresses->bytes[other].load() == 0) {
      if (MonotonicNs() > until_ns) Give("no address");
      usleep(100);
    }
    settings.addresses.emplace_back(setup.addresses->text[other],
                                    setup.addresses->bytes[other].load());
  }
  auto made = UcxTransport::Make(SystemSeams(), *std::move(port), std::move(settings));
  if (!made.ok()) Give("no UCX");
  return *std::move(made);
}

std::unique_ptr<Transport> Join(Carrier carrier, const Setup& setup, int rank) {
  if (carrier == Carrier::kUcx) return JoinUcx(setup, rank);
  std::vector<std::unique_ptr<Transport>> carriers;
  if (carrier != Carrier::kTcp) {
    auto made = SharedMemoryTransport::Make(
        SystemSeams(), {.memory = setup.memory, .ranks = {0, 1}, .self = rank});
    if (!made.ok()) Give("no shared memory");
    carriers.push_back(*std::move(made));
  }
  if (carrier != Carrier::kSharedMemory) {
    auto made = TcpTransport::Make(SystemSeams(),
                                   {.secret = "bench", .self = rank, .endpoints = setup.endpoints});
    if (!made.ok()) Give("no socket");
    carriers.push_back(*std::move(made));
  }
  if (carrier != Carrier::kRouted) return std::move(carriers.front());
  return std::make_unique<RoutedTransport>(std::move(carriers), std::vector<int>(2, 0));
}

class Player {
 public:
  Player(Transport& transport, int rank, size_t bytes, bool sleeps)
      : transport_(transport), rank_(rank), sleeps_(sleeps), memory_(bytes, std::byte{1}) {}

  // `goes_on`: what this rank says of the next one; the other one's word comes with the message.
  bool Exchange(bool goes_on) {
    ++sequence_;
    memory_[0] = std::byte{goes_on};
    if (rank_ == 0) Move(/*is_send=*/true);
    Move(/*is_send=*/false);
    const bool heard = memory_[0] == std::byte{1};
    if (rank_ == 1) Move(/*is_send=*/true);
    return heard;
  }

 private:
  void Move(bool is_send) {
    Transfer transfer{.peer = 1 - rank_,
                      .stream = {.group_id = 1, .sequence = sequence_},
                      .signature = 1,
                      .is_send = is_send,
                      .memory = memory_.data(),
                      .bytes = memory_.size()};
    transport_.Post(&transfer);
    const int64_t until_ns = MonotonicNs() + kLimitNs;
    while (true) {
      const bool moved = transport_.Advance();
      if (transfer.state() == TransferState::kDone) return;
      if (moved) continue;
      if (transfer.state() != TransferState::kPosted || MonotonicNs() > until_ns) Give("it hangs");
      if (!sleeps_) continue;
      std::vector<PollItem> items;
      transport_.AppendPollItems(&items);
      (void)SystemSeams().net->Poll(items, MonotonicNs() + 1'000'000);
    }
  }

  Transport& transport_;
  const int rank_;
  const bool sleeps_;
  uint64_t sequence_ = 0;
  std::vector<std::byte> memory_;
};

// Microseconds of one way.
double RunRound(Carrier carrier, size_t bytes, bool sleeps) {
  Setup setup;
  std::vector<UniqueFd> reserved;
  for (int rank = 0; rank < 2; ++rank) {
    Endpoint endpoint{.kind = Endpoint::Kind::kTcp, .host = "127.0.0.1"};
    auto fd = ReserveEndpoint(&endpoint);
    if (!fd.ok()) Give("no port");
    reserved.push_back(*std::move(fd));
    setup.endpoints.push_back({endpoint});
  }
  const pid_t child = fork();
  if (child == 0) {
    const auto transport = Join(carrier, setup, 1);
    Player player(*transport, 1, bytes, sleeps);
    while (player.Exchange(true)) {
    }
    _exit(0);
  }
  const auto transport = Join(carrier, setup, 0);
  Player player(*transport, 0, bytes, sleeps);
  player.Exchange(true);
  const int64_t warm_ns = MonotonicNs() + kRoundNs / 5;
  while (MonotonicNs() < warm_ns)
    player.Exchange(true);
  int64_t count = 0;
  const int64_t begin_ns = MonotonicNs();
  int64_t end_ns = begin_ns;
  for (; end_ns < begin_ns + kRoundNs; end_ns = MonotonicNs()) {
    player.Exchange(true);
    ++count;
  }
  player.Exchange(false);
  waitpid(child, nullptr, 0);
  return static_cast<double>(end_ns - begin_ns) * 1e-3 / static_cast<double>(2 * count);
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  using weft::Carrier;
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  if (argc > 2 || rounds < 1) {
    std::fprintf(stderr, "usage: transport_bench [ROUNDS]\n");
    return 2;
  }
  std::vector<Carrier> carriers(std::begin(weft::kCarriers), std::end(weft::kCarriers));
  if (!weft::LoadUcxModule().ok()) carriers.pop_back();
  std::printf("{\"unit\": \"us one way\", \"rounds\": %d, \"cases\": [", rounds);
  const char* separator = "\n";
  for (const bool sleeps : {false, true}) {
    for (const size_t bytes : weft::kSizes) {
      std::vector<double> times[std::size(weft::kCarriers)];
      for (int round = 0; round < rounds; ++round) {
        for (const Carrier carrier : carriers)
          times[static_cast<size_t>(carrier)].push_back(weft::RunRound(carrier, bytes, sleeps));
      }
      for (const Carrier carrier : carriers) {
        std::vector<double>& own = times[static_cast<size_t>(carrier)];
        std::sort(own.begin(), own.end());
        std::printf(
            "%s  {\"carrier\": \"%s\", \"bytes\": %zu, \"sleeps\": %s, \"median\": %.2f, \"min\": "
            "%.2f, \"max\": %.2f}",
            separator, NameOf(carrier), bytes, sleeps ? "true" : "false", own[own.size() / 2],
            own.front(), own.back());
        separator = ",\n";
        std::fflush(stdout);
      }
    }
  }
  std::printf("\n]}\n");
  return 0;
}
