// Processes and their network in one thread and in its own time, driven by a seed: messages are delayed, cut into
// pieces and reordered between connections; connections break; processes die or are stopped for a while; machines do not
// hear each other, in one direction or both, and nobody is told.
//
//   SimWorld world(seed);
//   SimNode* node = world.AddNode();          // a process on a machine of its own
//   SimNode* other = world.AddNode(node);     // another one on the same machine
//   world.AddActor(node, step, next_wake_ns, done);
//   EXPECT_TRUE(world.Run(limit_ns));
//
// Each node, a process, has its own Seams; whether another one has ended is known on the same machine only, as by a
// pidfd. An actor is a state machine on a node: the world calls its step
// whenever something may have happened; with Stepping::kTouched only on nodes to which something has, or whose time has
// come, which thousands of nodes need. The same seed gives the same run.
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/seams.h"

namespace weft::test {

class SimWorld;

class SimNode : public Net, public Clock, public Random, public Proc {
 public:
  SimNode(SimWorld* world, int number, int machine)
      : world_(world), number_(number), machine_(machine) {}

  Seams seams() { return {.clock = this, .net = this, .random = this, .proc = this}; }

  bool alive() const { return alive_; }

  // Its steps are not called, and what is sent to it waits.
  bool stopped() const { return stopped_; }

  int32_t pid() const { return 1000 + number_; }

  int64_t NowNs() override;
  absl::Status Fill(void* data, size_t bytes) override;
  absl::StatusOr<int> Listen(Endpoint* endpoint) override;
  absl::StatusOr<int> Accept(int listener) override;
  absl::StatusOr<int> Connect(const Endpoint& endpoint) override;
  absl::Status FinishConnect(int stream) override;
  IoResult Read(int stream, void* data, size_t bytes) override;
  IoResult Write(int stream, const void* data, size_t bytes) override;
  PeerIdentity Peer(int stream) override;
  void Close(int handle) override;
  void FinishWriting(int stream) override;
  // As systems do while their machines hear each other, whatever their processes do.
  int64_t UnansweredNs(int stream) override;
  absl::Status Poll(std::span<PollItem> items, int64_t deadline_ns) override;
  ProcessIdentity Self() override;
  // A pid that no process of this machine has is of one that has ended.
  absl::StatusOr<std::unique_ptr<PeerProcess>> Open(int32_t pid, uint64_t start_time) override;
  // There are no descriptors to send: UNSUPPORTED.
  absl::StatusOr<std::unique_ptr<PeerProcess>> Watch(Lifeline lifeline, int32_t pid,
                                                     uint64_t start_time) override;

 private:
  friend class SimWorld;
  SimWorld* const world_;
  const int number_;
  const int machine_;
  bool alive_ = true;
  bool stopped_ = false;
  ExitInfo exit_;  // once it is not alive
};

class SimWorld {
 public:
  enum class Stepping {
    kAll,      // all actors, in random order, whenever something happens anywhere
    kTouched,  // those of the nodes that it happens to
  };

  explicit SimWorld(uint64_t seed, Stepping stepping = Stepping::kAll)
      : random_(seed), stepping_(stepping) {}

  // A process on a machine of its own, or on that of `beside`.
  SimNode* AddNode(const SimNode* beside = nullptr);

  struct Actor {
    SimNode* node;
    std::function<void()> step;
    std::function<int64_t()> next_wake_ns;
    std::function<bool()> done;
  };

  // Not from within a step; from within CallAt() it may be.
  void AddActor(Actor actor);
  // What an actor on that node was told from outside of its step may have changed when it wakes.
  void Touch(const SimNode* node);

  // `run`, at that time.
  void CallAt(int64_t time_ns, std::function<void()> run) { At(time_ns, std::move(run)); }

  // Runs until all actors on living nodes are done. False if that is not so at `limit_ns`.
  bool Run(int64_t limit_ns);

  // At that time: every connection of the node closes, or breaks, and its actors stop.
  void KillAt(SimNode* node, int64_t time_ns, ExitInfo how = {.signal = 9});
  // Between these times the node's actors are not stepped; it has not ended.
  void StopBetween(SimNode* node, int64_t from_ns, int64_t until_ns);
  // What the machine of `from` sends to that of `to` between these times arrives after `until_ns`, as by a network that
  // sends again, and never if that is kForever. Nobody is told. One direction: call it twice for both.
  void SilenceBetween(const SimNode* from, const SimNode* to, int64_t from_ns, int64_t until_ns);

  static constexpr int64_t kForever = INT64_MAX;
  // At that time: one of the connections there are breaks on both sides. What was under way arrives, and who sent it does
  // not know.
  void BreakSomeConnectionAt(int64_t time_ns);
  // The same, and what was under way is lost.
  void CutSomeConnectionAt(int64_t time_ns);
  // At that time: all processes of the node's machine end. New ones can be added beside it.
  void KillMachineAt(const SimNode* node, int64_t time_ns, ExitInfo how = {.signal = 9});

  // A number below `bound`, from the seed.
  uint64_t Pick(uint64_t bound) { return random_() % bound; }

  int64_t now_ns() const { return now_ns_; }

  // Handles not closed yet, on living nodes.
  int open_handles() const;

 private:
  friend class SimNode;

  struct Stream {
    int node = -1;
    int peer = -1;  // handle; -1 while connecting
    bool connected = false;
    bool eof = false;       // the peer has closed and everything before that was read
    bool finished = false;  // the peer writes no more, but reads
    int error_number = 0;
    std::string inbox;
    int64_t last_delivery_ns = 0;  // of what this side sent: keeps it in order
    std::string label;
    bool deaf = false;  // what is under way to it is lost
  };

  struct Listener {
    int node = -1;
    Endpoint endpoint;
    std::deque<int> queue;
  };

  struct Event {
    int64_t time_ns;
    uint64_t number;
    std::function<void()> run;
    int node;  // to which it happens; -1: it says so itself

    bool operator>(const Event& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : number > other.number;
    }
  };

  struct Silence {
    int from;  // machines
    int to;
    int64_t from_ns;
    int64_t until_ns;
  };

  void At(int64_t time_ns, std::function<void()> run, int node = -1);
  void TouchStream(int handle);
  void BreakSome(bool loses);
  int64_t Delay();
  int64_t ArrivalNs(int from_machine, int to_machine, int64_t time_ns) const;
  int64_t UnansweredNs(int from_machine, int to_machine) const;

  int MachineOf(int node) const { return nodes_[static_cast<size_t>(node)]->machine_; }

  void Deliver(int from, std::function<void(Stream&)> change);
  void Connected(int stream, const Endpoint& endpoint);
  void CloseHandle(int handle, bool broken);
  void Request(int stream, const Endpoint& endpoint);
  void Kill(SimNode* node, const ExitInfo& how);
  SimNode* Find(int machine, int32_t pid) const;
  bool AllDone() const;
  void StepActors();
  void StepTouched();
  bool Advance(int64_t limit_ns);
  int64_t NextWakeNs();
  bool Runs(const Actor& actor) const;

  std::mt19937_64 random_;
  const Stepping stepping_;
  int64_t now_ns_ = 1'000'000'000;
  uint64_t next_event_ = 0;
  int next_handle_ = 100;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<Actor> actors_;
  std::vector<Silence> silences_;
  int machines_ = 0;
  std::map<int, Stream> streams_;
  std::map<int, Listener> listeners_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;

  // kTouched: actors by node, the nodes to step, and when actors wake; of an actor's wake-ups the one in `wakes_` counts.
  std::map<int, std::vector<size_t>> actors_of_node_;
  std::set<int> touched_;
  std::vector<int64_t> wakes_;
  using Wake = std::pair<int64_t, size_t>;
  std::priority_queue<Wake, std::vector<Wake>, std::greater<>> wake_queue_;
};

}  // namespace weft::test
