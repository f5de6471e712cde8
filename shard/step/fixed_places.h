// Where the params of each unit lie whenever they are unsharded, if views are to stay where they are.
//
//   FixedPlaces places = PlacesApart(layout);                    // a place of its own for each unit
//   schedule.fixed_bytes = ShareFixedPlaces(schedule.gathers);   // one place for units that are never there together
//   places = PlacesOf(schedule, layout);
//
// Units that are unsharded at the same time have places that do not overlap: colouring of a graph whose nodes have sizes. Units
// are placed largest first and, a second attempt, in the order of their first use, each at the lowest offset that is free of all
// that it must not meet; the lower end wins. (The best colouring is NP-hard already where all sizes are equal: Karp 1972.)
//
// Thread-safety: values and pure functions.
#pragma once

#include <cstddef>
#include <vector>

#include "shard/layout/layout.h"

namespace weft {

struct Residency;
struct Schedule;

struct FixedPlaces {
  static constexpr size_t kNowhere = ~size_t{0};

  std::vector<size_t> offsets;  // by unit; kNowhere: its params are never sharded
  size_t bytes = 0;
};

// No unit lies where another one does.
FixedPlaces PlacesApart(const Layout& layout);

// Sets the offsets of gathers, the same for all of a unit, so that residencies that overlap in time are apart. Returns how many bytes
// that takes.
size_t ShareFixedPlaces(std::vector<Residency>& gathers);

// Those of the units that the schedule gathers. A unit that it does not use has a place of its own behind them: nothing is known of
// when it will be there.
FixedPlaces PlacesOf(const Schedule& schedule, const Layout& layout);

}  // namespace weft
