/* The buffers of a rank: sets of one in and one out buffer, each on pages of its own, cut from one arena.
 *
 *   struct buffers buffers = {0};
 *   const char* wrong = PlaceBuffers(&command, rank, size, backend, &buffers);
 *   ... InBuffer(&buffers, set), OutBuffer(&buffers, set) ...
 *
 * The arena is kept from command to command as long as it is large enough and of the same memory.
 * Private memory comes from posix_memalign, for every library alike.
 *
 * Thread rule: one thread.
 */
#ifndef WEFT_BENCH_COMPARE_DRIVER_BUFFERS_H_
#define WEFT_BENCH_COMPARE_DRIVER_BUFFERS_H_

#include <stddef.h>

#include "bench/compare/driver/command.h"

#ifdef __cplusplus
extern "C" {
#endif

struct backend;

/* Where the sets lie. */
struct buffers {
  char* arena;
  size_t arena_bytes;
  int symmetric;
  int fresh;         /* the arena was allocated for this command */
  size_t set_bytes;  /* distance of two sets */
  size_t in_offset;  /* of the in buffer in its set */
  size_t out_offset; /* of the out buffer in its set */
};

/* Lays out the sets of a command, allocating when the arena is too small. Returns NULL or a sentence. */
const char* PlaceBuffers(const struct command* command, int rank, int size,
                         const struct backend* backend, struct buffers* buffers);

/* Gives the arena back. */
void DropBuffers(const struct backend* backend, struct buffers* buffers);

/* The in buffer of a set. */
static inline char* InBuffer(const struct buffers* buffers, size_t set) {
  return buffers->arena + set * buffers->set_bytes + buffers->in_offset;
}

/* The out buffer of a set. */
static inline char* OutBuffer(const struct buffers* buffers, size_t set) {
  return buffers->arena + set * buffers->set_bytes + buffers->out_offset;
}

#ifdef __cplusplus
}
#endif

#endif /* WEFT_BENCH_COMPARE_DRIVER_BUFFERS_H_ */
