/* Messages between two ranks of a group.
 *
 *   if (rank == 0) weft_send(x, n, WEFT_FLOAT32, 1, 7, group, NULL, NULL);
 *   if (rank == 1) weft_recv(y, n, WEFT_FLOAT32, 0, 7, NULL, group, NULL, NULL);
 *
 * Order. A receive takes the first message, in the order in which its sender issued them, whose source and
 * tag it asks for: no message overtakes an earlier one of the same sender that the receive could have
 * taken too, whatever their sizes and tags, and on any number of nodes. Receives are matched in the order
 * in which they were issued. Between messages of two senders there is no order, but none of them is left
 * out for ever. Messages and collectives of a group do not order each other. Two threads that call at
 * once for the same pair and tag have no order.
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
 * PTRDIFF_MAX, WEFT_ANY_TAG of a send), TIMEOUT (names the peer), MISMATCH, PEER_LOST (the peer has ended; for
 * WEFT_ANY_SOURCE, any member), ABORTED, OUT_OF_MEMORY, FORKED. Any thread.
 */
#ifndef WEFT_POINT_TO_POINT_H_
#define WEFT_POINT_TO_POINT_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* For `source` of a receive or probe: whichever rank sends first. */
#define WEFT_ANY_SOURCE (-1)
/* For `tag` of a receive or probe: whatever tag the message has. No message has this one. */
#define WEFT_ANY_TAG 0xffffffffffffffffu
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

/* What is known of a message before it is received. */
typedef struct weft_message_info {
  size_t struct_size;
  int source;         /* the rank that sent it */
  weft_dtype_t dtype; /* as it was sent */
  uint64_t tag;
  size_t count; /* elements */
} weft_message_info_t;

/* weft_recv that tells the tag as well as the sender, for receives with WEFT_ANY_TAG. out: [count]. `info`, if not NULL,
 * has its struct_size set, and is filled when the message has come; with work != NULL it must stay valid until the work
 * has completed. */
WEFT_EXPORT weft_result_t weft_recv_info(void* out, size_t count, weft_dtype_t dtype, int source,
                                         uint64_t tag, weft_message_info_t* info,
                                         weft_group_t group, const weft_call_t* call,
                                         weft_work_t* work);

/* Waits until there is a message from `source` with `tag`, which may be WEFT_ANY_SOURCE and WEFT_ANY_TAG, that no
 * earlier receive of this rank takes, and leaves it where it is. `info`, as in weft_recv_info, tells what it is: the next
 * receive of this rank that names its source and tag gets this message, so that a buffer of the right count and type
 * can be made for it. (A receive by another thread may get it first; one from WEFT_ANY_SOURCE may get another
 * sender's.) A probe waits in line with the receives that were issued before and after it, and takes nothing from them. With
 * work != NULL the work completes when there is such a message. Errors as of weft_recv; no MISMATCH. */
WEFT_EXPORT weft_result_t weft_probe(int source, uint64_t tag, weft_message_info_t* info,
                                     weft_group_t group, const weft_call_t* call,
                                     weft_work_t* work);

/* Whether there is such a message now: *found is 1 and `info`, if not NULL, is filled, or *found is 0. Never waits for a peer;
 * moves the group's messages on, so that a program may call it again and again. Not part of a batch. A rank that
 * cannot send any more is an error as in weft_probe. */
WEFT_EXPORT weft_result_t weft_iprobe(int source, uint64_t tag, int* found,
                                      weft_message_info_t* info, weft_group_t group);

/* weft_send and weft_recv at once, which cannot deadlock. in and out must not overlap. */
WEFT_EXPORT weft_result_t weft_sendrecv(const void* in, size_t in_count, int destination,
                                        uint64_t in_tag, void* out, size_t out_count, int source,
                                        uint64_t out_tag, weft_dtype_t dtype, int* sender,
                                        weft_group_t group, const weft_call_t* call,
                                        weft_work_t* work);

WEFT_END_DECLS

#endif /* WEFT_POINT_TO_POINT_H_ */
