// A network inside one process that has a clock of its own: messages take as long as a model of the links says (comm/select/link_model.h).
// Whoever wants to know how long something takes needs neither the machines nor the time.
//
//   SimulatedNetwork network({0, 0, 1, 1}, LinkModel::Default());
//   std::unique_ptr<Transport> transport = network.Join(2);
//   ...                                                // ranks post what they can
//   for (const int rank : network.GoOn()) ...          // the clock goes on to what happens next; these ranks may go on
//   network.now_ns()
//
// A message takes its sender's time (o), then the sender's port (G for each byte), is on its way (L), takes the receiver's port (G for each byte,
// from its first one on), and the receiver's time (o). Ranks and ports do one thing at a time, in the order in which it comes to them; a port
// does one thing in each direction. Within an island each rank has a port; all that leaves an island, or enters it, goes through one.
// Between ranks' calls no time passes: what they compute is free.
//
// Transfers without memory are moved as well: schedules of sizes that no machine has can be tried.
//
// Thread-safety: none; one thread for all ranks. The network outlives its transports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <vector>

#include "comm/select/link_model.h"
#include "comm/transport/transport.h"

namespace weft {

class SimulatedNetwork {
 public:
  // By rank; islands are numbered from 0 on.
  SimulatedNetwork(std::vector<int> island_of, const LinkModel& model);

  std::unique_ptr<Transport> Join(int rank);

  int64_t now_ns() const { return now_ns_; }

  // Moves the clock until a transfer has ended; whose it is, in ascending order. Empty: nothing is on its way.
  std::vector<int> GoOn();

  // That `rank` has sent to ranks of its own island, and of others.
  uint64_t near_bytes(int rank) const { return near_bytes_[static_cast<size_t>(rank)]; }

  uint64_t far_bytes(int rank) const { return far_bytes_[static_cast<size_t>(rank)]; }

 private:
  class Port;

  // What two halves have in common: sender, receiver, stream and tag.
  using Name = std::tuple<int, int, StreamId, uint64_t>;

  struct Message {
    Transfer* send = nullptr;  // until it has left
    bool moves = false;        // it has set off
    bool came = false;
    uint64_t bytes = 0;  // of the send, and so on
    uint32_t signature = 0;
    std::vector<std::byte> data;  // once it has left, if there was any
    Transfer* receive = nullptr;  // nullptr: not posted yet
    int64_t receive_ns = 0;       // since when
  };

  using Messages = std::map<Name, Message>;

  // What is to happen to a message: its sender takes it, its bytes leave, all have left, the first one arrives, all have arrived, its
  // receiver has taken it.
  enum class Stage : uint8_t { kSends, kLeaves, kLeft, kArrives, kArrived, kCame };

  struct Event {
    int64_t at_ns = 0;
    uint64_t number = 0;  // those of one time in the order in which they were made
    Stage stage = Stage::kSends;
    Messages::iterator message;

    bool operator>(const Event& other) const {
      return std::tie(at_ns, number) > std::tie(other.at_ns, other.number);
    }
  };

  // When what does one thing at a time is free.
  struct Free {
    int64_t rank_ns = 0;
    int64_t out_ns = 0;
    int64_t in_ns = 0;
  };

  void Post(int rank, Transfer* transfer);
  void CloseGroup(int rank, uint64_t group_id);
  bool IsClosed(int rank, uint64_t group_id) const;
  void SetOff(Messages::iterator message);
  void At(int64_t at_ns, Stage stage, Messages::iterator message);
  void Happen(Stage stage, Messages::iterator message);
  void Leave(Messages::iterator message);
  void Deliver(Messages::iterator message);
  bool IsNear(const Name& name) const;

  const LinkCost& CostOf(const Name& name) const { return model_.CostOf(IsNear(name)); }

  Free& PortOf(int rank, bool near);

  const std::vector<int> island_of_;
  const LinkModel model_;
  int64_t now_ns_ = 0;
  uint64_t events_made_ = 0;
  Messages messages_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Free> ranks_;
  std::vector<Free> islands_;
  std::vector<std::vector<uint64_t>> closed_;  // by rank
  std::vector<uint64_t> near_bytes_;
  std::vector<uint64_t> far_bytes_;
  std::vector<int> touched_;  // ranks of whom a transfer has ended
};

}  // namespace weft
