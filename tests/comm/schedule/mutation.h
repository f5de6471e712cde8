// Schedules with a mistake in them, drawn by chance: what a bug in a generator, or a hand that edits a file, may do.
//
//   std::string what;
//   const ScheduleTable mutant = Mutate(TableOf(*schedule), &random, &what);   // what: "participant 2: op 5 dropped"
//
// Ops are numbered by their places in the list, so `after` follows an op that is moved. What participants say that they send is counted
// anew, so that not this finds the mistakes.
// Thread-safety: pure.
#pragma once

#include <random>
#include <string>

#include "comm/schedule/table_schedule.h"

namespace weft::test {

ScheduleTable Mutate(ScheduleTable table, std::mt19937_64* random, std::string* what);

}  // namespace weft::test
