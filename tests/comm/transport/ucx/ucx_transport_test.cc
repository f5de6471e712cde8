// What only UCX meets: processes that are killed or stopped while memory is under way, strangers, the program's handlers of signals. That it
// is a transport like the others shows transport_test.
#include "comm/transport/ucx/ucx_transport.h"

#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/transport/ucx/load_ucx.h"
#include "tests/support/forked_ranks.h"
#include "tests/support/leak_check.h"
#include "tests/support/shared_value.h"

namespace weft::test {
namespace {

constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kLimitNs = 20 * kSecondNs;
constexpr uint64_t kGroup = 9;

// What the ranks of a test tell each other without UCX.
struct Told {
  char addresses[4][UcxPort::kAddressBytesMax];
  std::atomic<size_t> bytes[4];
  std::atomic<int> pids[4];
  std::atomic<int> stage;
};

bool Await(const std::function<bool()>& done, int64_t within_ns = kLimitNs) {
  const int64_t until_ns = MonotonicNs() + within_ns;
  while (!done()) {
    if (MonotonicNs() > until_ns) return false;
    usleep(200);
  }
  return true;
}

// Of a rank that is a process; nullptr if it cannot be made.
std::unique_ptr<UcxTransport> Join(int rank, int size, Told* told) {
  auto port = UcxPort::Open({.transports = "tcp"});
  if (!port.ok()) return nullptr;
  const std::string& own = (*port)->address();
  std::memcpy(told->addresses[rank], own.data(), own.size());
  told->pids[rank].store(getpid());
  told->bytes[rank].store(own.size());
  UcxSettings settings{.secret = "secret", .self = rank};
  for (int other = 0; other < size; ++other) {
    if (!Await([&] { return told->bytes[other].load() != 0; })) return nullptr;
    settings.addresses.emplace_back(told->addresses[other], told->bytes[other].load());
  }
  return UcxTransport::Make(SystemSeams(), *std::move(port), std::move(settings)).value();
}

Transfer Send(int peer, uint64_t sequence, std::vector<std::byte>* memory) {
  return {.peer = peer,
          .stream = {kGroup, sequence},
          .signature = 1,
          .is_send = true,
          .memory = memory->data(),
          .bytes = memory->size()};
}

Transfer Receive(int peer, uint64_t sequence, std::vector<std::byte>* memory) {
  Transfer transfer = Send(peer, sequence, memory);
  transfer.is_send = false;
  return transfer;
}

bool Move(UcxTransport& transport, const std::function<bool()>& done,
          int64_t within_ns = kLimitNs) {
  const int64_t until_ns = MonotonicNs() + within_ns;
  while (!done()) {
    if (MonotonicNs() > until_ns) return false;
    if (transport.Advance()) continue;
    std::vector<PollItem> items;
    transport.AppendPollItems(&items);
    (void)SystemSeams().net->Poll(items, MonotonicNs() + 1'000'000);
  }
  return true;
}

bool Ended(const Transfer& transfer) {
  return transfer.state() != TransferState::kPosted;
}

void ExpectAllWell(const std::vector<RankEnd>& ends, int killed = -1) {
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    if (static_cast<int>(rank) == killed) continue;
    EXPECT_EQ(ends[rank].Problem(), "") << "rank " << rank;
  }
}

TEST(UcxTransport, RanksThatSleepAreWokenAndLeaveNothingBehind) {
  const SharedValue<Told> told;
  ExpectAllWell(RunForkedRanks(2, 60, [&](int rank) -> std::string {
    const Holdings before = Holdings::Now();
    {
      const auto transport = Join(rank, 2, told.operator->());
      if (transport == nullptr) return "not joined";
      for (uint64_t sequence = 1; sequence < 40; ++sequence) {
        std::vector<std::byte> in(sequence % 3 == 0 ? 5'000'000 : 100);
        std::vector<std::byte> out(in.size(), static_cast<std::byte>(rank + 1));
        Transfer receive = Receive(1 - rank, sequence, &in);
        Transfer send = Send(1 - rank, sequence, &out);
        transport->Post(&receive);
        if (rank == 1 && sequence % 5 == 0) usleep(20'000);  // the other one sleeps
        transport->Post(&send);
        if (!Move(*transport, [&] { return Ended(receive) && Ended(send); })) return "it hangs";
        if (receive.state() != TransferState::kDone ||
            in.back() != static_cast<std::byte>(2 - rank))
          return StrCat("wrong data in ", sequence);
      }
    }
    const std::string left = Holdings::Now().Since(before);
    return left.empty() ? "" : "left behind: " + left;
  }));
}

// In the middle of a large message, of which it has memory of the survivor's under way.
TEST(UcxTransport, AKilledPeerIsAnEvent) {
  for (const bool sends : {true, false}) {
    SCOPED_TRACE(sends);
    const SharedValue<Told> told;
    const auto ends = RunForkedRanks(2, 60, [&](int rank) -> std::string {
      const auto transport = Join(rank, 2, told.operator->());
      if (transport == nullptr) return "not joined";
      std::vector<std::byte> small(100);
      Transfer first = rank == 0 ? Send(1, 1, &small) : Receive(0, 1, &small);
      transport->Post(&first);
      if (!Move(*transport, [&] { return Ended(first); })) return "the first message hangs";
      std::vector<std::byte> large(32 << 20);
      const bool own_sends = (rank == 0) == sends;
      Transfer second = own_sends ? Send(1 - rank, 2, &large) : Receive(1 - rank, 2, &large);
      transport->Post(&second);
      if (rank == 1) {
        // Of a send the first part counts as moved when it is begun.
        size_t begun = 0;
        const auto under_way = [&] {
          if (begun == 0 && own_sends) begun = second.moved;
          return second.moved > begun;
        };
        (void)Move(*transport, under_way, kSecondNs);
        (void)kill(getpid(), SIGKILL);
      }
      const int64_t begin_ns = MonotonicNs();
      std::vector<LinkEvent> events;
      if (!Move(*transport, [&] { return !(events = transport->TakeEvents()).empty(); }))
        return "nobody says that it is gone";
      if (MonotonicNs() - begin_ns > 5 * kSecondNs) return "it took long";
      if (events[0].peer != 1 || weft::ResultOf(events[0].why) != WEFT_UNREACHABLE)
        return StrCat("it says ", std::string(events[0].why.message()));
      if (second.state() != TransferState::kPosted) return "an event is no verdict";
      transport->CloseGroup(kGroup);
      return second.state() == TransferState::kRetracted ? "" : "it was not given back";
    });
    ExpectAllWell(ends, 1);
    EXPECT_TRUE(WIFSIGNALED(ends[1].wait_status));
  }
}

// It holds the memory of a part and does not move: a second, then the connection is ended, and the memory is its owner's.
TEST(UcxTransport, AStoppedPeerKeepsMemoryForASecondAtMost) {
  for (const bool sends : {true, false}) {
    SCOPED_TRACE(sends);
    const SharedValue<Told> told;
    const auto ends = RunForkedRanks(2, 60, [&](int rank) -> std::string {
      const auto transport = Join(rank, 2, told.operator->());
      if (transport == nullptr) return "not joined";
      std::vector<std::byte> large(32 << 20);
      const bool own_sends = (rank == 0) == sends;
      Transfer transfer = own_sends ? Send(1 - rank, 2, &large) : Receive(1 - rank, 2, &large);
      transport->Post(&transfer);
      if (rank == 1) {
        (void)Move(
            *transport, [&] { return transfer.moved > 0; }, kSecondNs);
        told->stage.store(1);
        (void)raise(SIGSTOP);
        return "";
      }
      const bool stopped = Move(*transport, [&] { return told->stage.load() == 1; });
      // What the kernel still has of it.
      (void)Move(
          *transport, [] { return false; }, kSecondNs / 5);
      const int64_t begin_ns = MonotonicNs();
      transport->CloseGroup(kGroup);
      const int64_t took_ns = MonotonicNs() - begin_ns;
      const bool back = transfer.state() == TransferState::kRetracted;
      std::memset(large.data(), 0xee, large.size());
      (void)Move(
          *transport, [] { return false; }, kSecondNs / 10);
      const bool untouched = large[0] == std::byte{0xee} &&
                             std::memcmp(large.data(), &large[1], large.size() - 1) == 0;
      (void)kill(told->pids[1].load(), SIGKILL);
      if (!stopped) return "it has not stopped";
      if (took_ns > 3 * kSecondNs / 2) return StrCat("it took ", took_ns / 1'000'000, " ms");
      if (!back) return "it was not given back";
      return untouched ? "" : "memory was touched";
    });
    ExpectAllWell(ends, 1);
  }
}

// Somebody who reaches the port, and knows what is said there, but not the secret.
TEST(UcxTransport, WhoDoesNotKnowTheSecretIsNotHeard) {
  auto port = UcxPort::Open({.transports = "tcp"}).value();
  auto strange = UcxPort::Open({.transports = "tcp"}).value();
  auto own = UcxPort::Open({.transports = "tcp"}).value();
  const std::vector<std::string> addresses = {own->address(), port->address()};
  const std::string target = port->address();
  auto rank0 = UcxTransport::Make(SystemSeams(), std::move(own),
                                  {.secret = "secret", .self = 0, .addresses = addresses})
                   .value();
  auto rank1 = UcxTransport::Make(SystemSeams(), std::move(port),
                                  {.secret = "secret", .self = 1, .addresses = addresses})
                   .value();
  UcxPeer* const peer = strange->Connect(target, 1).value();
  const UcxModule& ucx = strange->module();
  std::vector<std::string> words = {"", "x", std::string(10'000, 'y')};
  for (const int32_t from : {0, 1, 7, -1}) {
    UcxHead head = {};
    head.from = from;
    head.kind = UcxHead::Kind::kBytes;
    words.emplace_back(reinterpret_cast<const char*>(&head), sizeof(head));
    words.back() += "what is no frame";
    head.kind = UcxHead::Kind::kBye;
    words.emplace_back(reinterpret_cast<const char*>(&head), sizeof(head));
  }
  for (std::string& word : words) {
    const iovec piece = {word.data(), word.size()};
    EXPECT_EQ(ucx.say(peer, &piece, 1), UcxAnswer::kDone);
  }
  std::vector<std::byte> in(100'000);
  std::vector<std::byte> out(in.size(), std::byte{3});
  const int64_t until_ns = MonotonicNs() + kSecondNs / 5;
  while (MonotonicNs() < until_ns) {
    strange->Progress();
    rank1->Advance();
  }
  Transfer receive = Receive(0, 1, &in);
  Transfer send = Send(1, 1, &out);
  rank1->Post(&receive);
  rank0->Post(&send);
  const int64_t limit_ns = MonotonicNs() + kLimitNs;
  while (!(Ended(receive) && Ended(send)) && MonotonicNs() < limit_ns) {
    strange->Progress();
    rank0->Advance();
    rank1->Advance();
  }
  EXPECT_EQ(receive.state(), TransferState::kDone);
  EXPECT_TRUE(in == out);
  EXPECT_TRUE(rank1->TakeEvents().empty());
}

void OwnHandler(int /*signal*/) {}

struct sigaction ActionOf(int signal) {
  struct sigaction action = {};
  (void)sigaction(signal, nullptr, &action);
  return action;
}

TEST(UcxTransport, TheProgramsSignalHandlersStay) {
  ExpectAllWell(RunForkedRanks(1, 30, [](int /*rank*/) -> std::string {
    struct sigaction own = {};
    own.sa_handler = OwnHandler;
    (void)sigaction(SIGSEGV, &own, nullptr);
    constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};  // a sanitizer may have some
    std::vector<struct sigaction> before;
    for (const int signal : kSignals)
      before.push_back(ActionOf(signal));
    const auto port = UcxPort::Open({.transports = "tcp"});
    if (!port.ok()) return std::string(port.status().message());
    for (size_t i = 0; i < before.size(); ++i) {
      if (ActionOf(kSignals[i]).sa_handler != before[i].sa_handler)
        return StrCat("signal ", kSignals[i], " has another handler");
    }
    return ActionOf(SIGSEGV).sa_handler == OwnHandler ? "" : "the program's own is gone";
  }));
}

// A child of a process that talks leaves its connections alone.
TEST(UcxTransport, AForkedChildTouchesNothing) {
  const SharedValue<Told> told;
  ExpectAllWell(RunForkedRanks(2, 60, [&](int rank) -> std::string {
    auto transport = Join(rank, 2, told.operator->());
    if (transport == nullptr) return "not joined";
    for (uint64_t sequence = 1; sequence < 3; ++sequence) {
      std::vector<std::byte> memory(200'000);
      Transfer transfer = rank == 0 ? Send(1, sequence, &memory) : Receive(0, sequence, &memory);
      transport->Post(&transfer);
      if (!Move(*transport, [&] { return Ended(transfer); })) return "it hangs";
      if (rank == 1 || sequence > 1) continue;
      const pid_t child = fork();
      if (child == 0) {
        transport.reset();
        _exit(0);
      }
      int status = 0;
      if (waitpid(child, &status, 0) != child || status != 0) return "the child has not ended well";
    }
    return "";
  }));
}

}  // namespace
}  // namespace weft::test
