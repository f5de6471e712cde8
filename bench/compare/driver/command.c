#include "bench/compare/driver/command.h"

#include <stdlib.h>
#include <string.h>

/* The name at the beginning of `word` before '='; `value` gets what follows. */
static int IsKey(const char* word, const char* key, const char** value) {
  const size_t length = strlen(key);
  if (strncmp(word, key, length) != 0 || word[length] != '=') return 0;
  *value = word + length + 1;
  return 1;
}

static int IndexOf(const char* name, const char* const names[], int count) {
  for (int i = 0; i < count; ++i) {
    if (strcmp(name, names[i]) == 0) return i;
  }
  return -1;
}

static int SetOperation(const char* value, struct command* command) {
  static const char* const kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                       "all_to_all", "barrier",    "copy",           "idle",
                                       "exchange",   "round_trip"};
  const int index = IndexOf(value, kNames, 10);
  command->op = (enum operation)index;
  return index >= 0;
}

static int SetElement(const char* value, struct command* command) {
  static const char* const kNames[] = {"float32", "bfloat16"};
  const int index = IndexOf(value, kNames, 2);
  command->dtype = (enum element)index;
  return index >= 0;
}

static int SetFlag(const char* value, const char* off, const char* on, int* flag) {
  *flag = strcmp(value, on) == 0;
  return *flag || strcmp(value, off) == 0;
}

static int SetNumber(const char* value, long* number) {
  char* end = NULL;
  *number = strtol(value, &end, 10);
  return end != value && *end == '\0' && *number >= 0;
}

static int SetSize(const char* value, size_t* number) {
  long parsed = 0;
  if (!SetNumber(value, &parsed)) return 0;
  *number = (size_t)parsed;
  return 1;
}

static int SetWord(const char* word, struct command* command) {
  const char* value = NULL;
  if (IsKey(word, "op", &value)) return SetOperation(value, command);
  if (IsKey(word, "dtype", &value)) return SetElement(value, command);
  if (IsKey(word, "bytes", &value)) return SetSize(value, &command->bytes);
  if (IsKey(word, "place", &value)) return SetFlag(value, "out", "in", &command->in_place);
  if (IsKey(word, "flight", &value)) return SetNumber(value, &command->flight);
  if (IsKey(word, "tail", &value)) return SetFlag(value, "0", "1", &command->tail);
  if (IsKey(word, "memory", &value)) {
    return SetFlag(value, "private", "symmetric", &command->symmetric);
  }
  if (IsKey(word, "sets", &value)) return SetSize(value, &command->sets);
  if (IsKey(word, "warmup", &value)) return SetNumber(value, &command->warmup);
  if (IsKey(word, "calls", &value)) return SetNumber(value, &command->calls);
  if (IsKey(word, "check", &value)) return SetFlag(value, "0", "1", &command->check);
  if (IsKey(word, "keep", &value)) return SetFlag(value, "0", "1", &command->keep);
  return 0;
}

const char* ParseCommand(const char* line, struct command* command) {
  char copy[512];
  if (strlen(line) >= sizeof(copy)) return "the command is longer than 511 characters";
  strcpy(copy, line);
  memset(command, 0, sizeof(*command));
  int has_operation = 0;
  char* rest = NULL;
  for (char* word = strtok_r(copy, " \n", &rest); word != NULL;
       word = strtok_r(NULL, " \n", &rest)) {
    if (!SetWord(word, command)) return "the command has a word that this driver does not know";
    has_operation |= strncmp(word, "op=", 3) == 0;
  }
  if (!has_operation) return "the command names no operation";
  if (command->calls < 1) return "the command asks for no call";
  if (command->sets < 1) command->sets = 1;
  return NULL;
}

size_t ElementSize(enum element dtype) {
  return dtype == ELEMENT_BFLOAT16 ? 2 : 4;
}

struct extent ExtentOf(const struct command* command, int ranks) {
  const size_t element_size = ElementSize(command->dtype);
  const size_t total = command->bytes / element_size;
  const size_t per_rank = total / (size_t)ranks;
  const size_t cut = per_rank & ~(16 / element_size - 1);
  const size_t chunk = cut > 0 ? cut : 1;
  const size_t all = chunk * (size_t)ranks;
  struct extent extent = {total, total, total};
  switch (command->op) {
    case OP_ALL_GATHER:
      extent = (struct extent){chunk, chunk, all};
      break;
    case OP_REDUCE_SCATTER:
      extent = (struct extent){chunk, all, chunk};
      break;
    case OP_ALL_TO_ALL:
      extent = (struct extent){chunk, all, all};
      break;
    case OP_BARRIER:
    case OP_IDLE:
      extent = (struct extent){0, 0, 0};
      break;
    case OP_ALL_REDUCE:
    case OP_BROADCAST:
    case OP_COPY:
    case OP_EXCHANGE:
    case OP_ROUND_TRIP:
      break;
  }
  return extent;
}
