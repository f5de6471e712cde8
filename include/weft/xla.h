/* weft's operations as custom calls of XLA, for JAX and other programs that compile with XLA: handlers of its FFI (version 0.1 or newer) for
 * buffers in host memory.
 *
 *   int64_t number;
 *   weft_xla_group_number(group, &number);          // what stands in compiled programs in place of the handle
 *   // registered with XLA, once per process: "weft_all_reduce" on platform "cpu" is weft_xla_all_reduce
 *   // in a program: custom_call @weft_all_reduce(x) {group = number : i64, op = 0 : i64}
 *
 * Common to all handlers:
 * - Attributes are 64-bit integers, in any order; others than those named here are ignored. All have `group`, and may have `timeout_ns` (as
 *   weft_call_t::timeout_ns).
 * - Operand and result have the same element type, rows without gaps. XLA's types that weft has are weft's. Operations that only move elements
 *   take all other types with whole bytes, too; sum and avg take complex numbers, which are pairs of floats.
 * - `in` and `out` may be the same buffer where the function of C allows it (output_operand_aliases). Where a rank gets no result (reduce and
 *   gather elsewhere than on the root), `out` is filled with zeros.
 * - One operand and one result more are a token: of XLA's token type, or any array, which is handed through. XLA runs calls in the order in which
 *   tokens tie them together, and others in any order, also several at once; the order must be the same on all ranks.
 * - A call returns when this rank's part is done, or fails with the sentence of weft_last_error() and the status code that errors.md lists.
 *   A frame that is not as described here is INVALID_ARGUMENT. Batches (batch.h) do not hold them back.
 *
 * Any thread: XLA runs them on threads of its own, or on the one that has started the program.
 */
#ifndef WEFT_XLA_H_
#define WEFT_XLA_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* As xla/ffi/api/c_api.h declares them. */
struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

/* For `destination` and `source` of weft_xla_sendrecv: nothing is sent, nothing is received. */
#define WEFT_XLA_NOBODY (-2)

/* The number of a group for the attribute `group`: 1 for the first group of the process that is asked for, then counting up, never reused, the same
 * each time. It is the group's as it is now: when that is destroyed or reconfigured, calls with the number fail, and those under way are
 * aborted. Errors: INVALID_ARGUMENT, FORKED. Any thread. */
WEFT_EXPORT weft_result_t weft_xla_group_number(weft_group_t group, int64_t* number);

/* Called on the thread of a handler that the thread's check (weft_set_interrupt) has ended, before it returns. */
typedef void (*weft_xla_interrupted_t)(void);

/* Whom handlers that were interrupted tell, since XLA has no other way to; NULL: nobody. Any thread. */
WEFT_EXPORT void weft_xla_set_interrupted(weft_xla_interrupted_t told);

/* weft_all_reduce. Attribute op. in, out: [count]. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_all_reduce(struct XLA_FFI_CallFrame* frame);

/* weft_reduce. Attributes op, root. in, out: [count]; zeros elsewhere than on the root. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_reduce(struct XLA_FFI_CallFrame* frame);

/* weft_broadcast. Attribute root. in, out: [count]; in is read on the root only. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_broadcast(struct XLA_FFI_CallFrame* frame);

/* weft_all_gather. in: [count], out: [size * count]. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_all_gather(struct XLA_FFI_CallFrame* frame);

/* weft_reduce_scatter. Attribute op. in: [size * count], out: [count]. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_reduce_scatter(struct XLA_FFI_CallFrame* frame);

/* weft_gather. Attribute root. in: [count], out: [size * count]; zeros elsewhere than on the root. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_gather(struct XLA_FFI_CallFrame* frame);

/* weft_scatter. Attribute root. in: [size * count], read on the root only, out: [count]. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_scatter(struct XLA_FFI_CallFrame* frame);

/* weft_all_to_all. in, out: [size * count]. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_all_to_all(struct XLA_FFI_CallFrame* frame);

/* weft_barrier. No operand, no result, but a token. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_barrier(struct XLA_FFI_CallFrame* frame);

/* weft_send. Attributes destination, tag. in: [count]; no result. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_send(struct XLA_FFI_CallFrame* frame);

/* weft_recv. Attributes source, which may be WEFT_ANY_SOURCE, and tag. No operand; out: [count]. Any thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_recv(struct XLA_FFI_CallFrame* frame);

/* weft_sendrecv. Attributes destination, source, tag; both ranks may be WEFT_XLA_NOBODY. in, out: [any counts]; zeros if nothing is received. Any
 * thread. */
WEFT_EXPORT struct XLA_FFI_Error* weft_xla_sendrecv(struct XLA_FFI_CallFrame* frame);

WEFT_END_DECLS

#endif /* WEFT_XLA_H_ */
