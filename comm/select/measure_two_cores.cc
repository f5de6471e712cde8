// What happens between two cores: this thread is one rank, a second thread the other. The lower quartile
// of the tries counts: in a virtual machine two cores are neighbours at one time and far apart at another,
// and what is met most often shall not be hidden by the best moment.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include <sched.h>

#include "base/pages.h"
#include "comm/select/measurement.h"
#include "comm/select/partner.h"

namespace weft {
namespace {

constexpr uint32_t kRoundTrips = 64;  // per sample
constexpr WaitPolicy kSleeping = {.spins = 0, .yields = 0};
constexpr WaitPolicy kYielding = {.spins = 0, .yields = 1'000'000};

// A flag as ranks have them: a line that one writes, and the EventCount of the writer.
struct Flag {
  alignas(64) std::atomic<uint32_t> value{0};
  EventCount written;

  void Raise(uint32_t to) {
    value.store(to, std::memory_order_seq_cst);
    NotifyAll(written);
  }

  bool Await(const Partner& partner, const WaitPolicy& policy, uint32_t want) {
    return partner.WaitFor(written, policy,
                           [&] { return value.load(std::memory_order_acquire) == want; });
  }
};

// One for the caller and one for the partner. Values only grow, over all measurements.
struct Flags {
  Flag mine;
  Flag theirs;
  uint32_t last = 0;
};

// Binds the calling thread to one CPU; false if the system will not.
bool BindTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(cpu), &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

// Binds the calling thread to the CPU it runs on, for as long as it lives.
class BoundHere {
 public:
  BoundHere() : cpu_(sched_getcpu()) {
    if (cpu_ < 0 || cpu_ >= CPU_SETSIZE) return;
    if (sched_getaffinity(0, sizeof(before_), &before_) == 0) bound_ = BindTo(cpu_);
  }

  BoundHere(const BoundHere&) = delete;
  BoundHere& operator=(const BoundHere&) = delete;

  ~BoundHere() {
    if (bound_) sched_setaffinity(0, sizeof(before_), &before_);
  }

  bool bound() const { return bound_; }

  int cpu() const { return cpu_; }

 private:
  const int cpu_;
  bool bound_ = false;
  cpu_set_t before_;
};

// Nanoseconds of one way of `tries` times kRoundTrips flags there and back.
std::optional<double> OneWayNs(const Measurement& measurement, Partner& partner, Flags& flags,
                               const WaitPolicy& policy, int tries) {
  Samples samples;
  for (int i = 0; i < tries && measurement.TimeLeft(); ++i) {
    const uint32_t first = flags.last + 1;
    flags.last += kRoundTrips;
    partner.Begin([&partner, &flags, &policy, first] {
      for (uint32_t k = first; k < first + kRoundTrips; ++k) {
        if (!flags.mine.Await(partner, policy, k)) return;
        flags.theirs.Raise(k);
      }
    });
    bool answered = true;
    const int64_t before_ns = MonotonicNs();
    for (uint32_t k = first; answered && k < first + kRoundTrips; ++k) {
      flags.mine.Raise(k);
      answered = flags.theirs.Await(partner, policy, k);
    }
    const double taken_ns = static_cast<double>(MonotonicNs() - before_ns);
    if (!partner.Finish() || !answered) break;
    if (i > 0) samples.Add(taken_ns / (2 * kRoundTrips));  // the first one woke the partner
  }
  return samples.LowerQuartile();
}

struct SharedCosts {
  Samples stores;
  Samples reads;
};

// One thread writes lines with `store`, the other reads them, in turn: what staging is. Like staging, it goes
// round in more memory than the second-level caches hold.
SharedCosts SharedLines(const Measurement& measurement, Partner& partner, CopyKernel store) {
  constexpr size_t kBytes = Measurement::kHotBytes;
  constexpr size_t kTurnsMax = 128;
  constexpr size_t kTries = 32;
  const size_t turns = std::clamp<size_t>(2 * measurement.model().l2_bytes / kBytes, 1, kTurnsMax);
  SharedCosts costs;
  const absl::StatusOr<Pages> pages =
      Pages::Create("weft-measure", turns * kBytes, Backing::kAllocated);
  if (!pages.ok()) return costs;
  for (size_t i = 0; i < turns + kTries && measurement.TimeLeft(); ++i) {
    char* const shared = reinterpret_cast<char*>(pages->data()) + i % turns * kBytes;
    const int64_t before_ns = MonotonicNs();
    store(shared, measurement.Hot(0), kBytes);
    const double stored_ns = static_cast<double>(MonotonicNs() - before_ns);
    double read_ns = 0;
    const bool read = partner.Do([&] {
      const int64_t began_ns = MonotonicNs();
      std::memcpy(measurement.Hot(2), shared, kBytes);
      read_ns = static_cast<double>(MonotonicNs() - began_ns);
    });
    if (!read) break;
    if (i < turns) continue;  // page tables, and lines that nobody has read yet
    costs.stores.Add(stored_ns / Measurement::kHotLines);
    costs.reads.Add(read_ns / Measurement::kHotLines);
  }
  return costs;
}

void SharedLinesByEither(Measurement& measurement, Partner& partner) {
  const SharedCosts plain = SharedLines(measurement, partner, measurement.plain());
  const SharedCosts stream = SharedLines(measurement, partner, measurement.stream());
  measurement.TakeAll({{&MachineModel::store_shared_plain_line_ns, plain.stores.LowerQuartile()},
                       {&MachineModel::read_shared_plain_line_ns, plain.reads.LowerQuartile()},
                       {&MachineModel::store_shared_stream_line_ns, stream.stores.LowerQuartile()},
                       {&MachineModel::read_shared_stream_line_ns, stream.reads.LowerQuartile()}});
}

// Sleeps for a moment: until whoever is about to sleep does.
void Nap() {
  EventCount nobodys;
  Deadline nap{.timeout_ns = 50'000};
  WaitUntil(
      nobodys, kSleeping, nap, [] { return false; }, [] { return false; });
}

// The partner goes to sleep at once; when it does for sure, it is woken, and answers.
void Wakes(Measurement& measurement, Partner& partner, Flags& flags) {
  constexpr int kTries = 12;
  Samples samples;
  for (int i = 0; i < kTries && measurement.TimeLeft(); ++i) {
    const uint32_t k = ++flags.last;
    partner.Begin([&partner, &flags, k] {
      if (flags.mine.Await(partner, kSleeping, k)) flags.theirs.Raise(k);
    });
    partner.WaitFor(flags.theirs.written, kMeasureWait, [&] {
      return flags.mine.written.sleepers.load(std::memory_order_acquire) != 0;
    });
    Nap();
    const int64_t before_ns = MonotonicNs();
    flags.mine.Raise(k);
    const bool answered =
        flags.theirs.Await(partner, {.spins = 1'000'000, .yields = kMeasureWait.yields}, k);
    const double taken_ns = static_cast<double>(MonotonicNs() - before_ns);
    if (!partner.Finish() || !answered) break;
    samples.Add(taken_ns - measurement.model().sync_ns);
  }
  measurement.Take(&MachineModel::futex_ns, samples.LowerQuartile());
}

// Both threads on one CPU: a flag is seen when its writer yields.
void Yields(Measurement& measurement, Partner& partner, Flags& flags) {
  const BoundHere here;
  bool bound = false;
  if (here.bound()) partner.Do([&] { bound = BindTo(here.cpu()); });
  if (!bound) return measurement.Miss();
  measurement.Take(&MachineModel::yield_ns, OneWayNs(measurement, partner, flags, kYielding, 6));
}

}  // namespace

void MeasureTwoCores(Measurement& measurement) {
  Flags flags;  // outlives the partner, whose tasks use it
  Partner partner(measurement.stop_at_ns());
  if (!partner.running()) return measurement.Miss();
  measurement.Take(&MachineModel::sync_ns, OneWayNs(measurement, partner, flags, kMeasureWait, 16));
  SharedLinesByEither(measurement, partner);
  MeasureSingleCopy(measurement, partner);
  Wakes(measurement, partner, flags);
  Yields(measurement, partner, flags);  // last: it binds the partner
}

}  // namespace weft
