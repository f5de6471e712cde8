/* A program against nccl.h and nothing else, with buffers in host memory: what a user of NCCL brings.
 *
 *   nccl_program one        all ranks from one thread, by groups of calls (ncclCommInitAll)
 *   nccl_program threads    a thread for each rank
 *   nccl_program processes  a process for each rank, which meet by a unique id
 *
 * The install test compiles it with weft/nccl_compat.h in the place of nccl.h, and, where NVIDIA's
 * header is found, against that one too, so that it stays a program for NCCL. Prints one line "ok
 * MODE"; a failed check prints its line and the exit code is 1.
 */
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RANKS 4
#define COUNT 1500

static int failure_count;

#define EXPECT(condition)                                                            \
  do {                                                                               \
    if (!(condition)) {                                                              \
      ++failure_count;                                                               \
      fprintf(stderr, "%s:%d: %s; last error: %s\n", __FILE__, __LINE__, #condition, \
              ncclGetLastError(NULL));                                               \
    }                                                                                \
  } while (0)
#define EXPECT_OK(call) EXPECT((call) == ncclSuccess)

static void fill(float* x, int count, float value) {
  for (int i = 0; i < count; ++i)
    x[i] = value + (float)(i % 7);
}

static int holds(const float* x, int count, float value, float scale) {
  for (int i = 0; i < count; ++i) {
    if (x[i] != value + scale * (float)(i % 7)) return 0;
  }
  return 1;
}

static void check_collectives(ncclComm_t comm, int rank) {
  float* in = malloc(RANKS * COUNT * sizeof(float));
  float* out = malloc(RANKS * COUNT * sizeof(float));
  fill(in, COUNT, (float)rank);
  EXPECT_OK(ncclAllReduce(in, out, COUNT, ncclFloat, ncclSum, comm, NULL));
  EXPECT(holds(out, COUNT, 6, RANKS));
  EXPECT_OK(ncclAllReduce(in, in, COUNT, ncclFloat32, ncclMax, comm, NULL));
  EXPECT(holds(in, COUNT, RANKS - 1, 1));
  fill(in, COUNT, (float)rank);
  EXPECT_OK(ncclReduce(in, out, COUNT, ncclFloat, ncclAvg, 2, comm, NULL));
  if (rank == 2) EXPECT(holds(out, COUNT, 1.5f, 1));
  EXPECT_OK(ncclBroadcast(in, out, COUNT, ncclFloat, 1, comm, NULL));
  EXPECT(holds(out, COUNT, 1, 1));
  EXPECT_OK(ncclBcast(in, COUNT, ncclFloat, 3, comm, NULL));
  EXPECT(holds(in, COUNT, 3, 1));
  fill(in, COUNT, (float)rank);
  EXPECT_OK(ncclAllGather(in, out, COUNT, ncclFloat, comm, NULL));
  for (int r = 0; r < RANKS; ++r)
    EXPECT(holds(out + r * COUNT, COUNT, (float)r, 1));
  for (int r = 0; r < RANKS; ++r)
    fill(in + r * COUNT, COUNT, (float)(10 * r + rank));
  EXPECT_OK(ncclReduceScatter(in, out, COUNT, ncclFloat, ncclSum, comm, NULL));
  EXPECT(holds(out, COUNT, (float)(40 * rank + 6), RANKS));
  EXPECT_OK(ncclAlltoAll(in, out, COUNT, ncclFloat, comm, NULL));
  for (int r = 0; r < RANKS; ++r)
    EXPECT(holds(out + r * COUNT, COUNT, (float)(10 * rank + r), 1));
  EXPECT_OK(ncclScatter(in, out, COUNT, ncclFloat, 1, comm, NULL));
  EXPECT(holds(out, COUNT, (float)(10 * rank + 1), 1));
  EXPECT_OK(ncclGather(in, out, COUNT, ncclFloat, 0, comm, NULL));
  for (int r = 0; rank == 0 && r < RANKS; ++r)
    EXPECT(holds(out + r * COUNT, COUNT, (float)r, 1));
  free(in);
  free(out);
}

/* Everybody sends to everybody, itself included, and the group of calls makes it one exchange. */
static void check_messages(ncclComm_t comm, int rank) {
  float* in = malloc(RANKS * COUNT * sizeof(float));
  float* out = malloc(RANKS * COUNT * sizeof(float));
  for (int r = 0; r < RANKS; ++r)
    fill(in + r * COUNT, COUNT, (float)(10 * r + rank));
  EXPECT_OK(ncclGroupStart());
  for (int r = 0; r < RANKS; ++r) {
    EXPECT_OK(ncclSend(in + r * COUNT, COUNT, ncclFloat, r, comm, NULL));
    EXPECT_OK(ncclRecv(out + r * COUNT, COUNT, ncclFloat, r, comm, NULL));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; ++r)
    EXPECT(holds(out + r * COUNT, COUNT, (float)(10 * rank + r), 1));
  free(in);
  free(out);
}

static void check_premul_sum(ncclComm_t comm, int rank) {
  ncclRedOp_t scaled;
  float factor = 0.5f;
  float x[COUNT];
  fill(x, COUNT, (float)rank);
  EXPECT_OK(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat, ncclScalarHostImmediate, comm));
  EXPECT_OK(ncclAllReduce(x, x, COUNT, ncclFloat, scaled, comm, NULL));
  EXPECT(holds(x, COUNT, 3, 2));
  EXPECT_OK(ncclRedOpDestroy(scaled, comm));
}

/* Rank 3 stays out; of the others the even ones and the odd one form communicators. */
static void check_split(ncclComm_t comm, int rank) {
  ncclComm_t part = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  int size = 0;
  int part_rank = -1;
  double x = rank;
  config.blocking = 1;
  config.commName = "part";
  EXPECT_OK(ncclCommSplit(comm, rank == 3 ? NCCL_SPLIT_NOCOLOR : rank % 2, -rank, &part, &config));
  EXPECT((part == NULL) == (rank == 3));
  if (part == NULL) return;
  EXPECT_OK(ncclCommCount(part, &size));
  EXPECT(size == (rank == 1 ? 1 : 2));
  EXPECT_OK(ncclCommUserRank(part, &part_rank));
  EXPECT(part_rank == (rank == 0 ? 1 : 0));
  EXPECT_OK(ncclAllReduce(&x, &x, 1, ncclDouble, ncclSum, part, NULL));
  EXPECT(x == (rank == 1 ? 1 : 2));
  EXPECT_OK(ncclCommFinalize(part));
  EXPECT_OK(ncclCommDestroy(part));
}

static void check_memory(ncclComm_t comm, int rank) {
  void* memory = NULL;
  void* handles[3] = {NULL, NULL, NULL};
  float* own = NULL;
  EXPECT_OK(ncclMemAlloc(&memory, COUNT * sizeof(float)));
  EXPECT(posix_memalign((void**)&own, 4096, 8192) == 0);
  EXPECT_OK(ncclCommRegister(comm, memory, COUNT * sizeof(float), &handles[0]));
  EXPECT_OK(ncclCommRegister(comm, own, 8192, &handles[1]));
  EXPECT_OK(ncclCommRegister(comm, own + 3, 100, &handles[2]));
  fill(memory, COUNT, (float)rank);
  EXPECT_OK(ncclAllReduce(memory, own, COUNT, ncclFloat, ncclSum, comm, NULL));
  EXPECT(holds(own, COUNT, 6, RANKS));
  for (int i = 2; i >= 0; --i)
    EXPECT_OK(ncclCommDeregister(comm, handles[i]));
  EXPECT(holds(own, COUNT, 6, RANKS));
  free(own);
  EXPECT_OK(ncclMemFree(memory));
}

/* Wrong arguments are found at once, and the communicator goes on. */
static void check_refusals(ncclComm_t comm) {
  float x = 1;
  ncclResult_t state = ncclInternalError;
  EXPECT(ncclAllReduce(&x, &x, 1, (ncclDataType_t)77, ncclSum, comm, NULL) == ncclInvalidArgument);
  EXPECT(strlen(ncclGetLastError(comm)) > 0);
  EXPECT(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, NULL, NULL) == ncclInvalidArgument);
  EXPECT(ncclBcast(&x, 1, ncclFloat, RANKS, comm, NULL) == ncclInvalidArgument);
  EXPECT(ncclSend(&x, 1, ncclFloat, RANKS, comm, NULL) == ncclInvalidArgument);
  EXPECT(ncclRecv(&x, 1, ncclFloat, -1, comm, NULL) == ncclInvalidArgument);
  EXPECT(strcmp(ncclGetErrorString(ncclSuccess), "no error") == 0);
  EXPECT_OK(ncclCommGetAsyncError(comm, &state));
  EXPECT(state == ncclSuccess);
}

/* Ranks that call different things: all are told, and the communicator can only be aborted. */
static void check_mismatch(ncclComm_t comm, int rank) {
  float x[4] = {0, 0, 0, 0};
  ncclResult_t state = ncclSuccess;
  EXPECT(ncclAllReduce(x, x, rank == 2 ? 3 : 4, ncclFloat, ncclSum, comm, NULL) ==
         ncclInvalidUsage);
  EXPECT(strstr(ncclGetLastError(comm), "all_reduce") != NULL);
  EXPECT_OK(ncclCommGetAsyncError(comm, &state));
  EXPECT(state != ncclSuccess);
  EXPECT_OK(ncclCommAbort(comm));
}

static void rank_main(ncclComm_t comm, int rank) {
  int found = -1;
  EXPECT_OK(ncclCommUserRank(comm, &found));
  EXPECT(found == rank);
  EXPECT_OK(ncclCommCount(comm, &found));
  EXPECT(found == RANKS);
  check_collectives(comm, rank);
  check_messages(comm, rank);
  check_premul_sum(comm, rank);
  check_split(comm, rank);
  check_memory(comm, rank);
  check_refusals(comm);
  check_mismatch(comm, rank);
}

/* One thread makes the calls of all ranks: inside a group none of them may wait for the others. */
static void run_one(void) {
  ncclComm_t comms[RANKS];
  float x[RANKS][COUNT];
  float y[RANKS][COUNT];
  EXPECT_OK(ncclCommInitAll(comms, RANKS, NULL));
  for (int r = 0; r < RANKS; ++r)
    fill(x[r], COUNT, (float)r);
  EXPECT_OK(ncclGroupStart());
  for (int r = 0; r < RANKS; ++r) {
    EXPECT_OK(ncclAllReduce(x[r], x[r], COUNT, ncclFloat, ncclSum, comms[r], NULL));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; ++r)
    EXPECT(holds(x[r], COUNT, 6, RANKS));
  for (int r = 0; r < RANKS; ++r)
    fill(x[r], COUNT, (float)r);
  EXPECT_OK(ncclGroupStart());
  for (int r = 0; r < RANKS; ++r) {
    EXPECT_OK(ncclGroupStart());
    EXPECT_OK(ncclRecv(y[r], COUNT, ncclFloat, (r + 1) % RANKS, comms[r], NULL));
    EXPECT_OK(ncclSend(x[r], COUNT, ncclFloat, (r + RANKS - 1) % RANKS, comms[r], NULL));
    EXPECT_OK(ncclGroupEnd());
  }
  EXPECT_OK(ncclGroupEnd());
  for (int r = 0; r < RANKS; ++r)
    EXPECT(holds(y[r], COUNT, (float)((r + 1) % RANKS), 1));
  for (int r = 0; r < RANKS; ++r)
    EXPECT_OK(ncclCommDestroy(comms[r]));
}

/* One thread is all ranks, made from an id and split, each in one group of calls, as programs with several GPUs do it. */
static void run_groups(void) {
  ncclComm_t comms[RANKS];
  ncclComm_t parts[RANKS];
  ncclUniqueId id;
  float x[RANKS][COUNT];
  EXPECT_OK(ncclGetUniqueId(&id));
  EXPECT_OK(ncclGroupStart());
  EXPECT(ncclCommInitRank(&comms[0], RANKS, id, RANKS) == ncclInvalidArgument);
  for (int r = 0; r < RANKS; ++r) {
    comms[r] = NULL;
    EXPECT_OK(ncclCommInitRank(&comms[r], RANKS, id, r));
    EXPECT(comms[r] == NULL);
  }
  EXPECT_OK(ncclGroupEnd());
  EXPECT_OK(ncclGroupStart());
  for (int r = 0; r < RANKS; ++r)
    EXPECT_OK(ncclCommSplit(comms[r], r == 3 ? NCCL_SPLIT_NOCOLOR : 0, -r, &parts[r], NULL));
  EXPECT_OK(ncclGroupEnd());
  EXPECT(parts[3] == NULL);
  EXPECT_OK(ncclGroupStart());
  for (int r = 0; r < RANKS; ++r) {
    fill(x[r], COUNT, (float)r);
    if (parts[r] == NULL) continue;
    EXPECT_OK(ncclAllReduce(x[r], x[r], COUNT, ncclFloat, ncclSum, parts[r], NULL));
  }
  EXPECT_OK(ncclGroupEnd());
  for (int r = 0; r < 3; ++r)
    EXPECT(holds(x[r], COUNT, 3, RANKS - 1));
  for (int r = 0; r < RANKS; ++r) {
    int rank = -1;
    EXPECT_OK(ncclCommUserRank(comms[r], &rank));
    EXPECT(rank == r);
    if (parts[r] != NULL) EXPECT_OK(ncclCommDestroy(parts[r]));
    EXPECT_OK(ncclCommDestroy(comms[r]));
  }
}

struct thread_rank {
  ncclComm_t comm;
  int rank;
};

static void* thread_main(void* argument) {
  const struct thread_rank* own = argument;
  rank_main(own->comm, own->rank);
  return NULL;
}

static void run_threads(void) {
  ncclComm_t comms[RANKS];
  pthread_t threads[RANKS];
  struct thread_rank ranks[RANKS];
  EXPECT_OK(ncclCommInitAll(comms, RANKS, NULL));
  for (int r = 0; r < RANKS; ++r) {
    ranks[r].comm = comms[r];
    ranks[r].rank = r;
    EXPECT(pthread_create(&threads[r], NULL, thread_main, &ranks[r]) == 0);
  }
  for (int r = 0; r < RANKS; ++r)
    pthread_join(threads[r], NULL);
}

/* Rank 0 makes the id; the others get its bytes through pipes. */
static void run_processes(void) {
  int pipes[RANKS][2];
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  int rank = 0;
  for (int r = 1; r < RANKS; ++r) {
    EXPECT(pipe(pipes[r]) == 0);
    if (fork() == 0) {
      rank = r;
      EXPECT(read(pipes[r][0], &id, sizeof id) == (ssize_t)sizeof id);
      break;
    }
  }
  if (rank == 0) {
    EXPECT_OK(ncclGetUniqueId(&id));
    for (int r = 1; r < RANKS; ++r)
      EXPECT(write(pipes[r][1], &id, sizeof id) == sizeof id);
  }
  EXPECT_OK(ncclCommInitRank(&comm, RANKS, id, rank));
  if (comm != NULL) rank_main(comm, rank);
  if (rank != 0) _exit(failure_count != 0);
  for (int r = 1; r < RANKS; ++r) {
    int status = 0;
    EXPECT(wait(&status) > 0 && status == 0);
  }
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "one";
  int version = 0;
  alarm(120);
  EXPECT_OK(ncclGetVersion(&version));
  EXPECT(version == NCCL_VERSION_CODE);
  if (strcmp(mode, "threads") == 0) {
    run_threads();
  } else if (strcmp(mode, "processes") == 0) {
    run_processes();
  } else if (strcmp(mode, "groups") == 0) {
    run_groups();
  } else {
    run_one();
  }
  if (failure_count == 0) printf("ok %s\n", mode);
  return failure_count != 0;
}
