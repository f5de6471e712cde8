/* Messages between two ranks of a group.
 *
 *   if (rank == 0) weft_send(x, n, WEFT_FLOAT32, 1, 7, group, NULL, NULL);
 *   if (rank == 1) weft_recv(y, n, WEFT_FLOAT32, 0, 7, NULL, group, NULL, NULL);
 *
 * A receive takes the first message, in the order in which its sender issued them, whose source and
 * tag it asks for; receives are matched in the order in which they were issued. Messages and
 * collectives of a group do not order each other. Two threads that call at once for the same pair and
 * tag have no order.
 *
 * Count and dtype of a receive must be those of its message: a difference is WEFT_MISMATCH on both
 * sides and poisons the group. (A small send that had returned already finds it in its next call.)
 *
 * A send of at most WEFT_EAGER_BYTES may return before anybody receives; a larger one returns when
 * the receiver has all of it. Programs must not rely on the former: weft_sendrecv, or a batch
 * (batch.h), is the way to exchange. The tail (group, call, work) and buffer reuse are as in
 * collective.h: after a send returned, or its work has completed, `in` is the caller's again.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, unknown dtype, rank outside the group, size over
 * PTRDIFF_MAX), TIMEOUT (names the peer), MISMATCH, PEER_LOST (the peer has ended; for
 * WEFT_ANY_SOURCE, any member), ABORTED, OUT_OF_MEMORY, FORKED. Any thread.
 */
#ifndef WEFT_POINT_TO_POINT_H_
#define WEFT_POINT_TO_POINT_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* For `source` of a receive: whichever rank sends first. */
#define WEFT_ANY_SOURCE (-1)
/* A send of at most this many bytes may return before anybody receives it. */
#define WEFT_EAGER_BYTES 4096

/* Sends count elements at `in` to rank `destination`, which may be the caller's own. */
WEFT_EXPORT weft_result_t weft_send(const void* in, size_t count, weft_dtype_t dtype,
                                    int destination, uint64_t tag, weft_group_t group,
                                    const weft_call_t* call, weft_work_t* work);

/* Receives count elements into `out` from rank `source`, or from whichever rank sends first with
 * WEFT_ANY_SOURCE. `sender`, if not NULL, gets the rank it came from; with work != NULL it must stay
 * valid until the work has completed. */
WEFT_EXPORT weft_result_t weft_recv(void* out, size_t count, weft_dtype_t dtype, int source,
                                    uint64_t tag, int* sender, weft_group_t group,
                                    const weft_call_t* call, weft_work_t* work);

/* weft_send and weft_recv at once, which cannot deadlock. in and out must not overlap. */
WEFT_EXPORT weft_result_t weft_sendrecv(const void* in, size_t in_count, int destination,
                                        uint64_t in_tag, void* out, size_t out_count, int source,
                                        uint64_t out_tag, weft_dtype_t dtype, int* sender,
                                        weft_group_t group, const weft_call_t* call,
                                        weft_work_t* work);

WEFT_END_DECLS

#endif /* WEFT_POINT_TO_POINT_H_ */
