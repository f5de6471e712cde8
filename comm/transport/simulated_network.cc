#include "comm/transport/simulated_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace weft {
namespace {

// Takes what is free from then on for so long; when that ends.
int64_t Occupy(int64_t* free_ns, int64_t from_ns, int64_t for_ns) {
  *free_ns = std::max(*free_ns, from_ns) + for_ns;
  return *free_ns;
}

}  // namespace

class SimulatedNetwork::Port : public Transport {
 public:
  Port(SimulatedNetwork& network, int rank) : network_(network), rank_(rank) {}

  void Post(Transfer* transfer) override { network_.Post(rank_, transfer); }

  // The clock moves, and nothing between.
  bool Advance() override { return false; }

  void CloseGroup(uint64_t group_id) override { network_.CloseGroup(rank_, group_id); }

  std::optional<OfferedMessage> Offered(int peer, const StreamId& stream) override {
    for (const auto& [name, message] : network_.messages_) {
      const auto& [sender, receiver, of, tag] = name;
      const bool offered = sender == peer && receiver == rank_ && of == stream;
      if (offered && message.moves && message.receive == nullptr)
        return OfferedMessage{tag, message.signature, message.bytes};
    }
    return std::nullopt;
  }

  std::vector<LinkEvent> TakeEvents() override { return {}; }

  void AppendPollItems(std::vector<PollItem>* /*items*/) override {}

 private:
  SimulatedNetwork& network_;
  const int rank_;
};

SimulatedNetwork::SimulatedNetwork(std::vector<int> island_of, const LinkModel& model)
    : island_of_(std::move(island_of)),
      model_(model),
      ranks_(island_of_.size()),
      islands_(island_of_.empty()
                   ? 0
                   : static_cast<size_t>(*std::max_element(island_of_.begin(), island_of_.end())) +
                         1),
      closed_(island_of_.size()),
      near_bytes_(island_of_.size()),
      far_bytes_(island_of_.size()) {}

std::unique_ptr<Transport> SimulatedNetwork::Join(int rank) {
  return std::make_unique<Port>(*this, rank);
}

bool SimulatedNetwork::IsNear(const Name& name) const {
  return island_of_[static_cast<size_t>(std::get<0>(name))] ==
         island_of_[static_cast<size_t>(std::get<1>(name))];
}

SimulatedNetwork::Free& SimulatedNetwork::PortOf(int rank, bool near) {
  const auto at = static_cast<size_t>(rank);
  return near ? ranks_[at] : islands_[static_cast<size_t>(island_of_[at])];
}

bool SimulatedNetwork::IsClosed(int rank, uint64_t group_id) const {
  const std::vector<uint64_t>& closed = closed_[static_cast<size_t>(rank)];
  return std::find(closed.begin(), closed.end(), group_id) != closed.end();
}

void SimulatedNetwork::Post(int rank, Transfer* transfer) {
  if (IsClosed(rank, transfer->stream.group_id)) {
    transfer->SetState(TransferState::kRetracted);
    return;
  }
  transfer->SetState(TransferState::kPosted);
  transfer->moved = 0;
  const Name name{transfer->is_send ? rank : transfer->peer,
                  transfer->is_send ? transfer->peer : rank, transfer->stream, transfer->tag};
  const auto message = messages_.try_emplace(name).first;
  Message& of = message->second;
  if (transfer->is_send) {
    WEFT_CHECK(!of.moves && of.send == nullptr);  // a name is used once
    of.send = transfer;
    of.bytes = transfer->bytes;
    of.signature = transfer->signature;
  } else {
    WEFT_CHECK(of.receive == nullptr);
    of.receive = transfer;
    of.receive_ns = now_ns_;
  }
  if (of.came) {
    Deliver(message);
  } else if (!of.moves && of.send != nullptr) {
    SetOff(message);
  }
}

void SimulatedNetwork::At(int64_t at_ns, Stage stage, Messages::iterator message) {
  events_.push({at_ns, events_made_++, stage, message});
}

// A large one waits for word that there is room for it.
void SimulatedNetwork::SetOff(Messages::iterator message) {
  Message& of = message->second;
  int64_t from_ns = now_ns_;
  if (of.bytes > model_.ahead_bytes) {
    if (of.receive == nullptr) return;
    from_ns = std::max(from_ns, of.receive_ns + CostOf(message->first).latency_ns);
  }
  of.moves = true;
  At(from_ns, Stage::kSends, message);
}

void SimulatedNetwork::Happen(Stage stage, Messages::iterator message) {
  const auto& [sender, receiver, stream, tag] = message->first;
  const bool near = IsNear(message->first);
  const LinkCost& cost = model_.CostOf(near);
  const int64_t bytes_ns = cost.BytesNs(message->second.bytes);
  const auto take = [&](int rank) {
    return Occupy(&ranks_[static_cast<size_t>(rank)].rank_ns, now_ns_, cost.overhead_ns);
  };
  switch (stage) {
    case Stage::kSends:
      At(take(sender), Stage::kLeaves, message);
      break;
    case Stage::kLeaves: {
      // The first byte may arrive before the last one has left.
      const int64_t left_ns = Occupy(&PortOf(sender, near).out_ns, now_ns_, bytes_ns);
      At(left_ns, Stage::kLeft, message);
      At(left_ns - bytes_ns + cost.latency_ns, Stage::kArrives, message);
      break;
    }
    case Stage::kLeft:
      Leave(message);
      break;
    case Stage::kArrives:
      At(Occupy(&PortOf(receiver, near).in_ns, now_ns_, bytes_ns), Stage::kArrived, message);
      break;
    case Stage::kArrived:
      At(take(receiver), Stage::kCame, message);
      break;
    case Stage::kCame:
      message->second.came = true;
      if (message->second.receive != nullptr) Deliver(message);
      break;
  }
}

void SimulatedNetwork::Leave(Messages::iterator message) {
  Message& of = message->second;
  const int sender = std::get<0>(message->first);
  (IsNear(message->first) ? near_bytes_ : far_bytes_)[static_cast<size_t>(sender)] += of.bytes;
  if (of.send == nullptr) return;  // retracted
  if (of.send->memory != nullptr) of.data.assign(of.send->memory, of.send->memory + of.bytes);
  // Whether the other side's call is another one is known if that was made.
  const bool differs = of.receive != nullptr &&
                       (of.receive->signature != of.signature || of.receive->bytes != of.bytes);
  if (differs) {
    of.send->other_signature = of.receive->signature;
    of.send->other_bytes = of.receive->bytes;
  }
  of.send->moved = of.bytes;
  std::exchange(of.send, nullptr)
      ->SetState(differs ? TransferState::kMismatch : TransferState::kDone);
  touched_.push_back(sender);
}

void SimulatedNetwork::Deliver(Messages::iterator message) {
  Message& of = message->second;
  Transfer& receive = *of.receive;
  if (receive.signature != of.signature || receive.bytes != of.bytes) {
    receive.other_signature = of.signature;
    receive.other_bytes = of.bytes;
    receive.SetState(TransferState::kMismatch);
  } else {
    if (!of.data.empty() && receive.memory != nullptr)
      std::memcpy(receive.memory, of.data.data(), of.data.size());
    receive.moved = of.bytes;
    receive.SetState(TransferState::kDone);
  }
  touched_.push_back(std::get<1>(message->first));
  messages_.erase(message);
}

std::vector<int> SimulatedNetwork::GoOn() {
  // What happens at one time happens together.
  while (!events_.empty() && (touched_.empty() || events_.top().at_ns == now_ns_)) {
    const Event event = events_.top();
    events_.pop();
    now_ns_ = event.at_ns;
    Happen(event.stage, event.message);
  }
  std::vector<int> touched = std::exchange(touched_, {});
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  return touched;
}

// What is on its way arrives, and nobody takes it.
void SimulatedNetwork::CloseGroup(int rank, uint64_t group_id) {
  closed_[static_cast<size_t>(rank)].push_back(group_id);
  for (auto& [name, message] : messages_) {
    if (std::get<2>(name).group_id != group_id) continue;
    Transfer*& own = std::get<0>(name) == rank ? message.send : message.receive;
    if (own != nullptr && (std::get<0>(name) == rank || std::get<1>(name) == rank))
      std::exchange(own, nullptr)->SetState(TransferState::kRetracted);
  }
}

}  // namespace weft
