#include "tests/device/fake_driver/schedule.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/fake_driver/calls.h"

namespace weft::fake_cuda {
namespace {

using std::chrono::nanoseconds;

constexpr int64_t kFirstPauseNs = 20'000;
constexpr int64_t kLongestPauseNs = 1'000'000;

template <typename Visit>
void ForEachStream(World& world, Visit visit) {
  for (int device = 0; device < world.device_count; ++device)
    visit(world.devices[device].legacy);
  for (auto& [handle, stream] : world.streams)
    visit(*stream);
}

bool HasEarlier(const StreamState& stream, uint64_t number) {
  return !stream.queue.empty() && stream.queue.front().number < number;
}

// Whether the legacy stream's side or the other one holds up what has this number.
bool IsHeldUp(const World& world, const StreamState& stream, uint64_t number) {
  if (!stream.is_legacy)
    return stream.is_blocking && HasEarlier(world.devices[stream.device].legacy, number);
  return std::ranges::any_of(world.streams, [&](const auto& other) {
    return other.second->is_blocking && other.second->device == stream.device &&
           HasEarlier(*other.second, number);
  });
}

bool MayRun(const World& world, const StreamState& stream) {
  if (stream.queue.empty()) return false;
  const Operation& first = stream.queue.front();
  if (IsHeldUp(world, stream, first.number)) return false;
  if (world.devices[stream.device].failed != kSuccess) return true;
  return !first.ready || first.ready();
}

StreamState* Draw(World& world) {
  std::vector<StreamState*> able;
  double sum = 0;
  ForEachStream(world, [&](StreamState& stream) {
    if (stream.host_is_due || !MayRun(world, stream)) return;
    able.push_back(&stream);
    sum += stream.weight;
  });
  if (able.empty()) return nullptr;
  double drawn = std::uniform_real_distribution<double>(0, sum)(world.random);
  for (StreamState* stream : able) {
    drawn -= stream->weight;
    if (drawn <= 0) return stream;
  }
  return able.back();
}

void EndFirst(World& world, StreamState& stream) {
  stream.queue.pop_front();
  if (stream.is_destroyed && stream.queue.empty())
    std::erase_if(world.streams, [&](const auto& one) { return one.second.get() == &stream; });
  world.changed.notify_all();
}

// Of the stream that is due first.
void RunHostFunction(World& world) {
  StreamState& stream = *world.due.front();
  const Operation& first = stream.queue.front();
  const HostFunction function = first.host;
  void* const user = first.user;
  world.mutex.unlock();
  {
    const InHostFunction inside;
    function(user);
  }
  world.mutex.lock();
  world.due.pop_front();
  stream.host_is_due = false;
  EndFirst(world, stream);
}

bool StepOne(World& world) {
  if (!world.due.empty() && world.due_goes_first) return false;
  StreamState* const stream = Draw(world);
  if (stream == nullptr) return false;
  Operation& first = stream->queue.front();
  const bool is_left_out = world.devices[stream->device].failed != kSuccess && !first.ends_always;
  if (first.host != nullptr && !is_left_out) {
    if (world.due.empty()) world.due_goes_first = world.random() % 2 == 0;
    stream->host_is_due = true;
    world.due.push_back(stream);
    world.queued.notify_all();
  } else if (is_left_out || first.step()) {
    EndFirst(world, *stream);
  }
  return true;
}

bool HasOperations(World& world) {
  bool any = false;
  ForEachStream(world, [&](const StreamState& stream) { any = any || !stream.queue.empty(); });
  return any;
}

void Work() {
  World& world = TheWorld();
  const std::lock_guard lock(world.mutex);
  int64_t pause_ns = kFirstPauseNs;
  while (!world.ended) {
    if (!world.due.empty()) {
      RunHostFunction(world);
    } else if (world.paused || !HasOperations(world)) {
      world.worker_sleeps = true;
      world.queued.wait(world.mutex);
      world.worker_sleeps = false;
    } else if (const int64_t left_ns = world.last_call_ns + world.idle_ns - NowNs(); left_ns > 0) {
      world.queued.wait_for(world.mutex, nanoseconds(left_ns));
    } else if (StepOne(world)) {
      pause_ns = kFirstPauseNs;
    } else {
      world.queued.wait_for(world.mutex, nanoseconds(pause_ns));
      pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
    }
  }
}

}  // namespace

void SetSeed(World& world, uint64_t seed) {
  world.random.seed(seed);
  constexpr std::array<double, 4> kStir = {0, 0.05, 0.3, 0.9};
  constexpr std::array<int64_t, 3> kIdleNs = {100'000, 500'000, 2'000'000};
  world.stir = kStir[world.random() % kStir.size()];
  world.parts_max = 1 + static_cast<int>(world.random() % 4);
  world.idle_ns = kIdleNs[world.random() % kIdleNs.size()];
}

void StartWorker() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(Work).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void WakeWorker(World& world) {
  if (world.worker_sleeps) world.queued.notify_all();
}

double DrawWeight(World& world) {
  return 1.0 / static_cast<double>(1U << world.random() % 8);
}

int DrawParts(World& world) {
  return 1 + static_cast<int>(world.random() % static_cast<unsigned>(world.parts_max));
}

uint64_t Enqueue(World& world, StreamState& stream, Operation operation) {
  const uint64_t number = world.next_number++;
  operation.number = number;
  stream.queue.push_back(std::move(operation));
  WakeWorker(world);
  Stir(world, world.stir);
  return number;
}

void Stir(World& world, double probability) {
  if (world.paused) return;
  while (std::uniform_real_distribution<double>(0, 1)(world.random) < probability) {
    if (!StepOne(world)) return;
    probability /= 2;
  }
}

void WaitFor(World& world, const std::function<bool()>& done) {
  int64_t pause_ns = kFirstPauseNs;
  while (!world.ended && !done()) {
    if (StepOne(world)) {
      pause_ns = kFirstPauseNs;
      continue;
    }
    world.changed.wait_for(world.mutex, nanoseconds(pause_ns));
    pause_ns = std::min(2 * pause_ns, kLongestPauseNs);
  }
}

bool HasEnded(const World& world, const StreamState& stream, uint64_t number) {
  return !HasEarlier(stream, number) && !(stream.is_legacy && IsHeldUp(world, stream, number));
}

bool DeviceHasEnded(const World& world, int device, uint64_t number) {
  return !HasEarlier(world.devices[device].legacy, number) &&
         std::ranges::none_of(world.streams, [&](const auto& one) {
           return one.second->device == device && HasEarlier(*one.second, number);
         });
}

}  // namespace weft::fake_cuda
