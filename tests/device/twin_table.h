// How twins get into the table that FindTwin looks in; for the sources of twins.
#pragma once

#include "comm/device/element/squares.h"
#include "comm/device/element/worker.h"
#include "tests/device/twins.h"

namespace weft::test {

struct TwinEntry {
  const char* image;  // of libweft_cuda.so
  const char* name;
  size_t parameter_bytes;
  Twin twin;
};

// A part of the table, by source.
struct TwinPart {
  const TwinEntry* entries;
  size_t count;
};

TwinPart ReduceTwins();
TwinPart OtherTwins();
TwinPart OptimizerTwins();

// Calls body(parameters, worker) for all threads of a launch, or of a part of it.
template <typename Parameters, typename Body>
void RunThreads(const void* parameters, const TwinLaunch& launch, Body body) {
  const uint64_t count = uint64_t{launch.blocks} * launch.threads;
  const uint64_t end = count * (launch.part + 1) / launch.parts;
  for (uint64_t index = count * launch.part / launch.parts; index < end; ++index)
    body(*static_cast<const Parameters*>(parameters), device::Worker{index, count});
}

// The sum of a block by the partial sums of all its team's members, in the order that FoldTeam of kernels/team.cuh has.
template <int kOwn>
double FoldPartials(const device::Packet<double, kOwn> (&members)[device::kSquarePartials / kOwn]) {
  double partials[device::kSquarePartials];
  for (int i = 0; i < device::kSquarePartials; ++i)
    partials[i] = members[i / kOwn].at[i % kOwn];
  for (int half = device::kSquarePartials / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i)
      partials[i] = partials[i] + partials[i + half];
  }
  return partials[0];
}

}  // namespace weft::test
