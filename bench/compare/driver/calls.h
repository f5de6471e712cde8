/* The calls of a command: one after the other, several under way, or each with its time.
 *
 *   size_t set = 0;
 *   const char* failure = MakeCalls(&command, backend, &buffers, command.calls, &set, NULL);
 *
 * Thread rule: one thread.
 */
#ifndef WEFT_BENCH_COMPARE_DRIVER_CALLS_H_
#define WEFT_BENCH_COMPARE_DRIVER_CALLS_H_

#include <stddef.h>
#include <time.h>

#include "bench/compare/driver/backend.h"
#include "bench/compare/driver/buffers.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the times of all calls, in seconds. */
struct tail {
  double median_s;
  double p999_s; /* what 999 of 1000 calls do not exceed */
  double max_s;
};

/* Seconds of a clock. */
double ClockSeconds(clockid_t clock);

/* Makes `calls` calls, one set of buffers after the other from `*set` on, which is moved on. With command->flight
 * at most as many are under way at a time, and all have ended on return. times: NULL, or room for the seconds of
 * each call. Returns NULL, or a sentence about the first failure. */
const char* MakeCalls(const struct command* command, const struct backend* backend,
                      const struct buffers* buffers, long calls, size_t* set, double* times);

/* Sorts `times`. */
struct tail TailOf(double* times, long count);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_BENCH_COMPARE_DRIVER_CALLS_H_ */
