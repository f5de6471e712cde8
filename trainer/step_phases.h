// Where the time of a step goes on one rank: a clock that is read when a part of the step ends,
// some five times for each micro-batch.
//
//   StepPhases phases;
//   phases.Begin();
//   ... read the batch ...
//   phases.End(Phase::kData);                                      // what has passed since Begin
//   ... forward ...
//   phases.End(Phase::kForward);                                   // since the End before
//   phases.Move(Phase::kForward, Phase::kGather, waited_s);        // a part of forward was waiting
//   record.phases = phases.seconds();
//
// Every moment of a step belongs to one phase, so that they add up to it. The output head computes
// loss and gradients in one sweep, which counts as backward. Thread-safety: an object belongs to
// one thread.
#ifndef WEFT_TRAINER_STEP_PHASES_H_
#define WEFT_TRAINER_STEP_PHASES_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft::trainer {

enum class Phase {
  kData,        // choosing and reading sequences
  kForward,     // but waiting
  kBackward,    // but waiting
  kGather,      // waited for parameters
  kReduce,      // waited for gradients to be reduced, and for the others' losses
  kOptimizer,   // clipping, for which the ranks add up the norm, and update
  kCheckpoint,  // what saving holds up; the rest of it is done in the background
};

inline constexpr std::array<const char*, 7> kPhaseNames = {
    "data", "forward", "backward", "gather", "reduce", "optimizer", "checkpoint"};  // by Phase
inline constexpr size_t kPhases = kPhaseNames.size();

class PhaseSeconds {
 public:
  double& operator[](Phase phase) { return seconds_[size_t(phase)]; }

  double operator[](Phase phase) const { return seconds_[size_t(phase)]; }

  PhaseSeconds& operator+=(const PhaseSeconds& other) {
    for (size_t i = 0; i < kPhases; i++)
      seconds_[i] += other.seconds_[i];
    return *this;
  }

  PhaseSeconds operator/(double count) const {
    PhaseSeconds part = *this;
    for (double& seconds : part.seconds_)
      seconds /= count;
    return part;
  }

  double Sum() const {
    double sum = 0;
    for (const double seconds : seconds_)
      sum += seconds;
    return sum;
  }

  // What the rank does itself.
  double Busy() const {
    return (*this)[Phase::kData] + (*this)[Phase::kForward] + (*this)[Phase::kBackward];
  }

 private:
  std::array<double, kPhases> seconds_ = {};
};

// Is told of each part of a step when it ends; times are of the machine's steady clock.
class PhaseListener {
 public:
  virtual ~PhaseListener() = default;
  virtual void Took(Phase phase, int64_t begin_ns, int64_t end_ns) = 0;
};

class StepPhases {
 public:
  // Forgets the step before. `listener` may be NULL, and is borrowed until the next Begin.
  void Begin(PhaseListener* listener = nullptr) {
    listener_ = listener;
    seconds_ = {};
    mark_ = Clock::now();
  }

  void End(Phase phase) {
    const Clock::time_point now = Clock::now();
    seconds_[phase] += std::chrono::duration<double>(now - mark_).count();
    if (listener_ != nullptr) listener_->Took(phase, SinceEpoch(mark_), SinceEpoch(now));
    mark_ = now;
  }

  // Never more than `from` has.
  void Move(Phase from, Phase to, double seconds) {
    const double moved = seconds < seconds_[from] ? seconds : seconds_[from];
    seconds_[from] -= moved;
    seconds_[to] += moved;
  }

  const PhaseSeconds& seconds() const { return seconds_; }

 private:
  using Clock = std::chrono::steady_clock;

  static int64_t SinceEpoch(Clock::time_point time) {
    return std::chrono::nanoseconds(time.time_since_epoch()).count();
  }

  PhaseListener* listener_ = nullptr;
  PhaseSeconds seconds_;
  Clock::time_point mark_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_STEP_PHASES_H_
