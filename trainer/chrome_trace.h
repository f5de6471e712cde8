// Traces of all ranks as one file that chrome://tracing and ui.perfetto.dev show: a process for
// each rank, with a lane for steps, one for computing, one for waiting and one for reductions.
//
//   const std::vector<RankTrace> all = GatherTraces(group, trace.events());
//   if (rank == 0) WriteRunFile(directory, "trace.json", ChromeTraceOf(all, units));
//
// Thread-safety: pure functions, but for the exchange.
#ifndef WEFT_TRAINER_CHROME_TRACE_H_
#define WEFT_TRAINER_CHROME_TRACE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/group.h"

#include "trainer/model_units.h"
#include "trainer/step_trace.h"

namespace weft::trainer {

struct RankTrace {
  size_t machine = 0;
  int64_t shift_ns = 0;  // from this machine's clock to rank 0's
  std::vector<TraceEvent> events;
};

// On rank 0 those of all ranks, elsewhere nothing. Clocks of other machines are set by a barrier,
// so they are right to some ten microseconds. Collective.
std::vector<RankTrace> GatherTraces(weft_group_t group, const std::vector<TraceEvent>& own);

// Times count from the first event's begin.
std::string ChromeTraceOf(const std::vector<RankTrace>& ranks, const std::vector<UnitSpec>& units);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CHROME_TRACE_H_
