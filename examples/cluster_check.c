/* The first program for a new cluster: who is there, whether sums are right, and how long they take.
 *
 * Every rank tells where it runs. Then all_reduce adds numbers whose sum is known, from 8 bytes to 2 MiB; each rank looks at each
 * of its results, and the time is that of the slowest rank. The program ends with 1 if any rank has found a wrong number.
 *
 *   $ cc -std=c99 cluster_check.c -o cluster_check $(pkg-config --cflags --libs weft)
 *   $ weftrun -n 2 ./cluster_check
 *   [0] rank 0 of 2 is process ... on ...
 *   [0] rank 1 of 2 is process ... on ...
 *   [0]       8 bytes: 0 wrong, ... us, ... GB/s
 *   [0]     512 bytes: 0 wrong, ... us, ... GB/s
 *   [0]   32768 bytes: 0 wrong, ... us, ... GB/s
 *   [0] 2097152 bytes: 0 wrong, ... us, ... GB/s
 *   $ weftrun -n 3 ./cluster_check | grep -c "0 wrong"
 *   4
 */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weft/weft.h>

enum { LARGEST = 1 << 19, TIMES = 20 };

typedef struct {
  char host[64];
  int64_t pid;
} place_t;

static void check(weft_result_t result) {
  if (result) exit(fprintf(stderr, "%s\n", weft_last_error()) > 0);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Exact in float32, and another number for each rank and place. */
static float input(int rank, size_t i) {
  return (float)(rank + (int)(i % 1000));
}

int main(void) {
  weft_group_t group;
  int rank, size;
  check(weft_group_create_from_env(NULL, &group));
  check(weft_group_rank(group, &rank));
  check(weft_group_size(group, &size));

  place_t mine = {.pid = getpid()}, *all = calloc((size_t)size, sizeof *all);
  float *in = malloc(LARGEST * sizeof *in), *out = malloc(LARGEST * sizeof *out);
  if (!all || !in || !out) return fprintf(stderr, "no memory\n"), 1;
  gethostname(mine.host, sizeof mine.host - 1);
  check(weft_gather(&mine, all, sizeof mine, WEFT_UINT8, 0, group, NULL, NULL));
  for (int r = 0; rank == 0 && r < size; ++r)
    printf("rank %d of %d is process %d on %s\n", r, size, (int)all[r].pid, all[r].host);

  int64_t wrong_ever = 0;
  for (size_t count = 2; count <= LARGEST; count *= 64) {
    for (size_t i = 0; i < count; ++i)
      in[i] = input(rank, i);
    int64_t wrong = 0;
    double took = 0;
    for (int repeat = -1; repeat < TIMES; ++repeat) { /* the first one is not counted */
      memset(out, 0xff, count * sizeof *out);
      check(weft_barrier(group, NULL, NULL));
      const double begin = seconds();
      check(weft_all_reduce(in, out, count, WEFT_FLOAT32, WEFT_SUM, group, NULL, NULL));
      if (repeat >= 0) took += (seconds() - begin) / TIMES;
      for (size_t i = 0; i < count; ++i)
        wrong += out[i] != (float)size * input(0, i) + (float)(size * (size - 1) / 2);
    }
    check(weft_all_reduce(&wrong, &wrong, 1, WEFT_INT64, WEFT_SUM, group, NULL, NULL));
    check(weft_all_reduce(&took, &took, 1, WEFT_FLOAT64, WEFT_MAX, group, NULL, NULL));
    wrong_ever += wrong;
    const size_t bytes = count * sizeof *in;
    if (rank == 0) /* GB/s as nccl-tests count them: what each link carries */
      printf("%7zu bytes: %d wrong, %.1f us, %.2f GB/s\n", bytes, (int)wrong, took * 1e6,
             2.0 * (size - 1) / size * (double)bytes / took / 1e9);
  }
  free(all), free(in), free(out);
  check(weft_group_destroy(group));
  return wrong_ever > 0;
}
