/* Communication while computing: each gradient is summed over ranks as soon as it is there, and a layer is updated when its sum is.
 *
 * Backward goes through the layers from the last to the first. It starts an all_reduce for each and does not wait; a completion
 * queue tells which have ended. WEFT_CALL_BACKGROUND has weft's own thread move them meanwhile. The buffer of an operation is weft's
 * until its completion has been taken.
 *
 *   $ cc -std=c99 overlap.c -o overlap $(pkg-config --cflags --libs weft)
 *   $ weftrun -n 2 ./overlap
 *   [0] 2 ranks, 80 sums, ... of them had ended before backward did; weights 2.00 2.00 2.00 2.00 2.00 2.00 2.00 2.00
 *   $ weftrun -n 3 ./overlap
 *   [0] 3 ranks, 80 sums, ... of them had ended before backward did; weights 2.00 2.00 2.00 2.00 2.00 2.00 2.00 2.00
 */
#include <stdio.h>
#include <stdlib.h>

#include <weft/weft.h>

enum { LAYERS = 8, WIDTH = 1 << 16, STEPS = 10 };

static float weights[LAYERS][WIDTH], gradients[LAYERS][WIDTH];

static void check(weft_result_t result) {
  if (result) exit(fprintf(stderr, "%s\n", weft_last_error()) > 0);
}

/* Pulls weights halfway to a number that is another one on each rank, and 2 on average. */
static void backward(int layer, int rank, int size) {
  const float aim = 2 + (float)rank - (float)(size - 1) / 2;
  for (int i = 0; i < WIDTH; ++i)
    gradients[layer][i] = (weights[layer][i] - aim) / 2;
}

/* Updates the layers whose gradients have been averaged; returns how many there were. */
static int update(const weft_completion_t* ended, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    if (ended[k].result) exit(fprintf(stderr, "%s\n", ended[k].message) > 0);
    for (int i = 0; i < WIDTH; ++i)
      weights[ended[k].token][i] -= gradients[ended[k].token][i];
  }
  return (int)count;
}

int main(void) {
  weft_group_t group;
  weft_completion_queue_t queue;
  int rank, size, early = 0, all = 0;
  check(weft_group_create_from_env(NULL, &group));
  check(weft_group_rank(group, &rank));
  check(weft_group_size(group, &size));
  check(weft_completion_queue_create(NULL, &queue));

  const weft_call_t in_background = {.struct_size = sizeof in_background,
                                     .fields = WEFT_CALL_BACKGROUND};
  weft_completion_t ended[LAYERS];
  size_t count;
  for (int step = 0; step < STEPS; ++step) {
    int updated = 0;
    for (int layer = LAYERS - 1; layer >= 0; --layer) {
      backward(layer, rank, size);
      weft_work_t work;
      check(weft_all_reduce(gradients[layer], gradients[layer], WIDTH, WEFT_FLOAT32, WEFT_AVG,
                            group, &in_background, &work));
      check(weft_completion_queue_add(queue, work, (uint64_t)layer));
      check(weft_work_free(work)); /* the handle; its completion comes all the same */
      check(weft_completion_queue_poll(queue, ended, LAYERS, &count));
      updated += update(ended, count);
    }
    early += updated;
    while (updated < LAYERS) {
      check(weft_completion_queue_wait(queue, 0, ended, LAYERS, &count));
      updated += update(ended, count);
    }
    all += updated;
  }
  if (rank == 0) {
    printf("%d ranks, %d sums, %d of them had ended before backward did; weights", size, all,
           early);
    for (int layer = 0; layer < LAYERS; ++layer)
      printf(" %.2f", weights[layer][layer]);
    printf("\n");
  }
  check(weft_completion_queue_destroy(queue));
  check(weft_group_destroy(group));
  return 0;
}
