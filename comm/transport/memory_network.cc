#include "comm/transport/memory_network.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"

namespace weft {
namespace {

bool HasClosed(const std::vector<uint64_t>& closed, uint64_t group_id) {
  return std::find(closed.begin(), closed.end(), group_id) != closed.end();
}

}  // namespace

class MemoryNetwork::Port : public Transport {
 public:
  Port(MemoryNetwork& network, int rank) : network_(network), rank_(rank) {}

  ~Port() override {
    MutexLock lock(network_.mutex_);
    own().left = true;
    for (size_t other = 0; other < network_.ranks_.size(); ++other) {
      if (static_cast<int>(other) == rank_) continue;
      network_.ranks_[other].events.push_back(
          {.peer = rank_,
           .why = MakeError(WEFT_UNREACHABLE, fmt::format("rank {} has left the network", rank_))});
    }
  }

  void Post(Transfer* transfer) override {
    MutexLock lock(network_.mutex_);
    if (HasClosed(own().closed, transfer->stream.group_id)) {
      transfer->SetState(TransferState::kRetracted);
      return;
    }
    transfer->SetState(TransferState::kPosted);
    transfer->moved = 0;
    (transfer->is_send ? own().sends : own().receives).Append(transfer);
  }

  bool Advance() override {
    MutexLock lock(network_.mutex_);
    bool moved = false;
    while (network_.DeliverOne(rank_)) {
      moved = true;
      if (network_.seed_ != 0) break;
    }
    return moved;
  }

  void CloseGroup(uint64_t group_id) override {
    MutexLock lock(network_.mutex_);
    own().closed.push_back(group_id);
    for (TransferList* const list : {&own().sends, &own().receives}) {
      while (Transfer* const transfer = list->FindIf(
                 [&](const Transfer& posted) { return posted.stream.group_id == group_id; })) {
        list->Remove(transfer);
        transfer->SetState(TransferState::kRetracted);
      }
    }
  }

  std::optional<OfferedMessage> Offered(int peer, const StreamId& stream) override {
    MutexLock lock(network_.mutex_);
    if (network_.seed_ != 0 && network_.random_() % 2 == 0) return std::nullopt;  // not known yet
    const Transfer* const send = network_.ranks_[static_cast<size_t>(peer)].sends.FindIf(
        [&](const Transfer& posted) { return posted.peer == rank_ && posted.stream == stream; });
    const bool closed = HasClosed(own().closed, stream.group_id);
    if (send == nullptr || closed || own().receives.Find(stream, send->tag) != nullptr) {
      return std::nullopt;
    }
    return OfferedMessage{send->tag, send->signature, send->bytes};
  }

  std::vector<LinkEvent> TakeEvents() override {
    MutexLock lock(network_.mutex_);
    return std::exchange(own().events, {});
  }

  void AppendPollItems(std::vector<PollItem>* /*items*/) override {}

 private:
  Posts& own() WEFT_REQUIRES(network_.mutex_) {
    return network_.ranks_[static_cast<size_t>(rank_)];
  }

  MemoryNetwork& network_;
  const int rank_;
};

MemoryNetwork::MemoryNetwork(int size, uint64_t seed)
    : seed_(seed), ranks_(static_cast<size_t>(size)), random_(seed) {}

std::unique_ptr<Transport> MemoryNetwork::Join(int rank) {
  return std::make_unique<Port>(*this, rank);
}

uint64_t MemoryNetwork::sent_bytes(int rank) {
  MutexLock lock(mutex_);
  return ranks_[static_cast<size_t>(rank)].sent_bytes;
}

// Some receive of the rank that its send has been posted for; which one, the seed says.
bool MemoryNetwork::DeliverOne(int rank) {
  Posts& own = ranks_[static_cast<size_t>(rank)];
  std::vector<std::pair<Transfer*, Transfer*>> ready;
  for (Transfer* receive = own.receives.first(); receive != nullptr; receive = receive->next) {
    Posts& peer = ranks_[static_cast<size_t>(receive->peer)];
    Transfer* const send = peer.sends.FindIf([&](const Transfer& posted) {
      // Of another call each message is another one than what is awaited.
      const bool other_call =
          posted.record != CallRecord{} && posted.signature != receive->signature;
      return posted.peer == rank && posted.stream == receive->stream &&
             (posted.tag == receive->tag || other_call);
    });
    if (send != nullptr) ready.emplace_back(send, receive);
  }
  if (ready.empty()) return false;
  const size_t chosen = seed_ == 0 ? 0 : random_() % ready.size();
  Deliver(ready[chosen].second->peer, ready[chosen].first, ready[chosen].second);
  return true;
}

void MemoryNetwork::Deliver(int sender, Transfer* send, Transfer* receive) {
  Posts& from = ranks_[static_cast<size_t>(sender)];
  Posts& to = ranks_[static_cast<size_t>(send->peer)];
  from.sends.Remove(send);
  to.receives.Remove(receive);
  if (send->signature != receive->signature || send->bytes != receive->bytes) {
    receive->other_signature = send->signature;
    receive->other_bytes = send->bytes;
    receive->other_record = send->record;
    send->other_signature = receive->signature;
    send->other_bytes = receive->bytes;
    send->other_record = receive->record;
    send->SetState(TransferState::kMismatch);
    receive->SetState(TransferState::kMismatch);
    return;
  }
  if (send->bytes > 0) std::memcpy(receive->memory, send->memory, send->bytes);
  from.sent_bytes += send->bytes;
  send->moved = receive->moved = send->bytes;
  send->SetState(TransferState::kDone);
  receive->SetState(TransferState::kDone);
}

}  // namespace weft
