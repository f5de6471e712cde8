/* weft behind the driver's table. */
#include <stdio.h>

#include "weft/weft.h"

#include "bench/compare/driver/backend.h"

static weft_group_t group;
static int other; /* of two ranks */
static weft_work_t works[kFlightMost];

// weft_last_error()'s text is good until the next call, and more are made before it is told.
static const char* Sentence(weft_result_t result) {
  static char sentence[1024];
  if (result == WEFT_SUCCESS) return NULL;
  snprintf(sentence, sizeof(sentence), "%s", weft_last_error());
  return sentence;
}

static const char* Refuse(const struct command* command) {
  (void)command;
  return NULL;
}

/* Blocking when `work` is NULL. */
static const char* Issue(const struct command* command, const void* in, void* out, size_t count,
                         weft_work_t* work) {
  const weft_dtype_t type = command->dtype == ELEMENT_FLOAT32 ? WEFT_FLOAT32 : WEFT_BFLOAT16;
  switch (command->op) {
    case OP_ALL_REDUCE:
      return Sentence(weft_all_reduce(in, out, count, type, WEFT_SUM, group, NULL, work));
    case OP_ALL_GATHER:
      return Sentence(weft_all_gather(in, out, count, type, group, NULL, work));
    case OP_REDUCE_SCATTER:
      return Sentence(weft_reduce_scatter(in, out, count, type, WEFT_SUM, group, NULL, work));
    case OP_BROADCAST:
      return Sentence(weft_broadcast(in, out, count, type, 0, group, NULL, work));
    case OP_ALL_TO_ALL:
      return Sentence(weft_all_to_all(in, out, count, type, group, NULL, work));
    case OP_BARRIER:
      return Sentence(weft_barrier(group, NULL, work));
    case OP_EXCHANGE:
      return Sentence(
          weft_sendrecv(in, count, other, 0, out, count, other, 0, type, NULL, group, NULL, work));
    case OP_COPY:
    case OP_IDLE:
    case OP_ROUND_TRIP:
      break;
  }
  return "weft has no such operation";
}

static const char* Run(const struct command* command, const void* in, void* out, size_t count) {
  return Issue(command, in, out, count, NULL);
}

static const char* Start(const struct command* command, const void* in, void* out, size_t count,
                         int slot) {
  return Issue(command, in, out, count, &works[slot]);
}

static const char* Finish(int slot) {
  const char* const failure = Sentence(weft_work_wait(works[slot], 0));
  weft_work_free(works[slot]);
  return failure;
}

static const char* Barrier(void) {
  return Sentence(weft_barrier(group, NULL, NULL));
}

static void* Allocate(size_t bytes) {
  void* memory = NULL;
  return weft_mem_alloc(bytes, 0, &memory) == WEFT_SUCCESS ? memory : NULL;
}

static void Release(void* memory) {
  weft_mem_free(memory);
}

int main(void) {
  struct backend backend = {
      WEFT_VERSION_STRING, 0, 1, Refuse, Run, Barrier, Allocate, Release, Start, Finish};
  if (weft_group_create_from_env(NULL, &group) != WEFT_SUCCESS ||
      weft_group_rank(group, &backend.rank) != WEFT_SUCCESS ||
      weft_group_size(group, &backend.size) != WEFT_SUCCESS) {
    fprintf(stderr, "compare driver: %s\n", weft_last_error());
    return 1;
  }
  other = 1 - backend.rank;
  const int code = Drive(&backend);
  weft_group_destroy(group);
  return code;
}
