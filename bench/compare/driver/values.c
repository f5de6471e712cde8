#include "bench/compare/driver/values.h"

#include <stdint.h>
#include <string.h>

enum { kPeriod = 13, kRoot = 0 };

static unsigned ValueOf(int rank, size_t index) {
  return (unsigned)((index * 7 + (size_t)rank * 3) % kPeriod);
}

/* The bits of a small integer. */
static uint32_t BitsOf(unsigned value, enum element dtype) {
  const float number = (float)value;
  uint32_t bits = 0;
  memcpy(&bits, &number, sizeof(bits));
  return dtype == ELEMENT_BFLOAT16 ? bits >> 16 : bits;
}

static void Store(void* buffer, enum element dtype, size_t index, uint32_t bits) {
  if (dtype == ELEMENT_BFLOAT16) {
    ((uint16_t*)buffer)[index] = (uint16_t)bits;
  } else {
    ((uint32_t*)buffer)[index] = bits;
  }
}

static uint32_t Load(const void* buffer, enum element dtype, size_t index) {
  return dtype == ELEMENT_BFLOAT16 ? ((const uint16_t*)buffer)[index]
                                   : ((const uint32_t*)buffer)[index];
}

/* What element `index` of out must be. */
static unsigned Expected(const struct command* command, const struct extent* extent, int rank,
                         int size, size_t index) {
  unsigned sum = 0;
  switch (command->op) {
    case OP_ALL_REDUCE:
    case OP_REDUCE_SCATTER: {
      const size_t at = command->op == OP_ALL_REDUCE ? index : (size_t)rank * extent->count + index;
      for (int peer = 0; peer < size; ++peer)
        sum += ValueOf(peer, at);
      return sum;
    }
    case OP_ALL_GATHER:
      return ValueOf((int)(index / extent->count), index % extent->count);
    case OP_ALL_TO_ALL:
      return ValueOf((int)(index / extent->count),
                     (size_t)rank * extent->count + index % extent->count);
    case OP_BROADCAST:
      return ValueOf(kRoot, index);
    case OP_EXCHANGE:
    case OP_ROUND_TRIP:
      return ValueOf(1 - rank, index);
    case OP_BARRIER:
    case OP_COPY:
    case OP_IDLE:
      break;
  }
  return ValueOf(rank, index);
}

void FillValues(const struct command* command, int rank, int size, void* in, void* out) {
  const struct extent extent = ExtentOf(command, size);
  const size_t element_size = ElementSize(command->dtype);
  memset(out, 0xff, extent.out_count * element_size); /* NaN */
  uint32_t period[kPeriod];
  for (unsigned i = 0; i < kPeriod; ++i)
    period[i] = BitsOf(ValueOf(rank, i), command->dtype);
  if (command->op == OP_BROADCAST && rank != kRoot) return;
  for (size_t i = 0; i < extent.in_count; ++i)
    Store(in, command->dtype, i, period[i % kPeriod]);
}

size_t CountWrong(const struct command* command, int rank, int size, const void* out) {
  const struct extent extent = ExtentOf(command, size);
  size_t wrong = 0;
  for (size_t i = 0; i < extent.out_count; ++i) {
    const uint32_t expected = BitsOf(Expected(command, &extent, rank, size, i), command->dtype);
    wrong += Load(out, command->dtype, i) != expected;
  }
  return wrong;
}
