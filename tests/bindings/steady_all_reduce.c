/* Small all_reduces of a rank that never has to wait, for a tool that counts what happens within CountedCall
   (instruction_count_test.py).

     steady_all_reduce RANKS CALLS [call-the-system]

   All ranks are this thread's. The others announce an operation first, without blocking, so that rank 0 finds all
   arrivals there, and does all of it within its own call. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "weft/weft.h"

enum { kRanksMax = 8, kElements = 2 };

static float in[kElements] = {1, 2};
static float out[kRanksMax][kElements];
static int calls_the_system; /* to see that the tool notices */

/* A name that the tool can find. */
weft_result_t CountedCall(weft_group_t group);

__attribute__((noinline)) weft_result_t CountedCall(weft_group_t group) {
  const weft_result_t result =
      weft_all_reduce(in, out[0], kElements, WEFT_FLOAT32, WEFT_SUM, group, NULL, NULL);
  if (calls_the_system) getppid();
  return result;
}

static int Round(weft_group_t* groups, int ranks) {
  weft_work_t works[kRanksMax];
  for (int rank = 1; rank < ranks; ++rank)
    if (weft_all_reduce(in, out[rank], kElements, WEFT_FLOAT32, WEFT_SUM, groups[rank], NULL,
                        &works[rank]))
      return 1;
  if (CountedCall(groups[0])) return 1;
  for (int rank = 1; rank < ranks; ++rank) {
    if (weft_work_wait(works[rank], 0)) return 1;
    weft_work_free(works[rank]);
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int ranks = atoi(argv[1]);
  const long calls = atol(argv[2]);
  calls_the_system = argc > 3;
  if (ranks < 1 || ranks > kRanksMax) return 2;
  weft_group_t groups[kRanksMax];
  int failed = weft_group_create_local(ranks, NULL, groups) != WEFT_SUCCESS;
  for (long call = 0; call < calls && !failed; ++call)
    failed = Round(groups, ranks);
  if (failed) {
    fprintf(stderr, "%s\n", weft_last_error());
    return 1;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    if (out[rank][1] != 2.0F * (float)ranks) {
      fprintf(stderr, "rank %d of %d got %g\n", rank, ranks, (double)out[rank][1]);
      return 1;
    }
    weft_group_destroy(groups[rank]);
  }
  return 0;
}
