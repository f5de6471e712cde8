/* One line of the protocol between ./dev compare and a driver, parsed.
 *
 *   op=all_reduce dtype=float32 bytes=4096 place=in memory=private sets=1 warmup=20 calls=500 check=1 keep=1
 *
 * Words are separated by blanks, in any order; what is left out has the value of zero. Every rank reads
 * the same line from its own pipe. The sizes that follow from `bytes` are those of nccl-tests.
 *
 * Thread rule: plain values, no state.
 */
#ifndef WEFT_BENCH_COMPARE_DRIVER_COMMAND_H_
#define WEFT_BENCH_COMPARE_DRIVER_COMMAND_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to measure. COPY is memcpy between two buffers of the rank's own; IDLE is nothing, for `calls` seconds.
 * Of two ranks: EXCHANGE sends to the other and receives as much from it at once; ROUND_TRIP does so one way after the other. */
enum operation {
  OP_ALL_REDUCE,
  OP_ALL_GATHER,
  OP_REDUCE_SCATTER,
  OP_BROADCAST,
  OP_ALL_TO_ALL,
  OP_BARRIER,
  OP_COPY,
  OP_IDLE,
  OP_EXCHANGE,
  OP_ROUND_TRIP
};

/* Element types. */
enum element { ELEMENT_FLOAT32, ELEMENT_BFLOAT16 };

/* A parsed line. */
struct command {
  enum operation op;
  enum element dtype;
  size_t
      bytes; /* nccl-tests "size": of the whole vector for all_gather, reduce_scatter, all_to_all */
  int in_place;  /* all_reduce and all_gather; broadcast is always, the others never */
  int symmetric; /* memory=symmetric: what the library itself allocates */
  size_t sets;   /* how many sets of buffers the calls cycle through; 1: hot */
  long warmup;   /* calls before the clock starts */
  long calls;    /* calls that are timed */
  long flight;   /* 0: blocking calls; else asynchronous ones, so many under way at a time */
  int tail;      /* take the time of each blocking call too */
  int check;     /* fill before, compare after */
  int keep;      /* keep the buffers for the next command */
};

/* How many elements a command means, on a rank. */
struct extent {
  size_t count;     /* what the library is told */
  size_t in_count;  /* elements of the in buffer */
  size_t out_count; /* elements of the out buffer */
};

/* Parses a line. Returns NULL, or a sentence (static storage) that says what is wrong with it. */
const char* ParseCommand(const char* line, struct command* command);

/* Bytes of an element. */
size_t ElementSize(enum element dtype);

/* The counts of a command on `ranks` ranks. Chunks are cut to multiples of 16 bytes as nccl-tests do,
 * with one exception: a size below 16 bytes per rank becomes one element. */
struct extent ExtentOf(const struct command* command, int ranks);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_BENCH_COMPARE_DRIVER_COMMAND_H_ */
