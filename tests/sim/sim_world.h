// A network in one thread and in its own time, driven by a seed: messages are delayed, cut into
// pieces and reordered between connections; connections break; nodes die.
//
//   SimWorld world(seed);
//   SimNode* node = world.AddNode();
//   world.AddActor(node, step, next_wake_ns, done);
//   EXPECT_TRUE(world.Run(limit_ns));
//
// Each node has its own Seams. An actor is a state machine on a node: the world calls its step
// whenever something may have happened. The same seed gives the same run.
// Thread-safety: one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "base/seams.h"

namespace weft::test {

class SimWorld;

class SimNode : public Net, public Clock, public Random {
 public:
  SimNode(SimWorld* world, int number) : world_(world), number_(number) {}

  Seams seams() { return {.clock = this, .net = this, .random = this}; }

  bool alive() const { return alive_; }

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
  absl::Status Poll(std::span<PollItem> items, int64_t deadline_ns) override;

 private:
  friend class SimWorld;
  SimWorld* const world_;
  const int number_;
  bool alive_ = true;
};

class SimWorld {
 public:
  explicit SimWorld(uint64_t seed) : random_(seed) {}

  SimNode* AddNode();

  struct Actor {
    SimNode* node;
    std::function<void()> step;
    std::function<int64_t()> next_wake_ns;
    std::function<bool()> done;
  };

  void AddActor(Actor actor) { actors_.push_back(std::move(actor)); }

  // Runs until all actors on living nodes are done. False if that is not so at `limit_ns`.
  bool Run(int64_t limit_ns);

  // At that time: every connection of the node closes, or breaks, and its actors stop.
  void KillAt(SimNode* node, int64_t time_ns);
  // At that time: one of the connections there are breaks on both sides.
  void BreakSomeConnectionAt(int64_t time_ns);

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
    bool eof = false;  // the peer has closed and everything before that was read
    int error_number = 0;
    std::string inbox;
    int64_t last_delivery_ns = 0;  // of what this side sent: keeps it in order
    std::string label;
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

    bool operator>(const Event& other) const {
      return time_ns != other.time_ns ? time_ns > other.time_ns : number > other.number;
    }
  };

  void At(int64_t time_ns, std::function<void()> run);
  int64_t Delay();
  void Deliver(int from, std::function<void(Stream&)> change);
  void Connected(int stream, const Endpoint& endpoint);
  void CloseHandle(int handle, bool broken);
  void Kill(SimNode* node);
  bool AllDone() const;
  void StepActors();
  bool Advance(int64_t limit_ns);

  std::mt19937_64 random_;
  int64_t now_ns_ = 1'000'000'000;
  uint64_t next_event_ = 0;
  int next_handle_ = 100;
  std::vector<std::unique_ptr<SimNode>> nodes_;
  std::vector<Actor> actors_;
  std::map<int, Stream> streams_;
  std::map<int, Listener> listeners_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

}  // namespace weft::test
