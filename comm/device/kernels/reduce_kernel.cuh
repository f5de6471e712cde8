// A reduction kernel: comm/device/element/reduce.h.
#pragma once

#include "comm/device/element/reduce.h"
#include "comm/device/kernels/kernel_list.h"
#include "comm/device/kernels/team.cuh"

#define WEFT_DEFINE_REDUCE(name, E, Op, kSources, Out)             \
  WEFT_KERNEL(name, ::weft::device::ReduceParameters, 2) {         \
    using namespace weft::device;                                  \
    ReduceSources<E, Op, kSources, Out>(parameters, ThisWorker()); \
  }
