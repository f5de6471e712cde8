#include "tests/comm/agent/real_islands.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <new>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/poll_set.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/agent/agent.h"
#include "comm/agent/island_shared_memory.h"

namespace weft::test {
namespace {

constexpr int kEventsMax = 256;
constexpr int kRecordsMax = 8;
constexpr uint16_t kFirstPort = 20'000;

void RingBell(int bell) {
  const uint64_t one = 1;
  WEFT_CHECK(write(bell, &one, sizeof(one)) == sizeof(one));
}

void Silence(int bell) {
  uint64_t count = 0;
  (void)!read(bell, &count, sizeof(count));
}

uint64_t Bits(const IslandNumberSet& set) {
  uint64_t bits = 0;
  for (const int number : set.Numbers())
    bits |= uint64_t{1} << number;
  return bits;
}

// As a process's progress thread does when no operation is queued (comm/group/progress.cc).
[[noreturn]] void LookAfter(const std::shared_ptr<Watched>& island) {
  PollSet set;
  WEFT_CHECK(set.Open().ok());
  Agent agent(*SystemSeams().clock, set);
  agent.Add(island);
  bool event = true;
  while (true) {
    const uint32_t heard = set.rings();
    const int64_t next_ns = agent.Step(event);
    event = set.Sleep(heard, next_ns);
  }
}

}  // namespace

// What the test wants of an island's ranks.
struct alignas(64) RealIslands::IslandBoard {
  struct Record {
    uint64_t group;
    weft_result_t result;
    int32_t culprit;
  };

  std::atomic<int> version{0};
  std::atomic<int> record_count{0};
  Record records[kRecordsMax];
  std::atomic<int64_t> reconfigure_deadline_ns{0};  // 0: nobody waits
  std::atomic<int> breaks{0};
};

struct alignas(64) RealIslands::ProcessNotes {
  // Who it is, before all begin.
  std::atomic<int32_t> pid{0};
  uint64_t start_time = 0;
  std::atomic<bool> speaking{false};
  std::atomic<int> connected{0};
  std::atomic<uint64_t> answers{0};
  std::atomic<int> event_count{0};
  RealEvent events[kEventsMax];
};

// In a process of the job. Its agent looks after nothing but the island.
class RealIslands::Rank : public Watched {
 public:
  Rank(const RealIslands& job, int island, int process, const IslandMap& map)
      : job_(job),
        island_(island),
        process_(process),
        map_(map),
        memory_(map, island, process, job.memories_[static_cast<size_t>(island)].data()),
        side_(SystemSeams(), {.secret = "a secret of the job", .limit_ns = job.shape_.limit_ns},
              map, &memory_, island, process) {}

  void Begin() { WEFT_CHECK(side_.Watch().ok()); }

  void AppendLifelines(std::vector<int>* /*lifelines*/) const override {}

  void AppendPollItems(std::vector<PollItem>* items) const override {
    items->push_back({.handle = bell(), .want_read = true});
    side_.AppendPollItems(items);
  }

  int64_t Look(int64_t /*now_ns*/) override {
    Silence(bell());
    side_.Step();
    IslandAgent& agent = side_.agent();
    if (agent.speaking()) {
      Tell();
      agent.Step();
    }
    ProcessNotes& notes = job_.notes(island_, process_);
    const int connected = agent.reach() == nullptr ? 0 : agent.reach()->connected().Count();
    bool news = notes.speaking.exchange(agent.speaking()) != agent.speaking();
    news |= notes.connected.exchange(connected) != connected;
    news |= notes.answers.exchange(agent.answers()) != agent.answers();
    while (std::optional<IslandEvent> event = agent.NextEvent()) {
      Note(*event);
      news = true;
    }
    if (news) RingBell(job_.told_);
    return side_.NextWakeNs();
  }

  std::optional<ProcessWait> Wait() const override { return std::nullopt; }

  void Show(const std::optional<ProcessWait>& /*wait*/) override {}

  std::optional<ProcessWait> Read(const ProcessName& /*process*/) const override {
    return std::nullopt;
  }

 private:
  int bell() const { return job_.bells_[static_cast<size_t>(job_.RankOf(island_, process_))]; }

  // What the ranks of this island want, once to each speaker.
  void Tell() {
    IslandBoard& board = job_.board(island_);
    const int version = board.version.load();
    if (version == told_version_ && side_.beginnings() == told_beginning_) return;
    told_version_ = version;
    told_beginning_ = side_.beginnings();
    IslandAgent& agent = side_.agent();
    if (const int breaks = board.breaks.load(); std::exchange(breaks_, breaks) < breaks) Break();
    const IslandState state = memory_.Read();
    // What is wanted here is of the first epoch.
    if (state.epoch != 1) return;
    for (int i = 0; i < board.record_count.load(); ++i) {
      const IslandBoard::Record& record = board.records[i];
      (void)agent.LocalRecord(
          {.group_id = record.group,
           .finder = job_.RankOf(island_, 0),
           .culprit = record.culprit,
           .result = record.result,
           .sentence = StrCat("result ", record.result, " by rank ", record.culprit)});
    }
    const int64_t deadline_ns = board.reconfigure_deadline_ns.load();
    if (deadline_ns == 0) return;
    IslandNumberSet ranks(map_.rank_count());
    for (const int rank : map_.RanksOf(island_))
      ranks.Add(rank);
    for (const RankDeath& death : state.deaths)
      ranks.Remove(death.world_rank);
    agent.StartReconfigure(ranks, deadline_ns);
  }

  void Break() {
    std::vector<PollItem> items;
    side_.agent().AppendPollItems(&items);
    for (const PollItem& item : items) {
      int listens = 0;
      socklen_t size = sizeof(listens);
      getsockopt(item.handle, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
      if (listens == 0) shutdown(item.handle, SHUT_RDWR);
    }
  }

  void Note(const IslandEvent& event) {
    ProcessNotes& notes = job_.notes(island_, process_);
    const int count = notes.event_count.load();
    if (count == kEventsMax) return;
    notes.events[count] = {.kind = event.kind,
                           .time_ns = MonotonicNs(),
                           .rank = event.rank,
                           .island = event.island,
                           .signal = event.exit.signal,
                           .group = event.verdict.record.group_id,
                           .culprit = event.verdict.record.culprit,
                           .result = event.verdict.record.result,
                           .epoch = event.epoch,
                           .ranks = Bits(event.ranks)};
    notes.event_count.store(count + 1);
  }

  const RealIslands& job_;
  const int island_;
  const int process_;
  const IslandMap& map_;
  IslandSharedMemory memory_;
  IslandSide side_;
  int told_version_ = 0;
  uint64_t told_beginning_ = 0;
  int breaks_ = 0;
};

RealIslands::RealIslands(RealIslandsShape shape) : shape_(std::move(shape)) {
  const auto islands = static_cast<size_t>(shape_.islands);
  const size_t processes = islands * static_cast<size_t>(shape_.ranks_per_island);
  WEFT_CHECK(processes <= 64);
  shared_ = *Pages::Create("weft-islands-test",
                           islands * sizeof(IslandBoard) + processes * sizeof(ProcessNotes),
                           Backing::kAllocated);
  told_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::vector<Island> list(islands);
  // 127.0.0.0/8 is this machine; the process's number makes addresses of its own.
  const int self = getpid();
  const std::string loopback = StrCat("127.", 1 + self / 256 % 254, ".", 1 + self % 254, ".");
  for (int island = 0; island < shape_.islands; ++island) {
    const std::string host = shape_.hosts.empty() ? StrCat(loopback, island + 1)
                                                  : shape_.hosts[static_cast<size_t>(island)];
    new (&board(island)) IslandBoard;
    for (int process = 0; process < shape_.ranks_per_island; ++process) {
      new (&notes(island, process)) ProcessNotes;
      bells_.push_back(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      list[static_cast<size_t>(island)].processes.push_back(
          {.world_rank = RankOf(island, process),
           .endpoint = {.kind = Endpoint::Kind::kTcp,
                        .host = host,
                        .port = static_cast<uint16_t>(kFirstPort + process)}});
    }
  }
  for (int island = 0; island < shape_.islands; ++island) {
    const IslandMap sizes(list, static_cast<int>(processes), 0);
    memories_.push_back(*Pages::Create("weft-island", IslandSharedMemory::BytesFor(sizes, island),
                                       Backing::kAllocated));
  }
  killed_.resize(processes);
  const int start = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  const pid_t test = getpid();
  for (int island = 0; island < shape_.islands; ++island) {
    for (int process = 0; process < shape_.ranks_per_island; ++process) {
      const pid_t pid = fork();
      WEFT_CHECK(pid >= 0);
      if (pid != 0) {
        pids_.push_back(pid);
        continue;
      }
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != test) _exit(1);
      if (shape_.enter) shape_.enter(island);
      const ProcessIdentity identity = SystemSeams().proc->Self();
      notes(island, process).start_time = identity.start_time;
      notes(island, process).pid = identity.pid;
      RingBell(told_);
      uint64_t begun = 0;
      WEFT_CHECK(read(start, &begun, sizeof(begun)) == sizeof(begun));
      for (int i = 0; i < shape_.islands; ++i) {
        for (int p = 0; p < shape_.ranks_per_island; ++p) {
          IslandProcess& entry = list[static_cast<size_t>(i)].processes[static_cast<size_t>(p)];
          entry.pid = notes(i, p).pid;
          entry.start_time = notes(i, p).start_time;
        }
      }
      const IslandMap map(list, static_cast<int>(processes), 0);
      const auto rank = std::make_shared<Rank>(*this, island, process, map);
      rank->Begin();
      LookAfter(rank);
    }
  }
  WEFT_CHECK(Await(
      [&] {
        for (size_t rank = 0; rank < processes; ++rank) {
          const int island = static_cast<int>(rank) / shape_.ranks_per_island;
          if (notes(island, static_cast<int>(rank) % shape_.ranks_per_island).pid == 0)
            return false;
        }
        return true;
      },
      20'000'000'000));
  const uint64_t all = processes;
  WEFT_CHECK(write(start, &all, sizeof(all)) == sizeof(all));
  close(start);
}

RealIslands::~RealIslands() {
  for (const pid_t pid : pids_)
    kill(pid, SIGKILL);
  for (const pid_t pid : pids_)
    waitpid(pid, nullptr, 0);
  for (const int bell : bells_)
    close(bell);
  close(told_);
}

RealIslands::IslandBoard& RealIslands::board(int island) const {
  return reinterpret_cast<IslandBoard*>(shared_.data())[island];
}

RealIslands::ProcessNotes& RealIslands::notes(int island, int process) const {
  std::byte* const first =
      shared_.data() + static_cast<size_t>(shape_.islands) * sizeof(IslandBoard);
  return reinterpret_cast<ProcessNotes*>(first)[RankOf(island, process)];
}

pid_t RealIslands::pid(int island, int process) const {
  return pids_[static_cast<size_t>(RankOf(island, process))];
}

void RealIslands::Signal(int island, int process, int signal) {
  WEFT_CHECK(kill(pid(island, process), signal) == 0);
  if (signal == SIGKILL) killed_[static_cast<size_t>(RankOf(island, process))] = true;
}

void RealIslands::SignalIsland(int island, int signal) {
  for (int process = 0; process < shape_.ranks_per_island; ++process)
    Signal(island, process, signal);
}

bool RealIslands::Lives(int island) const {
  for (int process = 0; process < shape_.ranks_per_island; ++process) {
    if (!killed_[static_cast<size_t>(RankOf(island, process))]) return true;
  }
  return false;
}

void RealIslands::Ring(int island) {
  ++board(island).version;
  for (int process = 0; process < shape_.ranks_per_island; ++process)
    RingBell(bells_[static_cast<size_t>(RankOf(island, process))]);
}

void RealIslands::Raise(int island, uint64_t group, weft_result_t result, int culprit) {
  IslandBoard& wanted = board(island);
  const int count = wanted.record_count.load();
  WEFT_CHECK(count < kRecordsMax);
  wanted.records[count] = {group, result, culprit};
  wanted.record_count.store(count + 1);
  Ring(island);
}

void RealIslands::Reconfigure(const std::vector<int>& islands, int64_t deadline_ns) {
  for (const int island : islands) {
    board(island).reconfigure_deadline_ns.store(deadline_ns);
    Ring(island);
  }
}

void RealIslands::BreakConnections(int island) {
  ++board(island).breaks;
  Ring(island);
}

int RealIslands::Speaker(int island) const {
  for (int process = 0; process < shape_.ranks_per_island; ++process) {
    if (killed_[static_cast<size_t>(RankOf(island, process))]) continue;
    if (notes(island, process).speaking) return process;
  }
  return -1;
}

int RealIslands::Connected(int island) const {
  const int speaker = Speaker(island);
  return speaker < 0 ? 0 : notes(island, speaker).connected.load();
}

uint64_t RealIslands::Answers(int island) const {
  uint64_t answers = 0;
  for (int process = 0; process < shape_.ranks_per_island; ++process)
    answers += notes(island, process).answers;
  return answers;
}

int64_t RealIslands::CpuNs(int island, int process) const {
  clockid_t clock = 0;
  timespec time = {};
  WEFT_CHECK(clock_getcpuclockid(pid(island, process), &clock) == 0);
  WEFT_CHECK(clock_gettime(clock, &time) == 0);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

std::vector<RealEvent> RealIslands::Events(int island) const {
  std::vector<RealEvent> events;
  for (int process = 0; process < shape_.ranks_per_island; ++process) {
    const ProcessNotes& of = notes(island, process);
    events.insert(events.end(), of.events, of.events + of.event_count.load());
  }
  return events;
}

std::optional<RealEvent> RealIslands::Find(
    int island, const std::function<bool(const RealEvent&)>& fits) const {
  std::optional<RealEvent> first;
  for (const RealEvent& event : Events(island)) {
    if (fits(event) && (!first || event.time_ns < first->time_ns)) first = event;
  }
  return first;
}

std::optional<RealEvent> RealIslands::FindDeath(int island, int rank) const {
  return Find(island, [&](const RealEvent& event) {
    return event.kind == IslandEvent::Kind::kRankDead && event.rank == rank;
  });
}

std::optional<RealEvent> RealIslands::FindSettled(int island, uint64_t group) const {
  return Find(island, [&](const RealEvent& event) {
    return event.kind == IslandEvent::Kind::kRecordSettled && event.group == group;
  });
}

int RealIslands::Count(int island, IslandEvent::Kind kind) const {
  int count = 0;
  for (const RealEvent& event : Events(island))
    count += event.kind == kind;
  return count;
}

bool RealIslands::Await(const std::function<bool()>& done, int64_t within_ns) {
  const int64_t deadline_ns = MonotonicNs() + within_ns;
  while (true) {
    Silence(told_);
    if (done()) return true;
    const int64_t left_ns = deadline_ns - MonotonicNs();
    if (left_ns <= 0) return false;
    pollfd item = {told_, POLLIN, 0};
    poll(&item, 1, static_cast<int>(left_ns / 1'000'000 + 1));
  }
}

bool RealIslands::AwaitAll(const std::function<bool(int island)>& done, int64_t within_ns) {
  return Await(
      [&] {
        for (int island = 0; island < shape_.islands; ++island) {
          if (Lives(island) && !done(island)) return false;
        }
        return true;
      },
      within_ns);
}

// A record settles once all islands have heard of each other.
std::string RealIslands::AwaitConnected() {
  constexpr uint64_t kFirstGroup = 1;
  Raise(0, kFirstGroup, WEFT_ABORTED, -1);
  const bool connected = AwaitAll(
      [&](int island) { return FindSettled(island, kFirstGroup).has_value(); }, 20'000'000'000);
  return connected ? "" : Describe();
}

void RealIslands::Quiet(int64_t ns) {
  Await([] { return false; }, ns);
}

std::string RealIslands::Describe() const {
  std::string text;
  for (int island = 0; island < shape_.islands; ++island) {
    text += StrCat("island ", island, ": process ", Speaker(island), " speaks, connected with ",
                   Connected(island), " islands, ", Answers(island), " answers; told:");
    for (const RealEvent& event : Events(island)) {
      text += StrCat(" (kind ", static_cast<int>(event.kind), " rank ", event.rank, " island ",
                     event.island, " group ", event.group, " ranks ", event.ranks, ")");
    }
    text += "\n";
  }
  return text;
}

}  // namespace weft::test
