#include "bench/compare/driver/buffers.h"

#include <stdlib.h>
#include <string.h>

#include "bench/compare/driver/backend.h"

static const size_t kPage = 4096;

static size_t WholePages(size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

static void LayOut(const struct command* command, int rank, int size, struct buffers* buffers) {
  const struct extent extent = ExtentOf(command, size);
  const size_t element_size = ElementSize(command->dtype);
  const size_t in_bytes = WholePages(extent.in_count * element_size);
  const size_t out_bytes = WholePages(extent.out_count * element_size);
  buffers->in_offset = 0;
  buffers->out_offset = in_bytes;
  buffers->set_bytes = in_bytes + out_bytes;
  if (command->op == OP_BROADCAST || (command->op == OP_ALL_REDUCE && command->in_place)) {
    buffers->out_offset = 0;
    buffers->set_bytes = in_bytes;
  } else if (command->op == OP_ALL_GATHER && command->in_place) {
    buffers->in_offset = (size_t)rank * extent.count * element_size;
    buffers->out_offset = 0;
    buffers->set_bytes = out_bytes;
  }
}

static void* Allocate(const struct backend* backend, size_t bytes, int symmetric) {
  if (symmetric) return backend->allocate ? backend->allocate(bytes) : NULL;
  void* memory = NULL;
  return posix_memalign(&memory, kPage, bytes) == 0 ? memory : NULL;
}

const char* PlaceBuffers(const struct command* command, int rank, int size,
                         const struct backend* backend, struct buffers* buffers) {
  LayOut(command, rank, size, buffers);
  size_t needed = buffers->set_bytes * command->sets;
  if (needed == 0) needed = kPage;
  buffers->fresh = 0;
  if (buffers->arena != NULL && buffers->arena_bytes >= needed &&
      buffers->symmetric == command->symmetric) {
    return NULL;
  }
  DropBuffers(backend, buffers);
  buffers->arena = Allocate(backend, needed, command->symmetric);
  if (buffers->arena == NULL) return "the buffers could not be allocated";
  /* Pages are there before anything is timed. */
  memset(buffers->arena, 0, needed);
  buffers->arena_bytes = needed;
  buffers->symmetric = command->symmetric;
  buffers->fresh = 1;
  return NULL;
}

void DropBuffers(const struct backend* backend, struct buffers* buffers) {
  if (buffers->arena != NULL && buffers->symmetric) {
    backend->release(buffers->arena);
  } else {
    free(buffers->arena);
  }
  buffers->arena = NULL;
  buffers->arena_bytes = 0;
}
