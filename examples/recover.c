/* Going on with fewer ranks: pi by adding strips; one rank is killed, the others learn which, and share its work.
 *
 * Rounds of strips are dealt out to the ranks that there are. When one is lost, the call that needed it fails on the others, with its
 * number and the signal; they make the group anew without it, agree on the round to go on from, and deal again. --elastic has weftrun
 * leave the others alone.
 *
 *   $ cc -std=c99 recover.c -o recover $(pkg-config --cflags --libs weft)
 *   $ weftrun --elastic -n 3 ./recover
 *   [0] rank 1 was lost (signal 9) in round ...; ranks left: 2
 *   [2] rank 1 was lost (signal 9) in round ...; ranks left: 2
 *   [0] pi is about 3.14159265
 *   $ weftrun --elastic -n 2 ./recover
 *   [0] rank 1 was lost (signal 9) in round ...; ranks left: 1
 *   [0] pi is about 3.14159265
 */
#define _POSIX_C_SOURCE 200112L
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { ROUNDS = 10, STRIPS = 1000 /* of a round */ };

static int rank, size;

static void check(weft_result_t result) {
  if (result) exit(fprintf(stderr, "%s\n", weft_last_error()) > 0);
}

static double my_strips(int64_t round) {
  const double width = 1.0 / (ROUNDS * STRIPS);
  double sum = 0;
  for (int64_t i = round * STRIPS + rank; i < (round + 1) * STRIPS; i += size) {
    const double x = ((double)i + 0.5) * width;
    sum += width * 4 / (1 + x * x);
  }
  return sum;
}

/* Makes the group anew and returns the round that all ranks can go on from: one may have ended a round that another one could
 * not. Ranks may be lost meanwhile, too. */
static int64_t recover(weft_group_t group, int64_t round) {
  weft_error_info_t lost = {.struct_size = sizeof lost};
  int64_t agreed;
  do {
    check(weft_last_error_info(&lost));
    if (lost.result != WEFT_PEER_LOST && lost.result != WEFT_ABORTED) check(lost.result);
    check(weft_group_reconfigure(group, NULL, 0, NULL)); /* NULL: of all that live */
    check(weft_group_rank(group, &rank));
    check(weft_group_size(group, &size));
    agreed = round;
  } while (weft_all_reduce(&agreed, &agreed, 1, WEFT_INT64, WEFT_MIN, group, NULL, NULL));
  printf("rank %d was lost (signal %d) in round %d; ranks left: %d\n", lost.world_rank, lost.signal,
         (int)agreed, size);
  return agreed;
}

int main(void) {
  weft_group_t group;
  check(weft_group_create_from_env(NULL, &group));
  check(weft_group_rank(group, &rank));
  check(weft_group_size(group, &size));
  const int first_rank = rank;

  double pi[ROUNDS + 1] = {0}; /* the sum before each round, to go back to */
  for (int64_t round = 0; round < ROUNDS;) {
    double sum = my_strips(round);
    if (first_rank == 1 && round == 4) raise(SIGKILL); /* an accident */
    if (weft_all_reduce(&sum, &sum, 1, WEFT_FLOAT64, WEFT_SUM, group, NULL, NULL)) {
      round = recover(group, round);
    } else {
      pi[round + 1] = pi[round] + sum;
      ++round;
    }
  }
  if (rank == 0) printf("pi is about %.8f\n", pi[ROUNDS]);
  check(weft_group_destroy(group));
  return 0;
}
