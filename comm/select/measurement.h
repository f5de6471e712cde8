// A measurement under way: the model so far, the time that is left, and how a number is taken.
//
//   Measurement measurement(host, budget_ns);
//   MeasureOneCore(measurement);
//   if (host.cores >= 2) MeasureTwoCores(measurement);
//   MeasureMemory(measurement);
//   return measurement.Result();
//
// Inside of measure.h. Thread-safety: from the measuring thread; TimeLeft() from any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "base/wait.h"
#include "comm/kernels/copy.h"
#include "comm/kernels/reduce.h"
#include "comm/select/measure.h"

namespace weft {

// Repetitions of one number. Less than three are none.
class Samples {
 public:
  void Add(double ns) { values_.push_back(ns); }

  std::optional<double> Least() const;
  std::optional<double> LowerQuartile() const;

 private:
  std::vector<double> values_;
};

// Private memory with pages behind it; data() is nullptr if there was none.
class PrivateBytes {
 public:
  explicit PrivateBytes(size_t bytes);
  PrivateBytes(const PrivateBytes&) = delete;
  PrivateBytes& operator=(const PrivateBytes&) = delete;
  ~PrivateBytes();

  char* data() const { return data_; }

 private:
  const size_t bytes_;
  char* data_ = nullptr;
};

class Measurement {
 public:
  // A small piece of the staged pipeline: two of them fit any L2.
  static constexpr size_t kHotBytes = 64 << 10;
  static constexpr double kHotLines = static_cast<double>(kHotBytes) / kModelLineBytes;

  Measurement(const HostFacts& host, int64_t budget_ns);

  const HostFacts& host() const { return host_; }

  int64_t stop_at_ns() const { return stop_at_ns_; }

  bool TimeLeft(int64_t reserve_ns = 0) const { return MonotonicNs() + reserve_ns < stop_at_ns_; }

  // Puts a number into the model if it is one; otherwise the static one stays and the model is not
  // complete.
  void Take(double MachineModel::*field, std::optional<double> ns);

  // Numbers that are compared with each other: all of them, or none.
  struct Number {
    double MachineModel::*field;
    std::optional<double> ns;
  };

  void TakeAll(std::initializer_list<Number> numbers);

  // Something that should be there could not be measured.
  void Miss() { result_.complete = false; }

  // The least time of `once` of up to `most` tries, after one to warm.
  template <typename Once>
  std::optional<double> LeastNs(int most, Once&& once) const {
    Samples samples;
    once();
    for (int i = 0; i < most && TimeLeft(); ++i) {
      const int64_t before_ns = MonotonicNs();
      once();
      samples.Add(static_cast<double>(MonotonicNs() - before_ns));
    }
    return samples.Least();
  }

  const MachineModel& model() const { return result_.model; }

  // kHotBytes of a core's own memory; which: 0 and 1 are the caller's, 2 the partner's.
  char* Hot(size_t which) const { return hot_.data() + which * kHotBytes; }

  bool has_memory() const { return hot_.data() != nullptr; }

  Isa isa() const { return isa_; }

  // Copies with ordinary and with non-temporal stores.
  CopyKernel plain() const { return plain_; }

  CopyKernel stream() const { return stream_; }

  MeasuredModel Result() const;

 private:
  const HostFacts host_;
  const int64_t began_ns_;
  const int64_t stop_at_ns_;
  const Isa isa_;
  const CopyKernel plain_;
  const CopyKernel stream_;
  const PrivateBytes hot_;
  MeasuredModel result_;
};

class Partner;

// What one core tells within its caches: probes, copies, reductions.
void MeasureOneCore(Measurement& measurement);
// What happens between two: flags, shared lines, waking, yielding. Starts and joins a thread.
void MeasureTwoCores(Measurement& measurement);
// process_vm_readv on both at a time; of MeasureTwoCores.
void MeasureSingleCopy(Measurement& measurement, Partner& partner);
// Copies beyond the caches. Takes longest, so it comes last.
void MeasureMemory(Measurement& measurement);

}  // namespace weft
