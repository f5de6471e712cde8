#include "tests/sim/sim_world.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft::test {

// --- SimNode -------------------------------------------------------------------------------------

int64_t SimNode::NowNs() {
  return world_->now_ns_;
}

absl::Status SimNode::Fill(void* data, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    static_cast<uint8_t*>(data)[i] = static_cast<uint8_t>(world_->Pick(256));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> SimNode::Listen(Endpoint* endpoint) {
  const int handle = world_->next_handle_++;
  if (endpoint->kind == Endpoint::Kind::kTcp && endpoint->port == 0) {
    endpoint->port = static_cast<uint16_t>(handle);
  }
  for (const auto& [other, listener] : world_->listeners_) {
    if (listener.endpoint == *endpoint) return SystemError(EADDRINUSE, "sim: listen");
  }
  world_->listeners_[handle] = {number_, *endpoint, {}};
  return handle;
}

absl::StatusOr<int> SimNode::Accept(int listener) {
  std::deque<int>& queue = world_->listeners_.at(listener).queue;
  if (queue.empty()) return -1;
  const int handle = queue.front();
  queue.pop_front();
  return handle;
}

absl::StatusOr<int> SimNode::Connect(const Endpoint& endpoint) {
  const int handle = world_->next_handle_++;
  world_->streams_[handle] = {.node = number_, .label = StrCat("node ", number_)};
  world_->Request(handle, endpoint);
  return handle;
}

absl::Status SimNode::FinishConnect(int stream) {
  const int error = world_->streams_.at(stream).error_number;
  if (error != 0) return MakeError(WEFT_UNREACHABLE, StrCat("sim: ", std::strerror(error)));
  return absl::OkStatus();
}

IoResult SimNode::Read(int stream, void* data, size_t bytes) {
  SimWorld::Stream& from = world_->streams_.at(stream);
  if (!from.inbox.empty()) {
    const size_t count = 1 + world_->Pick(std::min(bytes, from.inbox.size()));
    std::memcpy(data, from.inbox.data(), count);
    from.inbox.erase(0, count);
    if (!from.inbox.empty()) {
      world_->At(
          world_->now_ns_ + 1, [] {}, number_);  // still readable
    } else if (from.inbox.capacity() > 256) {
      from.inbox.shrink_to_fit();  // there may be many thousand
    }
    return {IoState::kDone, count, 0};
  }
  if (from.error_number != 0) return {IoState::kFailed, 0, from.error_number};
  if (from.eof || from.finished) return {IoState::kClosed, 0, 0};
  return {IoState::kWouldBlock, 0, 0};
}

IoResult SimNode::Write(int stream, const void* data, size_t bytes) {
  // What is left of a dead node may still be destroyed, and say goodbye then.
  if (!alive_) return {IoState::kFailed, 0, EBADF};
  SimWorld::Stream& to = world_->streams_.at(stream);
  if (to.error_number != 0) return {IoState::kFailed, 0, to.error_number};
  if (to.eof) return {IoState::kFailed, 0, EPIPE};
  if (!to.connected || world_->Pick(10) == 0) {
    world_->At(
        world_->now_ns_ + world_->Delay(), [] {}, number_);  // and try again then
    return {IoState::kWouldBlock, 0, 0};
  }
  const size_t count = 1 + world_->Pick(bytes);
  world_->Deliver(stream, [text = std::string(static_cast<const char*>(data), count)](
                              SimWorld::Stream& peer) { peer.inbox += text; });
  if (count < bytes)
    world_->At(
        world_->now_ns_ + 1, [] {}, number_);
  return {IoState::kDone, count, 0};
}

PeerIdentity SimNode::Peer(int stream) {
  const int peer = world_->streams_.at(stream).peer;
  const auto found = world_->streams_.find(peer);
  return {.address = found == world_->streams_.end() ? "sim" : found->second.label};
}

void SimNode::FinishWriting(int stream) {
  world_->Deliver(stream, [](SimWorld::Stream& peer) { peer.finished = true; });
}

void SimNode::Close(int handle) {
  world_->CloseHandle(handle, false);
}

int64_t SimNode::UnansweredNs(int stream) {
  const auto peer = world_->streams_.find(world_->streams_.at(stream).peer);
  if (peer == world_->streams_.end()) return kNotKnownNs;
  return world_->UnansweredNs(machine_, world_->MachineOf(peer->second.node));
}

absl::Status SimNode::Poll(std::span<PollItem> items, int64_t /*deadline_ns*/) {
  for (PollItem& item : items) {
    const auto listener = world_->listeners_.find(item.handle);
    if (listener != world_->listeners_.end()) {
      item.readable = !listener->second.queue.empty();
      continue;
    }
    const SimWorld::Stream& stream = world_->streams_.at(item.handle);
    const bool broken = stream.error_number != 0;
    item.readable =
        broken || (item.want_read && (stream.eof || stream.finished || !stream.inbox.empty()));
    item.writable = broken || (item.want_write && stream.connected);
  }
  return absl::OkStatus();
}

ProcessIdentity SimNode::Self() {
  return {.pid = pid(),
          .start_time = static_cast<uint64_t>(number_) + 1,
          .host = StrCat("machine", machine_),
          .boot_id = StrCat("boot", machine_)};
}

namespace {

// Another process of the machine; none: it had ended before.
class SimPeerProcess : public PeerProcess {
 public:
  SimPeerProcess(const SimNode* node, const ExitInfo* exit) : node_(node), exit_(exit) {}

  bool Ended() override { return node_ == nullptr || !node_->alive(); }

  ExitInfo Exit() override { return node_ == nullptr ? ExitInfo{} : *exit_; }

  ProcessState State() override {
    if (Ended()) return ProcessState::kEnded;
    return node_->stopped() ? ProcessState::kStopped : ProcessState::kRunning;
  }

  int32_t visible_pid() const override { return node_ == nullptr ? 0 : node_->pid(); }

  int fd() const override { return -1; }

 private:
  const SimNode* const node_;
  const ExitInfo* const exit_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PeerProcess>> SimNode::Open(int32_t pid, uint64_t start_time) {
  SimNode* found = world_->Find(machine_, pid);
  if (found != nullptr && start_time != 0 && found->Self().start_time != start_time) {
    found = nullptr;  // a younger one
  }
  return std::make_unique<SimPeerProcess>(found, found == nullptr ? nullptr : &found->exit_);
}

absl::StatusOr<std::unique_ptr<PeerProcess>> SimNode::Watch(Lifeline, int32_t, uint64_t) {
  return MakeError(WEFT_UNSUPPORTED, "sim: processes have no descriptors");
}

// --- SimWorld ------------------------------------------------------------------------------------

SimNode* SimWorld::AddNode(const SimNode* beside) {
  const int machine = beside == nullptr ? machines_++ : beside->machine_;
  nodes_.push_back(std::make_unique<SimNode>(this, static_cast<int>(nodes_.size()), machine));
  return nodes_.back().get();
}

SimNode* SimWorld::Find(int machine, int32_t pid) const {
  for (const std::unique_ptr<SimNode>& node : nodes_) {
    if (node->machine_ == machine && node->pid() == pid) return node.get();
  }
  return nullptr;
}

void SimWorld::At(int64_t time_ns, std::function<void()> run, int node) {
  events_.push({time_ns, next_event_++, std::move(run), node});
}

void SimWorld::AddActor(Actor actor) {
  actors_of_node_[actor.node->number_].push_back(actors_.size());
  touched_.insert(actor.node->number_);
  wakes_.push_back(INT64_MAX);
  actors_.push_back(std::move(actor));
}

void SimWorld::Touch(const SimNode* node) {
  touched_.insert(node->number_);
}

void SimWorld::TouchStream(int handle) {
  const auto found = streams_.find(handle);
  if (found != streams_.end()) touched_.insert(found->second.node);
}

// Mostly well under a millisecond, sometimes far more.
int64_t SimWorld::Delay() {
  const uint64_t kind = Pick(20);
  if (kind == 0) return static_cast<int64_t>(Pick(100'000'000));
  return 1'000 + static_cast<int64_t>(Pick(kind < 5 ? 5'000'000 : 200'000));
}

// When that arrives which would at `time_ns`.
int64_t SimWorld::ArrivalNs(int from_machine, int to_machine, int64_t time_ns) const {
  for (const Silence& silence : silences_) {
    if (silence.from != from_machine || silence.to != to_machine) continue;
    if (time_ns >= silence.from_ns && time_ns < silence.until_ns) time_ns = silence.until_ns;
  }
  return time_ns;
}

// Either direction carries what the other one's end is asked by.
int64_t SimWorld::UnansweredNs(int from_machine, int to_machine) const {
  int64_t since_ns = now_ns_;
  for (const Silence& silence : silences_) {
    const bool between = (silence.from == from_machine && silence.to == to_machine) ||
                         (silence.from == to_machine && silence.to == from_machine);
    if (between && now_ns_ >= silence.from_ns && now_ns_ < silence.until_ns)
      since_ns = std::min(since_ns, silence.from_ns);
  }
  return now_ns_ - since_ns;
}

void SimWorld::SilenceBetween(const SimNode* from, const SimNode* to, int64_t from_ns,
                              int64_t until_ns) {
  silences_.push_back({from->machine_, to->machine_, from_ns, until_ns});
}

void SimWorld::Deliver(int from, std::function<void(Stream&)> change) {
  Stream& sender = streams_.at(from);
  const int64_t time_ns = std::max(sender.last_delivery_ns, now_ns_ + Delay());
  const auto receiver = streams_.find(sender.peer);
  if (receiver == streams_.end()) return;
  sender.last_delivery_ns =
      ArrivalNs(MachineOf(sender.node), MachineOf(receiver->second.node), time_ns);
  if (sender.last_delivery_ns == kForever) return;
  At(sender.last_delivery_ns, [this, peer = sender.peer, change = std::move(change)] {
    const auto found = streams_.find(peer);
    if (found == streams_.end() || found->second.deaf) return;
    change(found->second);
    touched_.insert(found->second.node);
  });
}

// A request to connect is on its way.
void SimWorld::Request(int stream, const Endpoint& endpoint) {
  int64_t time_ns = now_ns_ + Delay();
  for (const auto& [handle, listener] : listeners_) {
    if (!(listener.endpoint == endpoint)) continue;
    time_ns = ArrivalNs(MachineOf(streams_.at(stream).node), MachineOf(listener.node), time_ns);
  }
  if (time_ns == kForever) return;
  At(time_ns, [this, stream, endpoint] { Connected(stream, endpoint); });
}

// The connection request of `stream` reaches the endpoint.
void SimWorld::Connected(int stream, const Endpoint& endpoint) {
  const auto local = streams_.find(stream);
  if (local == streams_.end()) return;
  touched_.insert(local->second.node);
  for (auto& [handle, listener] : listeners_) {
    if (!(listener.endpoint == endpoint)) continue;
    const int remote = next_handle_++;
    streams_[remote] = {
        .node = listener.node, .peer = stream, .connected = true, .label = "server"};
    local->second.peer = remote;
    listener.queue.push_back(remote);
    touched_.insert(listener.node);
    const int64_t answered_ns =
        ArrivalNs(MachineOf(listener.node), MachineOf(local->second.node), now_ns_ + Delay());
    if (answered_ns == kForever) return;
    At(answered_ns, [this, stream] {
      const auto found = streams_.find(stream);
      if (found == streams_.end()) return;
      found->second.connected = true;
      touched_.insert(found->second.node);
    });
    return;
  }
  local->second.error_number = ECONNREFUSED;
}

void SimWorld::CloseHandle(int handle, bool broken) {
  if (listeners_.count(handle) != 0) {
    const std::deque<int> queue = listeners_.at(handle).queue;
    listeners_.erase(handle);
    for (const int waiting : queue)
      CloseHandle(waiting, true);
    return;
  }
  if (streams_.count(handle) == 0) return;
  if (streams_.at(handle).peer >= 0) {
    Deliver(handle, [broken](Stream& peer) {
      peer.eof = true;
      if (broken) peer.error_number = ECONNRESET;
    });
  }
  streams_.erase(handle);
}

void SimWorld::KillAt(SimNode* node, int64_t time_ns, ExitInfo how) {
  At(time_ns, [this, node, how] { Kill(node, how); });
}

void SimWorld::StopBetween(SimNode* node, int64_t from_ns, int64_t until_ns) {
  At(from_ns, [node] { node->stopped_ = true; });
  if (until_ns == kForever) return;
  At(
      until_ns, [node] { node->stopped_ = false; }, node->number_);
}

void SimWorld::Kill(SimNode* node, const ExitInfo& how) {
  node->alive_ = false;
  node->exit_ = how;
  std::vector<int> handles;
  for (const auto& [handle, listener] : listeners_) {
    if (listener.node == node->number_) handles.push_back(handle);
  }
  for (const auto& [handle, stream] : streams_) {
    if (stream.node == node->number_) handles.push_back(handle);
  }
  for (const int handle : handles)
    CloseHandle(handle, Pick(2) == 0);
}

void SimWorld::BreakSomeConnectionAt(int64_t time_ns) {
  At(time_ns, [this] { BreakSome(false); });
}

void SimWorld::CutSomeConnectionAt(int64_t time_ns) {
  At(time_ns, [this] { BreakSome(true); });
}

void SimWorld::BreakSome(bool loses) {
  std::vector<int> candidates;
  for (const auto& [handle, stream] : streams_) {
    if (stream.connected && streams_.count(stream.peer) != 0) candidates.push_back(handle);
  }
  if (candidates.empty()) return;
  const int handle = candidates[Pick(candidates.size())];
  for (const int end : {handle, streams_.at(handle).peer}) {
    streams_.at(end).error_number = ECONNRESET;
    streams_.at(end).deaf = loses;
    TouchStream(end);
  }
}

void SimWorld::KillMachineAt(const SimNode* node, int64_t time_ns, ExitInfo how) {
  At(time_ns, [this, machine = node->machine_, how] {
    for (const std::unique_ptr<SimNode>& other : nodes_) {
      if (other->machine_ == machine && other->alive()) Kill(other.get(), how);
    }
  });
}

int SimWorld::open_handles() const {
  int count = 0;
  for (const auto& [handle, stream] : streams_)
    count += nodes_[stream.node]->alive() ? 1 : 0;
  for (const auto& [handle, listener] : listeners_)
    count += nodes_[listener.node]->alive() ? 1 : 0;
  return count;
}

bool SimWorld::AllDone() const {
  return std::all_of(actors_.begin(), actors_.end(),
                     [](const Actor& actor) { return !actor.node->alive() || actor.done(); });
}

void SimWorld::StepActors() {
  std::vector<size_t> order(actors_.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random_);
  for (const size_t index : order) {
    const SimNode& node = *actors_[index].node;
    if (node.alive() && !node.stopped()) actors_[index].step();
  }
}

bool SimWorld::Runs(const Actor& actor) const {
  return actor.node->alive() && !actor.node->stopped();
}

void SimWorld::StepTouched() {
  std::vector<size_t> order;
  while (!wake_queue_.empty() && wake_queue_.top().first <= now_ns_) {
    const auto [time_ns, index] = wake_queue_.top();
    wake_queue_.pop();
    if (wakes_[index] == time_ns) touched_.insert(actors_[index].node->number_);
  }
  for (const int node : std::exchange(touched_, {})) {
    for (const size_t index : actors_of_node_[node])
      order.push_back(index);
  }
  std::shuffle(order.begin(), order.end(), random_);
  for (const size_t index : order) {
    wakes_[index] = INT64_MAX;
    if (!Runs(actors_[index])) continue;
    actors_[index].step();
    wakes_[index] = actors_[index].next_wake_ns();
    if (wakes_[index] != INT64_MAX) wake_queue_.push({wakes_[index], index});
  }
}

int64_t SimWorld::NextWakeNs() {
  int64_t next_ns = INT64_MAX;
  if (stepping_ == Stepping::kTouched) {
    while (!wake_queue_.empty()) {
      const auto [time_ns, index] = wake_queue_.top();
      if (wakes_[index] == time_ns && Runs(actors_[index])) return time_ns;
      wake_queue_.pop();
    }
    return next_ns;
  }
  for (const Actor& actor : actors_) {
    if (Runs(actor)) next_ns = std::min(next_ns, actor.next_wake_ns());
  }
  return next_ns;
}

// Moves time to the next thing that happens; false if that is after the limit.
bool SimWorld::Advance(int64_t limit_ns) {
  int64_t next_ns = NextWakeNs();
  if (!events_.empty()) next_ns = std::min(next_ns, events_.top().time_ns);
  if (stepping_ == Stepping::kTouched && !touched_.empty()) {
    next_ns = std::min(next_ns, now_ns_ + 1);
  }
  if (next_ns > limit_ns) return false;
  now_ns_ = std::max(next_ns, now_ns_ + 1);
  while (!events_.empty() && events_.top().time_ns <= now_ns_) {
    // The queue shows its top as constant because it is ordered by it; not by what is moved away.
    const std::function<void()> run = std::move(const_cast<Event&>(events_.top()).run);
    const int node = events_.top().node;
    events_.pop();
    run();
    if (node >= 0) touched_.insert(node);
  }
  return true;
}

bool SimWorld::Run(int64_t limit_ns) {
  const bool all = stepping_ == Stepping::kAll;
  all ? StepActors() : StepTouched();
  while (!AllDone()) {
    if (!Advance(limit_ns)) return false;
    if (all) touched_.clear();
    all ? StepActors() : StepTouched();
  }
  return true;
}

}  // namespace weft::test
