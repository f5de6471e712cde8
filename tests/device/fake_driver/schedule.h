// When operations run. Whoever calls the driver runs parts of what is queued, as many as the seed says; whoever waits runs parts until what it
// waits for has ended; if nobody calls for a while, the worker runs them. Of the streams whose first operation may run, the seed draws one for
// each part. So an order is the seed's where one thread calls the driver. Host functions run in the worker.
//
// An operation may run when those in front of it in its stream have ended, what it waits for has come, and, of the legacy stream and of blocking streams,
// when earlier ones of the other side have ended.
#pragma once

#include <functional>

#include "tests/device/fake_driver/world.h"

namespace weft::fake_cuda {

void SetSeed(World& world, uint64_t seed);
void StartWorker();
void WakeWorker(World& world);

double DrawWeight(World& world);
int DrawParts(World& world);

// Appends to the stream, and then runs parts as the seed says. The operation's number.
uint64_t Enqueue(World& world, StreamState& stream, Operation operation);
// Runs a part, if the seed says so.
void Stir(World& world, double probability);
// Lets go of the lock meanwhile.
void WaitFor(World& world, const std::function<bool()>& done);

// Whether all of the stream's operations before `number` have ended; of the legacy stream, those that it waits for too.
bool HasEnded(const World& world, const StreamState& stream, uint64_t number);
bool DeviceHasEnded(const World& world, int device, uint64_t number);

}  // namespace weft::fake_cuda
