/* Small messages that never have to wait, for a tool that counts what happens within CountedCall
   (instruction_count_test.py).

     steady_message CALLS

   Both ranks are this thread's: rank 1 receives what rank 0 has sent already. */
#include <stdio.h>
#include <stdlib.h>

#include "weft/weft.h"

enum { kElements = 2, kTag = 7 };

static float in[kElements] = {1, 2};
static float out[kElements];

/* A name that the tool can find. */
weft_result_t CountedCall(weft_group_t* groups);

__attribute__((noinline)) weft_result_t CountedCall(weft_group_t* groups) {
  const weft_result_t sent = weft_send(in, kElements, WEFT_FLOAT32, 1, kTag, groups[0], NULL, NULL);
  if (sent) return sent;
  return weft_recv(out, kElements, WEFT_FLOAT32, 0, kTag, NULL, groups[1], NULL, NULL);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const long calls = atol(argv[1]);
  weft_group_t groups[2];
  int failed = weft_group_create_local(2, NULL, groups) != WEFT_SUCCESS;
  for (long call = 0; call < calls && !failed; ++call)
    failed = CountedCall(groups) != WEFT_SUCCESS;
  if (failed || out[1] != in[1]) {
    fprintf(stderr, "%s\n", weft_last_error());
    return 1;
  }
  for (int rank = 0; rank < 2; ++rank)
    weft_group_destroy(groups[rank]);
  return 0;
}
