/* Collectives over a process group.
 *
 * Common to all:
 * - The tail is (group, call, work). call == NULL: defaults. work == NULL: the call returns when this
 *   rank's part is done. Otherwise it returns at once with *work set, to be tested, waited for and
 *   freed (work.h); `call` itself may go away when the call returns.
 * - Counts are elements; a count of 0 is legal with NULL pointers and still synchronises like any
 *   other count. Of a reduction by a function they are values, of which an element may have several
 *   (element_count in op.h).
 * - Buffers may have any alignment. In place is `in == out` (the exact rule stands at each function);
 *   any other overlap of in and out is INVALID_ARGUMENT.
 * - The forms whose names end in _v (vector.h) and _iov (iov.h) have headers of their own.
 * - All ranks pass the same dtype, op, count and root; a difference is WEFT_MISMATCH on every rank, in
 *   that operation. Blocking or not, in place or not, and the kind of memory may differ from rank to
 *   rank.
 * - Operations on one group start in the order of the calls, and several may be under way: one must
 *   not read what an earlier one writes before that has completed, in a batch neither. An operation
 *   that fails poisons the group: later calls return WEFT_ABORTED with the first reason. Not so
 *   UNSUPPORTED, which an algorithm that the call asks for may cause, on all ranks alike.
 *
 * Which buffer may be reused when:
 *   work == NULL    in and out both when the call returns, also when it returns an error
 *   work != NULL    in and out both when the work has completed (test, wait or callback said so)
 *   device groups   in the order of the call's stream: work enqueued behind the call, in that stream or ordered behind it,
 *                   may reuse both. The host may when that work has ended; the call's return says nothing
 *   after an error  contents of out are unspecified; private memory is not touched any more, memory
 *                   from weft_mem_alloc neither, unless the message says that the block was put in
 *                   quarantine
 *
 * Errors of all: INVALID_ARGUMENT (NULL, unknown dtype or op, count x size over PTRDIFF_MAX,
 * overlap, root out of range), TIMEOUT, MISMATCH, PEER_LOST, ABORTED, UNSUPPORTED, OUT_OF_MEMORY, FORKED. Any
 * thread.
 */
#ifndef WEFT_COLLECTIVE_H_
#define WEFT_COLLECTIVE_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* out[i] = op over all ranks of in[i], on every rank. in, out: [count]. In place: in == out. */
WEFT_EXPORT weft_result_t weft_all_reduce(const void* in, void* out, size_t count,
                                          weft_dtype_t dtype, weft_op_t op, weft_group_t group,
                                          const weft_call_t* call, weft_work_t* work);

/* As weft_all_reduce, but only rank `root` gets out; elsewhere out is not touched and may be NULL.
 */
WEFT_EXPORT weft_result_t weft_reduce(const void* in, void* out, size_t count, weft_dtype_t dtype,
                                      weft_op_t op, int root, weft_group_t group,
                                      const weft_call_t* call, weft_work_t* work);

/* out[i] = in[i] of rank `root`, on every rank. in is read on root only and may be NULL elsewhere.
 * In place: in == out. */
WEFT_EXPORT weft_result_t weft_broadcast(const void* in, void* out, size_t count,
                                         weft_dtype_t dtype, int root, weft_group_t group,
                                         const weft_call_t* call, weft_work_t* work);

/* out[r * count + i] = in[i] of rank r, on every rank. in: [count], out: [size * count].
 * In place: in == out + rank * count elements. */
WEFT_EXPORT weft_result_t weft_all_gather(const void* in, void* out, size_t count,
                                          weft_dtype_t dtype, weft_group_t group,
                                          const weft_call_t* call, weft_work_t* work);

/* out[i] = op over all ranks of in[rank * count + i]. in: [size * count], out: [count].
 * In place: out == in + rank * count elements; the rest of in is not changed. */
WEFT_EXPORT weft_result_t weft_reduce_scatter(const void* in, void* out, size_t count,
                                              weft_dtype_t dtype, weft_op_t op, weft_group_t group,
                                              const weft_call_t* call, weft_work_t* work);

/* out[i] = op over ranks 0 to this one of in[i]: what an all_reduce of these ranks alone gives, bit for bit, on any
 * number of nodes; WEFT_AVG divides by rank + 1. in, out: [count]. In place: in == out. */
WEFT_EXPORT weft_result_t weft_scan(const void* in, void* out, size_t count, weft_dtype_t dtype,
                                    weft_op_t op, weft_group_t group, const weft_call_t* call,
                                    weft_work_t* work);

/* As weft_scan without this rank's own in: over ranks 0 to rank - 1; WEFT_AVG divides by rank. On rank 0, which nobody
 * precedes, out is not touched and may be NULL. In place: in == out. */
WEFT_EXPORT weft_result_t weft_exscan(const void* in, void* out, size_t count, weft_dtype_t dtype,
                                      weft_op_t op, weft_group_t group, const weft_call_t* call,
                                      weft_work_t* work);

/* out[r * count + i] = in[i] of rank r, on rank `root`. in: [count], out: [size * count]; out is
 * written on root only and may be NULL elsewhere. In place: on root in == out + root * count
 * elements. */
WEFT_EXPORT weft_result_t weft_gather(const void* in, void* out, size_t count, weft_dtype_t dtype,
                                      int root, weft_group_t group, const weft_call_t* call,
                                      weft_work_t* work);

/* out[i] = in[rank * count + i] of rank `root`, on every rank. in: [size * count], read on root only,
 * may be NULL elsewhere; out: [count]. In place: on root out == in + root * count elements. */
WEFT_EXPORT weft_result_t weft_scatter(const void* in, void* out, size_t count, weft_dtype_t dtype,
                                       int root, weft_group_t group, const weft_call_t* call,
                                       weft_work_t* work);

/* out[r * count + i] = in[rank * count + i] of rank r, on every rank. in, out: [size * count].
 * In place: in == out. */
WEFT_EXPORT weft_result_t weft_all_to_all(const void* in, void* out, size_t count,
                                          weft_dtype_t dtype, weft_group_t group,
                                          const weft_call_t* call, weft_work_t* work);

/* Completes on no rank before every rank has called it. */
WEFT_EXPORT weft_result_t weft_barrier(weft_group_t group, const weft_call_t* call,
                                       weft_work_t* work);

WEFT_END_DECLS

#endif /* WEFT_COLLECTIVE_H_ */
