/* Ends waits from outside: for languages whose signal handlers run between calls only.
 *
 *   static int Check(void* user) { return PyErr_CheckSignals() != 0; }   // with the interpreter's lock held
 *
 *   weft_set_interrupt(Check, NULL, 100000000);
 *   weft_all_reduce(...);   // WEFT_INTERRUPTED if Ctrl-C came while it waited
 */
#ifndef WEFT_INTERRUPT_H_
#define WEFT_INTERRUPT_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Called on the thread that waits, with locks of weft's held: it must not call weft. Anything but 0 ends the wait. */
typedef int (*weft_interrupt_check_t)(void* user);

/* From now on weft's waits on the calling thread ask `check` about every every_ns nanoseconds (at least; waits sleep up to
 * 20 ms at a time), but not while they spin. If it says so, the call returns WEFT_INTERRUPTED:
 * - a blocking collective or message, a split and the other collective calls on a group: the group is aborted, as this
 *   rank cannot tell how far the call got; the peers' calls return WEFT_ABORTED and name the rank;
 * - making, joining or reconfiguring a group: there is none; the ranks that still wait are told the rank, or miss it at their deadline;
 * - weft_work_wait and weft_completion_queue_wait: the operations go on, and may be waited for again;
 * - calls of a shard context: the step is aborted as by weft_shard_abort_step;
 * - weft_checkpoint_wait: the save goes on; so does the one before that weft_checkpoint_save and weft_checkpoint_load wait for;
 * - weft_checkpoint_export and weft_checkpoint_import: nothing is left of what they have begun;
 * - a weft_checkpoint_save that waits for other ranks: of rank 0 the save has failed, which the others are told; of another rank it may be committed.
 * NULL: no check, which is how every thread begins. INVALID_ARGUMENT for a negative every_ns. Thread rule: any thread, each
 * has a check of its own. */
WEFT_EXPORT weft_result_t weft_set_interrupt(weft_interrupt_check_t check, void* user,
                                             int64_t every_ns);

WEFT_END_DECLS

#endif /* WEFT_INTERRUPT_H_ */
