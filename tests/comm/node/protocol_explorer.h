// Goes through the states of a ProtocolModel: all of them, or along random walks.
//
//   const Exploration all = ExploreAll(ProtocolModel(world));
//   EXPECT_EQ(all.problem, "");
//
// ExploreAll is a depth-first search that keeps a 64-bit hash of every state that it has seen: of a million states
// one is missed with a probability below 1e-7.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "protocol_model.h"

namespace weft::test {

struct Exploration {
  size_t states = 0;
  std::string problem;  // with the world and the steps that lead to it; "" if none was found
};

// Every state that can be reached, until the first problem. A world of more than `states_max` states is a problem.
Exploration ExploreAll(const ProtocolModel& model, size_t states_max = 20'000'000);

// One run to the end. Ranks have speeds, drawn from the seed, that differ by up to 64 times, so that some runs have a
// rank far behind.
Exploration WalkAtRandom(const ProtocolModel& model, uint64_t seed);

}  // namespace weft::test
