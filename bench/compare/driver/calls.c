#define _GNU_SOURCE /* clock_gettime */
#include "bench/compare/driver/calls.h"

#include <stdlib.h>
#include <string.h>

double ClockSeconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static const char* Copy(const struct command* command, const void* in, void* out, size_t count) {
  memcpy(out, in, count * ElementSize(command->dtype));
  return NULL;
}

static const char* Blocking(const struct command* command, const struct backend* backend,
                            const struct buffers* buffers, long calls, size_t* set) {
  const size_t count = ExtentOf(command, backend->size).count;
  const char* (*run)(const struct command*, const void*, void*, size_t) =
      command->op == OP_COPY ? Copy : backend->run;
  const char* failure = NULL;
  size_t at = *set;
  for (long i = 0; i < calls && failure == NULL; ++i) {
    failure = run(command, InBuffer(buffers, at), OutBuffer(buffers, at), count);
    if (++at == command->sets) at = 0;
  }
  *set = at;
  return failure;
}

static const char* Timed(const struct command* command, const struct backend* backend,
                         const struct buffers* buffers, long calls, size_t* set, double* times) {
  const char* failure = NULL;
  double before = ClockSeconds(CLOCK_MONOTONIC);
  for (long i = 0; i < calls && failure == NULL; ++i) {
    failure = Blocking(command, backend, buffers, 1, set);
    const double now = ClockSeconds(CLOCK_MONOTONIC);
    times[i] = now - before;
    before = now;
  }
  return failure;
}

static const char* Asynchronous(const struct command* command, const struct backend* backend,
                                const struct buffers* buffers, long calls, size_t* set) {
  const size_t count = ExtentOf(command, backend->size).count;
  const long flight = command->flight;
  const char* failure = NULL;
  long started = 0;
  long finished = 0;
  size_t at = *set;
  for (; started < calls && failure == NULL; ++started) {
    if (started - finished == flight) failure = backend->finish((int)(finished++ % flight));
    if (failure != NULL) break;
    failure = backend->start(command, InBuffer(buffers, at), OutBuffer(buffers, at), count,
                             (int)(started % flight));
    if (failure != NULL) break;
    if (++at == command->sets) at = 0;
  }
  while (finished < started) {
    const char* const end = backend->finish((int)(finished++ % flight));
    if (failure == NULL) failure = end;
  }
  *set = at;
  return failure;
}

const char* MakeCalls(const struct command* command, const struct backend* backend,
                      const struct buffers* buffers, long calls, size_t* set, double* times) {
  if (times != NULL) return Timed(command, backend, buffers, calls, set, times);
  if (command->flight > 0) return Asynchronous(command, backend, buffers, calls, set);
  return Blocking(command, backend, buffers, calls, set);
}

static int Compare(const void* left, const void* right) {
  const double a = *(const double*)left;
  const double b = *(const double*)right;
  return (a > b) - (a < b);
}

struct tail TailOf(double* times, long count) {
  struct tail tail = {0};
  if (count == 0) return tail;
  qsort(times, (size_t)count, sizeof(*times), Compare);
  tail.median_s = times[count / 2];
  tail.p999_s = times[(count - 1) * 999 / 1000];
  tail.max_s = times[count - 1];
  return tail;
}
