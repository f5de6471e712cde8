/* Without a launcher: a program that starts its ranks itself and gives them a unique id, as programs for NCCL do.
 *
 * Here the id reaches the ranks by fork(). Any other way will do: MPI_Bcast, a file, a socket. It carries the job's secret, so send it
 * to nobody else. Nothing is read from the environment.
 *
 *   $ cc -std=c99 unique_id.c -o unique_id $(pkg-config --cflags --libs weft)
 *   $ ./unique_id 2
 *   rank 0 of 2 knows that all ranks together have 3 marbles
 *   rank 1 of 2 knows that all ranks together have 3 marbles
 *   $ ./unique_id 3
 *   rank 0 of 3 knows that all ranks together have 6 marbles
 *   rank 1 of 3 knows that all ranks together have 6 marbles
 *   rank 2 of 3 knows that all ranks together have 6 marbles
 */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

static void check(weft_result_t result) {
  if (result) exit(fprintf(stderr, "%s\n", weft_last_error()) > 0);
}

static void run(const weft_unique_id_t* id, int size, int rank) {
  weft_group_config_t config = {.struct_size = sizeof config,
                                .name = "marbles",                     /* in messages */
                                .init_timeout_ns = 60 * 1000000000LL}; /* for all to come */
  weft_group_t group;
  check(weft_group_create_from_id(id, size, rank, &config, &group));
  int32_t marbles = rank + 1;
  check(weft_all_reduce(&marbles, &marbles, 1, WEFT_INT32, WEFT_SUM, group, NULL, NULL));
  printf("rank %d of %d knows that all ranks together have %d marbles\n", rank, size, marbles);
  check(weft_group_destroy(group));
}

int main(int argc, char** argv) {
  const int size = argc > 1 ? atoi(argv[1]) : 2;
  weft_unique_id_t id;
  check(weft_unique_id_create(&id));
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = fork();
    if (child < 0) return perror("fork"), 1;
    if (child == 0) return run(&id, size, rank), 0;
  }
  int failed = 0;
  for (int status; wait(&status) > 0;)
    failed |= status != 0;
  return failed;
}
