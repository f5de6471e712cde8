// The machine in numbers: what a wait costs, and what it costs to move a line.
//
//   MachineModel model = StaticModel(ReadHostFacts());   // constants
//   MachineModel model = MeasureModel(...).model;        // this machine (measure.h)
//   Tuning tuning = Choose(model, ranks);                // tuning.h
//
// A line is 64 bytes, all times are nanoseconds, and `_line_ns` is nanoseconds per line. "Shared" lines
// are those of memory that two ranks use in turn: written by one, read by the other, written again. That
// is what staging and slots are, and its costs are not those of a copy: a store has to take the line away
// from the reader's cache first. "Plain" and "stream" are ordinary and non-temporal stores.
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/host.h"

namespace weft {

constexpr uint64_t kModelLineBytes = 64;
constexpr uint64_t kModelPageBytes = 4096;

// Where the defaults come from: two machines, AMD Zen 4 (Z) and Intel Sapphire
// Rapids (S), virtual machines of two CPUs; docs/design/006-selection.md has the measurements.
struct MachineModel {
  // Waiting.
  double sync_ns = 80;   // from a rank's store of a flag to a spinning peer's sight of it: 35-130 Z
  double probe_ns = 30;  // a look at a flag and a pause: 15 Z, 55 S
  double yield_ns = 1000;    // to another rank on the same core by sched_yield: about 1000 Z, S
  double futex_ns = 30'000;  // from the wake to the sleeper's running: 20-45 us Z, S

  // Memory of one rank.
  double copy_line_ns = 1.2;       // both ends in L2: 54 GB/s S
  double dram_copy_line_ns = 5.6;  // both ends beyond the caches, plain stores: 11.5 GB/s S
  double dram_copy_stream_line_ns =
      4.5;                       // with non-temporal stores: a third fewer bytes on the bus
  double reduce2_line_ns = 1.5;  // a line of float32 sums of two sources in L2

  // Lines that two ranks use in turn. A plain store to a line that the peer has read: 3 S, 7 Z in one
  // core complex, 28 Z across. The static number is low on purpose: with it streaming does not win,
  // and streaming where it loses costs more than not streaming where it wins.
  double store_shared_plain_line_ns = 5;
  double store_shared_stream_line_ns = 2;   // Z
  double read_shared_plain_line_ns = 1.5;   // of lines the peer wrote plainly: 1.5-3.7 Z
  double read_shared_stream_line_ns = 4.5;  // of lines the peer streamed, now in memory: 4.5 Z

  // process_vm_readv of memory that is in the peer's cache.
  double single_copy_call_ns = 500;  // the system call
  double single_copy_page_ns = 100;  // finding and pinning a page of 4 KiB
  double single_copy_line_ns = 1.6;  // copying, slightly slower than in user space

  // Facts, never measured.
  uint64_t l1_bytes = 32 << 10;
  uint64_t l2_bytes = 1 << 20;
  uint64_t l3_bytes = 16 << 20;
  double cores = 2;  // that the ranks of the machine may use at a time, a cgroup's quota included
};

// Constants, with the caches and cores of a machine: what WEFT_TUNE=static takes, and the start of every measurement.
MachineModel StaticModel(const HostFacts& host);

// A number of the model by name, for whoever writes, reads or prints all of them. Times only: caches
// and cores are read from the machine whenever they are needed.
struct ModelField {
  const char* name;  // "sync_ns", as in the struct and in the cache file
  double MachineModel::*value;
  const char* meaning;  // a few words
};

std::span<const ModelField> ModelFields();

// Every time is finite, more than 0 and less than kModelTimeMaxNs, and so are cores and caches within
// what machines have. A model that fails this is not used.
bool IsSane(const MachineModel& model);
constexpr double kModelTimeMaxNs = 1e9;

}  // namespace weft
