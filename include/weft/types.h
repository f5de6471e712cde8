/* Names and numbers that every other weft header uses.
 *
 * Result codes 0-7, data types and reduction operations carry the numbers that nccl.h gives them,
 * so that a table of one serves the other; weft's own start at 100. Numbers never change meaning
 * and are never reused.
 *
 * Config structs begin with `size_t struct_size`. Zero the struct, set struct_size to sizeof of
 * your struct (or leave it zero for "all defaults"), then set what you want to differ: zero always
 * means "the default". Fields are only ever appended, so a program built against an older header
 * keeps working.
 */
#ifndef WEFT_TYPES_H_
#define WEFT_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define WEFT_EXPORT __attribute__((visibility("default")))
#else
#define WEFT_EXPORT
#endif

#ifdef __cplusplus
#define WEFT_BEGIN_DECLS extern "C" {
#define WEFT_END_DECLS }
#else
#define WEFT_BEGIN_DECLS
#define WEFT_END_DECLS
#endif

WEFT_BEGIN_DECLS

/* What every call returns. The sentence belonging to the last failure of this thread:
 * weft_last_error(). */
typedef enum weft_result {
  WEFT_SUCCESS = 0,
  WEFT_DEVICE_ERROR = 1,     /* a CUDA call failed */
  WEFT_SYSTEM_ERROR = 2,     /* an operating system call failed; the sentence has errno's text */
  WEFT_INTERNAL_ERROR = 3,   /* a bug in weft */
  WEFT_INVALID_ARGUMENT = 4, /* one argument is wrong by itself; nothing was touched */
  WEFT_INVALID_USAGE =
      5, /* the arguments are right but not here, or not together; nothing was touched */
  WEFT_REMOTE_ERROR = 6,  /* a peer reported a failure of its own */
  WEFT_IN_PROGRESS = 7,   /* not an error: the work has not completed yet */
  WEFT_TIMEOUT = 100,     /* a deadline passed; the sentence names the ranks that were missing */
  WEFT_MISMATCH = 101,    /* ranks called different operations; the sentence has both calls */
  WEFT_PEER_LOST = 102,   /* a peer's process ended; the sentence has rank, host, pid and signal */
  WEFT_UNREACHABLE = 103, /* a peer is not proven dead but cannot be reached */
  WEFT_ABORTED = 104,     /* the group was aborted, or an earlier failure poisoned it */
  WEFT_UNSUPPORTED = 105, /* legal, but this build or machine cannot do it */
  WEFT_OUT_OF_MEMORY = 106, /* memory could not be had; the sentence says how much and where */
  WEFT_CORRUPT = 107,       /* something read from a peer, file or segment is not what it must be */
  WEFT_BAD_STATE = 108,   /* the object is not in a state that allows this call; nothing was sent */
  WEFT_NO_QUORUM = 109,   /* too few members are left to agree */
  WEFT_AUTH_FAILED = 110, /* wrong or missing job secret */
  WEFT_FORKED = 111,      /* the handle was made by the parent of this forked process */
  WEFT_INTERRUPTED = 112  /* this thread's check of weft_set_interrupt ended the wait */
} weft_result_t;

/* Element types; the first twelve are nccl.h's, weft's own start at 100. */
typedef enum weft_dtype {
  WEFT_INT8 = 0,
  WEFT_UINT8 = 1,
  WEFT_INT32 = 2,
  WEFT_UINT32 = 3,
  WEFT_INT64 = 4,
  WEFT_UINT64 = 5,
  WEFT_FLOAT16 = 6,
  WEFT_FLOAT32 = 7,
  WEFT_FLOAT64 = 8,
  WEFT_BFLOAT16 = 9,
  WEFT_FLOAT8_E4M3 = 10,
  WEFT_FLOAT8_E5M2 = 11,
  WEFT_BOOL = 100 /* one byte; 0 is false, anything else is read as true, results are 0 or 1 */
} weft_dtype_t;

/* Reductions; the first five numbers are nccl.h's, weft's own start at 100, those that op.h makes at
 * run time at 1024.
 *
 * Floating-point sums are formed in float32 (float64 for float64) along one fixed balanced tree
 * over the group ranks and rounded once, so the bits of the result do not depend on rank, size,
 * position, algorithm or machine. AVG divides that sum by the group size before rounding; integers
 * truncate toward zero. Integer sums wrap. MIN and MAX: NaN wins, -0 < +0. Rounding is to nearest,
 * ties to even; too large becomes infinity, in float8_e4m3, which has none, the largest number.
 *
 * BOOL: SUM and MAX are "or", PROD and MIN are "and"; AVG is INVALID_ARGUMENT. BIT_AND, BIT_OR and
 * BIT_XOR take integers and BOOL.
 *
 * MIN_LOC and MAX_LOC take pairs {value, int64_t index}: with them an element is 16 bytes, the value
 * of the given dtype at offset 0 and the index at offset 8, and counts count pairs. Values compare as
 * in MIN and MAX; equal values: the lower index. NaN wins, among NaNs the lower index. Not for BOOL.
 * The bytes between value and index are zero in results. */
typedef enum weft_op {
  WEFT_SUM = 0,
  WEFT_PROD = 1,
  WEFT_MAX = 2,
  WEFT_MIN = 3,
  WEFT_AVG = 4,
  WEFT_BIT_AND = 100,
  WEFT_BIT_OR = 101,
  WEFT_BIT_XOR = 102,
  WEFT_MIN_LOC = 103,
  WEFT_MAX_LOC = 104,
  WEFT_OP_CUSTOM_FIRST = 1024, /* numbers from here on are made by op.h */
  WEFT_OP_CUSTOM_LAST = 0x7fffffff
} weft_op_t;

/* Where memory lies, and what a group works on. */
typedef enum weft_device_kind { WEFT_DEVICE_HOST = 0, WEFT_DEVICE_CUDA = 1 } weft_device_kind_t;

/* As the ordinal of a CUDA device: that of the calling thread's current context, which cudaSetDevice and torch.cuda.set_device
 * choose. Ordinals are CUDA's: 0 is the first device that the process may use, not any. */
#define WEFT_DEVICE_CURRENT (-1)

/* A process group: ordered ranks that do collectives together (group.h). */
typedef struct weft_group* weft_group_t;
/* An operation under way (work.h). */
typedef struct weft_work* weft_work_t;
/* A key-value store through which ranks find each other (store.h). */
typedef struct weft_store* weft_store_t;

/* How the order of floating-point additions may be chosen. */
typedef enum weft_numerics {
  WEFT_NUMERICS_CANONICAL = 0, /* the fixed tree; same bits everywhere */
  WEFT_NUMERICS_FAST = 1       /* any order that is quick; same bits on all ranks of one call only.
                            Inside one node it is the fixed tree, too */
} weft_numerics_t;

/* Bits of weft_call_t::fields. */
#define WEFT_CALL_WIRE_DTYPE 1u /* wire_dtype is set */
/* Nobody will wait for the work soon: the progress thread takes it up at once, and stays with it. Without it an
 * operation that nobody waits for may begin to move some milliseconds after its start. For works that have a
 * callback or a completion queue; no meaning to blocking calls, to messages, and with WEFT_PROGRESS=caller. */
#define WEFT_CALL_BACKGROUND 2u
/* stream is set; device groups only. Without it a call on a device group runs in CUDA's legacy default stream, and so it does
 * with it if stream is NULL. */
#define WEFT_CALL_STREAM 4u
/* Where `algorithm` cannot be taken, the call is WEFT_UNSUPPORTED, on all ranks alike, and the group works on. Without it
 * groups over several nodes, which have schedules of their own, leave the name aside, and weft_explain says so. In a
 * group on one node, where the names belong, it changes nothing: a call that one cannot do is always WEFT_UNSUPPORTED. */
#define WEFT_CALL_STRICT_ALGORITHM 8u

/* Options of one call; pass NULL for all defaults. */
typedef struct weft_call {
  size_t struct_size;
  int64_t timeout_ns;    /* nanoseconds until WEFT_TIMEOUT; 0: the group's */
  const char* algorithm; /* NULL: chosen by weft; else a name that weft_explain prints, the same on
                            all ranks, WEFT_INVALID_ARGUMENT if there is none of it; over several nodes
                            a hint, see WEFT_CALL_STRICT_ALGORITHM */
  uint32_t fields;       /* WEFT_CALL_* */
  weft_dtype_t wire_dtype;  /* element type between nodes; WEFT_UNSUPPORTED if it is not the call's,
                               since elements are moved as they are; barriers ignore it */
  weft_numerics_t numerics; /* order of additions; the same on all ranks, else WEFT_MISMATCH;
                               messages ignore it */
  int32_t priority; /* larger runs first: within a batch (batch.h), and among the groups that
                               the progress thread serves */
  uint64_t tag;     /* yours; stands in the flight recorder; messages ignore it */
  void* stream;     /* cudaStream_t of device groups; WEFT_UNSUPPORTED in host groups */
} weft_call_t;

/* Bytes of one element, 0 for an unknown type. Any thread. */
WEFT_EXPORT size_t weft_dtype_size(weft_dtype_t dtype);
/* "float32", "bfloat16"...; "unknown" for an unknown type. Static storage. Any thread. */
WEFT_EXPORT const char* weft_dtype_name(weft_dtype_t dtype);
/* "sum", "prod", "max", "min", "avg", "bit_and", "bit_or", "bit_xor", "min_loc", "max_loc", and for
 * reductions of op.h "premul_sum" and "user"; "unknown" otherwise. Static storage. Any thread. */
WEFT_EXPORT const char* weft_op_name(weft_op_t op);

WEFT_END_DECLS

#endif /* WEFT_TYPES_H_ */
