/* What a library under test has to offer to the driver: a table of functions.
 *
 *   static const struct backend kBackend = {"1.2.3", rank, size, Refuse, Run, Barrier};
 *   return Drive(&kBackend);
 *
 * Thread rule: the driver's one thread calls everything.
 */
#ifndef WEFT_BENCH_COMPARE_DRIVER_BACKEND_H_
#define WEFT_BENCH_COMPARE_DRIVER_BACKEND_H_

#include <stddef.h>

#include "bench/compare/driver/command.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A library, ready to run on this rank. */
struct backend {
  const char* version;
  int rank;
  int size;
  /* NULL if the library can do the command, else a sentence that says what it has not. */
  const char* (*refuse)(const struct command* command);
  /* One call of the library; NULL, or a sentence about its failure. */
  const char* (*run)(const struct command* command, const void* in, void* out, size_t count);
  /* Completes on no rank before all have called it. */
  const char* (*barrier)(void);
  /* Memory of the library's own; both NULL where there is none. */
  void* (*allocate)(size_t bytes);
  void (*release)(void* memory);
  /* Starts a call as the `slot`-th under way, or waits for the end of the one that was; both NULL where the driver
   * does not know how. `slot` is less than kFlightMost. */
  const char* (*start)(const struct command* command, const void* in, void* out, size_t count,
                       int slot);
  const char* (*finish)(int slot);
};

/* Calls under way at a time. */
enum { kFlightMost = 16 };

/* Answers the commands that arrive in the pipe of this rank until it is closed. Returns the process's
 * exit code. The environment variable COMPARE_PIPES names the folder of the pipes, COMPARE_CORES the core of
 * each rank ("0,1"; unset: anywhere). */
int Drive(const struct backend* backend);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_BENCH_COMPARE_DRIVER_BACKEND_H_ */
