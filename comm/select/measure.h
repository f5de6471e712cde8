// Measures the machine: the numbers of a MachineModel, in at most a tenth of a second.
//
//   const MeasuredModel measured = MeasureModel(ReadHostFacts(), kMeasureBudgetNs);
//   measured.model                       // what was not measured is as in StaticModel
//
// Two threads, the calling one and one that is started and joined here, use shared memory as two ranks
// do: memory of a memfd that one writes and the other reads. With less than two cores only what one core
// can tell is measured.
// Machines are shared and noisy. Every number is the least (of copies of one core) or the lower quartile
// (of what happens between two cores, which in a virtual machine are neighbours at one time and far apart
// at another) of several short repetitions.
//
// Thread-safety: any thread; two at the same time disturb each other's numbers. For a part of the
// measurement (some hundred microseconds) the calling thread is bound to the CPU on which it runs.
#pragma once

#include <cstdint>

#include "base/host.h"
#include "comm/select/machine_model.h"

namespace weft {

constexpr int64_t kMeasureBudgetNs = 100'000'000;

struct MeasuredModel {
  MachineModel model;
  int measured_count = 0;  // of ModelFields()
  // False if time ran out, or the system refused something, before everything had been measured that
  // can be with this many cores. Not worth keeping for long.
  bool complete = false;
  int64_t took_ns = 0;
};

// The numbers of the machine that `host` describes, which is this one. Begins nothing new after
// `budget_ns`; always returns a sane model.
MeasuredModel MeasureModel(const HostFacts& host, int64_t budget_ns);

}  // namespace weft
