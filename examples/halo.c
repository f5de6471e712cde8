/* Messages to neighbours: heat spreads through a rod that is cut among the ranks (a halo exchange).
 *
 * In each step a rank needs one cell of each neighbour's. The two sends and two receives stand in a batch, which starts them
 * together: so no rank waits in a circle, whatever the order in which they are written. At the end weft_gather_v puts the rod together; its
 * numbers are the same to the bit for every number of ranks.
 *
 *   $ cc -std=c99 halo.c -o halo $(pkg-config --cflags --libs weft)
 *   $ weftrun -n 2 ./halo
 *   [0] 0.2148 2.6945 14.2804 32.7992 32.7992 14.2804 2.6944 0.2108
 *   $ weftrun -n 3 ./halo
 *   [0] 0.2148 2.6945 14.2804 32.7992 32.7992 14.2804 2.6944 0.2108
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { CELLS = 80, STEPS = 200, TO_LEFT = 1, TO_RIGHT = 2 };

static void check(weft_result_t result) {
  if (result) exit(fprintf(stderr, "%s\n", weft_last_error()) > 0);
}

/* Writes cells [0] and [count + 1], which the neighbours have; the ends of the rod stay cold. */
static void exchange(double* cells, size_t count, int rank, int size, weft_group_t group) {
  const int left = rank - 1, right = rank + 1;
  check(weft_batch_begin());
  if (left >= 0) {
    check(weft_send(&cells[1], 1, WEFT_FLOAT64, left, TO_LEFT, group, NULL, NULL));
    check(weft_recv(&cells[0], 1, WEFT_FLOAT64, left, TO_RIGHT, NULL, group, NULL, NULL));
  }
  if (right < size) {
    check(weft_send(&cells[count], 1, WEFT_FLOAT64, right, TO_RIGHT, group, NULL, NULL));
    check(weft_recv(&cells[count + 1], 1, WEFT_FLOAT64, right, TO_LEFT, NULL, group, NULL, NULL));
  }
  check(weft_batch_end()); /* returns when all four are done */
}

int main(void) {
  weft_group_t group;
  int rank, size;
  check(weft_group_create_from_env(NULL, &group));
  check(weft_group_rank(group, &rank));
  check(weft_group_size(group, &size));

  /* Rank r has cells [begins[r], begins[r] + counts[r]); the first ones have one more where it does not go up. */
  size_t *counts = malloc((size_t)size * sizeof *counts),
         *begins = malloc((size_t)size * sizeof *begins);
  double now[CELLS + 2] = {0}, next[CELLS + 2] = {0}, rod[CELLS];
  if (!counts || !begins) return fprintf(stderr, "no memory\n"), 1;
  for (int r = 0; r < size; ++r) {
    counts[r] = (size_t)(CELLS / size + (r < CELLS % size));
    begins[r] = r > 0 ? begins[r - 1] + counts[r - 1] : 0;
  }
  const size_t count = counts[rank];
  for (size_t i = 0; i < count; ++i)
    now[i + 1] = begins[rank] + i == CELLS / 2 ? 1000 : 0; /* a hot spot */

  for (int step = 0; step < STEPS; ++step) {
    exchange(now, count, rank, size, group);
    for (size_t i = 1; i <= count; ++i)
      next[i] = now[i] + 0.3 * (now[i - 1] - 2 * now[i] + now[i + 1]);
    for (size_t i = 1; i <= count; ++i)
      now[i] = next[i];
  }

  check(weft_gather_v(&now[1], count, rod, counts, begins, WEFT_FLOAT64, 0, group, NULL, NULL));
  for (int i = 5; rank == 0 && i < CELLS; i += 10)
    printf("%.4f%c", rod[i], i + 10 < CELLS ? ' ' : '\n');
  free(counts), free(begins);
  check(weft_group_destroy(group));
  return 0;
}
