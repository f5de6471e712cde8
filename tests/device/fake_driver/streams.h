// Streams and events by handle; copies as operations.
#pragma once

#include "tests/device/fake_driver/world.h"

namespace weft::fake_cuda {

// The stream of a handle, or the current context's legacy stream; kInvalidHandle, kInvalidContext, or what the stream's device has failed.
Result FindStream(World& world, Stream handle, StreamState** found);

// Does part(begin, end) over [0, bytes) in parts, from the first to the last or the other way round.
std::function<bool()> InParts(World& world, uint64_t bytes,
                              const std::function<bool(uint64_t begin, uint64_t end)>& part);

// Whether the calling thread may do what spoils captures of others.
bool IsRelaxed();

}  // namespace weft::fake_cuda
