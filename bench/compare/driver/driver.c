/* The loop that every driver runs: the same commands, buffers, placement, warm-up, clock and check for all libraries. */
#define _GNU_SOURCE /* sched_setaffinity */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench/compare/driver/backend.h"
#include "bench/compare/driver/buffers.h"
#include "bench/compare/driver/calls.h"
#include "bench/compare/driver/command.h"
#include "bench/compare/driver/values.h"

/* What a rank answers. Times are of CLOCK_MONOTONIC, which all processes of a machine share. */
struct answer {
  const char* failure; /* the rank cannot go on */
  const char* refusal; /* the library has no such operation; nothing was called */
  double begin_s;
  double end_s;
  double
      cpu_s; /* CPU time of the rank between them: less than end_s - begin_s when others had its core */
  size_t wrong;
  int checked;
  int has_tail;
  struct tail tail;
};

/* An all_reduce in place over and over would grow without end: zeros stay zeros. */
static int Accumulates(const struct command* command) {
  return command->op == OP_ALL_REDUCE && command->in_place;
}

static void Prepare(const struct command* command, const struct backend* backend,
                    const struct buffers* buffers) {
  for (size_t set = 0; set < command->sets; ++set) {
    if (Accumulates(command)) {
      memset(InBuffer(buffers, set), 0, buffers->set_bytes);
    } else {
      FillValues(command, backend->rank, backend->size, InBuffer(buffers, set),
                 OutBuffer(buffers, set));
    }
  }
}

/* Compares the last result, for operations that accumulate that of one more call. */
static const char* Check(const struct command* command, const struct backend* backend,
                         const struct buffers* buffers, size_t next_set, struct answer* answer) {
  size_t set = (next_set == 0 ? command->sets : next_set) - 1;
  if (Accumulates(command)) {
    FillValues(command, backend->rank, backend->size, InBuffer(buffers, set),
               OutBuffer(buffers, set));
    size_t at = set;
    const char* failure = MakeCalls(command, backend, buffers, 1, &at, NULL);
    if (failure != NULL) return failure;
  }
  answer->wrong = CountWrong(command, backend->rank, backend->size, OutBuffer(buffers, set));
  answer->checked = 1;
  if (Accumulates(command)) memset(OutBuffer(buffers, set), 0, buffers->set_bytes);
  return NULL;
}

static const char* Measure(const struct command* command, const struct backend* backend,
                           const struct buffers* buffers, struct answer* answer) {
  double* const times = command->tail ? calloc((size_t)command->calls + 1, sizeof(double)) : NULL;
  if (command->tail && times == NULL) return "no memory for the times of the calls";
  if (command->check) Prepare(command, backend, buffers);
  size_t set = 0;
  const char* failure = backend->barrier();
  if (failure == NULL) failure = MakeCalls(command, backend, buffers, command->warmup, &set, NULL);
  if (failure == NULL) failure = backend->barrier();
  const double cpu_s = ClockSeconds(CLOCK_THREAD_CPUTIME_ID);
  answer->begin_s = ClockSeconds(CLOCK_MONOTONIC);
  if (failure == NULL) failure = MakeCalls(command, backend, buffers, command->calls, &set, times);
  answer->end_s = ClockSeconds(CLOCK_MONOTONIC);
  answer->cpu_s = ClockSeconds(CLOCK_THREAD_CPUTIME_ID) - cpu_s;
  // Also after a failure, which the others do not know of.
  const char* const unmet = backend->barrier();
  if (failure == NULL) failure = unmet;
  answer->has_tail = times != NULL;
  if (failure == NULL && times != NULL) answer->tail = TailOf(times, command->calls);
  free(times);
  if (failure != NULL || !command->check) return failure;
  return Check(command, backend, buffers, set, answer);
}

/* What the process uses while its program does nothing: all of its threads. */
static void Idle(const struct command* command, struct answer* answer) {
  const struct timespec rest = {.tv_sec = command->calls};
  const double cpu_s = ClockSeconds(CLOCK_PROCESS_CPUTIME_ID);
  answer->begin_s = ClockSeconds(CLOCK_MONOTONIC);
  clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, NULL);
  answer->end_s = ClockSeconds(CLOCK_MONOTONIC);
  answer->cpu_s = ClockSeconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_s;
}

/* NULL if the library can do the command. */
static const char* Refusal(const struct command* command, const struct backend* backend) {
  if (command->op == OP_COPY) return NULL;
  if (command->symmetric && backend->allocate == NULL)
    return "the library has no memory of its own";
  if (command->flight > 0 && backend->start == NULL) return "no asynchronous calls are known here";
  if (command->flight > kFlightMost) return "more calls under way than this driver keeps";
  return backend->refuse(command);
}

/* `kinds`: private buffers, and those of the library. */
static struct answer Execute(const char* line, const struct backend* backend,
                             struct buffers kinds[2]) {
  struct answer answer = {0};
  struct command command;
  answer.failure = ParseCommand(line, &command);
  if (answer.failure != NULL) return answer;
  if (command.op == OP_IDLE) {
    Idle(&command, &answer);
    return answer;
  }
  answer.refusal = Refusal(&command, backend);
  if (answer.refusal != NULL) return answer;
  struct buffers* buffers = &kinds[command.symmetric];
  answer.failure = PlaceBuffers(&command, backend->rank, backend->size, backend, buffers);
  if (answer.failure == NULL) answer.failure = Measure(&command, backend, buffers, &answer);
  if (!command.keep) DropBuffers(backend, buffers);
  return answer;
}

/* Quotes and control characters would end a JSON string. */
static void PrintText(FILE* out, const char* text) {
  fputc('"', out);
  for (; *text != '\0'; ++text) {
    const unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') fputc('\\', out);
    fputc(c < ' ' ? ' ' : c, out);
  }
  fputc('"', out);
}

static void Print(FILE* out, const struct answer* answer) {
  if (answer->failure != NULL || answer->refusal != NULL) {
    fputs(answer->failure != NULL ? "{\"failure\": " : "{\"refusal\": ", out);
    PrintText(out, answer->failure != NULL ? answer->failure : answer->refusal);
    fputs("}\n", out);
  } else {
    fprintf(out, "{\"begin_s\": %.9f, \"end_s\": %.9f, \"cpu_s\": %.9f", answer->begin_s,
            answer->end_s, answer->cpu_s);
    if (answer->checked) fprintf(out, ", \"wrong\": %zu", answer->wrong);
    if (answer->has_tail) {
      fprintf(out, ", \"median_s\": %.9f, \"p999_s\": %.9f, \"max_s\": %.9f", answer->tail.median_s,
              answer->tail.p999_s, answer->tail.max_s);
    }
    fputs("}\n", out);
  }
  fflush(out);
}

static FILE* OpenPipe(const char* kind, int rank, const char* mode) {
  const char* folder = getenv("COMPARE_PIPES");
  char path[4096];
  if (folder == NULL ||
      snprintf(path, sizeof(path), "%s/%s.%d", folder, kind, rank) >= (int)sizeof(path)) {
    fprintf(stderr,
            "compare driver: COMPARE_PIPES is not set; ./dev compare starts this program\n");
    return NULL;
  }
  FILE* file = fopen(path, mode);
  if (file == NULL) fprintf(stderr, "compare driver: %s: %s\n", path, strerror(errno));
  return file;
}

/* Puts the rank on its core: COMPARE_CORES lists them, one per rank, unless ranks outnumber cores. Ranks that have just
 * been woken by one process may else sit on one core, and those that sleep while they wait then stay there. */
static void Pin(int rank) {
  const char* cores = getenv("COMPARE_CORES");
  for (int i = 0; cores != NULL && i < rank; ++i) {
    cores = strchr(cores, ',');
    if (cores != NULL) ++cores;
  }
  if (cores == NULL) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((int)strtol(cores, NULL, 10), &set);
  if (sched_setaffinity(0, sizeof(set), &set) != 0) perror("compare driver: sched_setaffinity");
}

int Drive(const struct backend* backend) {
  Pin(backend->rank);
  /* A rank is stopped most of the time: nothing else would end it when its launcher is gone. */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  FILE* commands = OpenPipe("command", backend->rank, "r");
  FILE* answers = OpenPipe("answer", backend->rank, "w");
  if (commands == NULL || answers == NULL) return 1;
  fprintf(answers, "{\"pid\": %d, \"size\": %d, \"version\": ", (int)getpid(), backend->size);
  PrintText(answers, backend->version);
  fputs("}\n", answers);
  fflush(answers);
  struct buffers kinds[2] = {{0}, {0}};
  char line[1024];
  while (fgets(line, sizeof(line), commands) != NULL && strcmp(line, "quit\n") != 0) {
    const struct answer answer = Execute(line, backend, kinds);
    Print(answers, &answer);
    if (answer.failure != NULL) return 1;
  }
  for (int i = 0; i < 2; ++i)
    DropBuffers(backend, &kinds[i]);
  fclose(commands);
  fclose(answers);
  return 0;
}
