/* Process groups: ordered ranks that do collectives together.
 *
 *   weft_group_t group;
 *   weft_group_create_from_env(NULL, &group);      // under weftrun, torchrun, srun, mpirun
 *   ...
 *   weft_group_destroy(group);
 *
 * A rank is a process, or a thread of one (weft_group_create_local). Every rank of a group issues
 * the same operations in the same order; a rank that does not is named in an error (WEFT_MISMATCH),
 * never waited for without end.
 *
 * Thread rule: any thread may use any group; calls on one group are served one after the other, and
 * their order is the callers' to agree on across ranks. weft_group_abort() may be called at any
 * time from any thread.
 *
 * In a forked child every call on a group of the parent's returns FORKED, also weft_group_destroy(), and
 * does nothing; so do the functions that make groups if the parent had groups or shared memory.
 */
#ifndef WEFT_GROUP_H_
#define WEFT_GROUP_H_

#include "weft/store.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* How a group is made; pass NULL for all defaults. */
typedef struct weft_group_config {
  size_t struct_size;
  const char* name; /* in messages and records, at most 63 bytes; NULL: "world", or parent's name +
                       colour */
  int64_t timeout_ns;      /* deadline of each operation; 0: WEFT_TIMEOUT_S or 1800 s */
  int64_t init_timeout_ns; /* deadline of making the group; 0: as timeout_ns */
  weft_device_kind_t
      device_kind; /* of its buffers: WEFT_DEVICE_HOST (0); CUDA is UNSUPPORTED as yet */
  int32_t device;  /* 0, as of all groups of the host */
  weft_store_t
      store; /* of weft_group_reconfigure() with WEFT_NEW_RANK: where newcomers are met, used during
                         the call only; NULL: weftrun's store. Others ignore it */
} weft_group_config_t;

/* Makes the group of all ranks from the environment of the launcher: weftrun, torchrun, Slurm,
 * PMI-1 (mpiexec) or Open MPI; a group of one when there is none. Collective. On success *group is
 * set. A process that `weftrun --elastic` has started again, in place of one that was lost, joins the group of the others
 * instead, as by weft_group_join(); weft_group_epoch() tells. It makes further groups by a store, or of that one. Errors: INVALID_ARGUMENT, INVALID_USAGE (contradicting variables, each named), TIMEOUT
 * (lists the missing ranks), AUTH_FAILED, SYSTEM_ERROR, OUT_OF_MEMORY. Any thread. */
WEFT_EXPORT weft_result_t weft_group_create_from_env(const weft_group_config_t* config,
                                                     weft_group_t* group);

/* Makes a group of `size` ranks that share a unique id. Collective; `rank` is 0..size-1, each used
 * once. An id makes one group. Used again it is refused at once: INVALID_USAGE in a process that has
 * used it, else UNREACHABLE. Errors: as weft_group_create_from_env. Any thread. */
WEFT_EXPORT weft_result_t weft_group_create_from_id(const weft_unique_id_t* id, int size, int rank,
                                                    const weft_group_config_t* config,
                                                    weft_group_t* group);

/* Makes a group of `size` ranks that share a store. Several groups may be made through one store if
 * their names differ; where all ranks' stores can remove keys, a name may be used again once the group has been made.
 * Collective. Errors: as weft_group_create_from_env. Any thread. */
WEFT_EXPORT weft_result_t weft_group_create_from_store(weft_store_t store, int size, int rank,
                                                       const weft_group_config_t* config,
                                                       weft_group_t* group);

/* Makes `size` ranks inside this process, groups[i] for rank i, each to be driven by a thread of
 * yours. Not collective. Errors: INVALID_ARGUMENT, SYSTEM_ERROR, OUT_OF_MEMORY. Any thread. */
WEFT_EXPORT weft_result_t weft_group_create_local(int size, const weft_group_config_t* config,
                                                  weft_group_t groups[]);

/* The colour of ranks that are in no part of a split. */
#define WEFT_COLOR_NONE (-1)

/* Cuts `parent` into groups of equal `color`, ranked by `key` and then by parent rank. A rank that
 * passes WEFT_COLOR_NONE takes part and gets *group = NULL. Collective over parent. Errors:
 * INVALID_ARGUMENT (color < -1), and those of any collective on parent. Any thread. */
WEFT_EXPORT weft_result_t weft_group_split(weft_group_t parent, int color, int key,
                                           const weft_group_config_t* config, weft_group_t* group);

/* Makes a group of the `count` given ranks of `parent`, in the order given: ranks[i] becomes rank i. A
 * rank that is not listed takes part and gets *group = NULL. Collective over parent; all pass the same
 * list (MISMATCH). Errors: INVALID_ARGUMENT (a rank twice or outside the parent, count < 1), and those
 * of any collective on parent. Any thread. */
WEFT_EXPORT weft_result_t weft_group_create_from_ranks(weft_group_t parent, const int ranks[],
                                                       int count, const weft_group_config_t* config,
                                                       weft_group_t* group);

/* In the members of weft_group_reconfigure(): a place for a process that is not in the group yet. */
#define WEFT_NEW_RANK (-1)

/* Makes the group anew, in place, of the ranks that live: after a failure, to go on with fewer, to give ranks other
 * numbers, or to take in new processes. Collective over the ranks that live, that is whose process has not ended and whose handle is not
 * destroyed; the group may have failed or work. members[i] is the present rank that becomes rank i, or WEFT_NEW_RANK; at least one is a
 * present rank. NULL and 0: all that live, in their order. All pass the same list. No rank needs to know who is gone: the ranks agree on it,
 * and if one dies meanwhile, they agree without it.
 *
 * Places of WEFT_NEW_RANK are taken by processes that call weft_group_join(), in the order in which they came; the call waits for them until its
 * deadline. Groups that take in newcomers through one store at a time have different names. They are met in config->store, or if that is NULL in the store of the weftrun that has started this process. Either all
 * ranks that live have the group with the newcomers, or none: if it cannot be made (a newcomer dies, say) the call fails on all, and the
 * group is as it was.
 *
 * On success the handle is that of the new group, whose sequence numbers and statistics start anew; name and deadlines are
 * the old ones where config does not say otherwise (config->init_timeout_ns is the deadline of the call). What was under way on the
 * group has ended with WEFT_ABORTED, or as the group had failed, also calls of other threads. A rank that is not listed
 * must call, too; on its handle every call but weft_group_destroy() is BAD_STATE from then on. A rank that dies when
 * all have agreed is a member: the next operation names it, and the group may be reconfigured again, any number of times.
 *
 * weft_error_info_t::world_rank stays the number that a rank had at first; a newcomer has that of its launcher if no member has it, else
 * one above those of all members. Groups that were split from the old one end with it;
 * memory of weft_mem_alloc_shared() ends with it, that of weft_mem_alloc() stays. Meshes and shard contexts on it have to be made anew.
 * Memory of ranks that are gone is given back.
 *
 * An error comes on all ranks, and leaves the group as it was: PEER_LOST (a listed rank is gone, or a process ended while the
 * newcomers were taken in), MISMATCH (another list), REMOTE_ERROR (a rank or a newcomer has met with something, which its own error says:
 * OUT_OF_MEMORY, SYSTEM_ERROR, UNSUPPORTED for one of another machine, and the store's), ABORTED and INTERRUPTED (weft_set_interrupt on a
 * rank), TIMEOUT (too few newcomers came, or one did not go on). But where ranks come to the call more than a second apart, what is under
 * way on a group that works is ended then, and so the group, whatever becomes of the call.
 * TIMEOUT that names who has not called, and what that process does: the group has ended, and may be reconfigured when all come.
 * Over several nodes the nodes agree on who lives and can be reached: NO_QUORUM (on all of a node, too few can be reached, or the others have
 * gone on without it). MISMATCH and PEER_LOST of a listed rank then end the group as well; the call may be made again, with members by
 * the same numbers. UNSUPPORTED on all: WEFT_NEW_RANK, and a group on several nodes that was split from another one.
 * One rank alone: INVALID_ARGUMENT (a rank twice or outside the group, none of the group, members NULL and count not 0), UNSUPPORTED (more
 * ranks than a group may have), INVALID_USAGE (a group that belongs to a mesh; WEFT_NEW_RANK without a store), BAD_STATE (another thread
 * reconfigures the group). Any thread; not in a callback. */
WEFT_EXPORT weft_result_t weft_group_reconfigure(weft_group_t group, const int members[], int count,
                                                 const weft_group_config_t* config);

/* Joins a group whose ranks take newcomers in by weft_group_reconfigure() with WEFT_NEW_RANK: waits until they do, and
 * sets *group. `store`: where they look for newcomers; NULL: the store of the weftrun that has started this process. config->name is
 * the group's, "world" if it is NULL. Rank and size are the group's to say. If the ranks' attempt fails, this one waits for the next.
 * Errors: INVALID_ARGUMENT, INVALID_USAGE (no store), TIMEOUT (config->init_timeout_ns has passed), INTERRUPTED, AUTH_FAILED,
 * UNSUPPORTED (another machine), SYSTEM_ERROR, OUT_OF_MEMORY. Any thread. */
WEFT_EXPORT weft_result_t weft_group_join(weft_store_t store, const weft_group_config_t* config,
                                          weft_group_t* group);

/* How many processes wait to join the group, at most 64: in `store`, or if that is NULL in weftrun's. Not collective, and of this
 * moment: let one rank ask and tell the others, which then call weft_group_reconfigure() with so many WEFT_NEW_RANK. Asks the store, so
 * it takes some 0.1 ms, with weftrun's, to which it connects, 1 ms. Errors: INVALID_ARGUMENT, INVALID_USAGE (no store), and the store's. Any thread. */
WEFT_EXPORT weft_result_t weft_group_newcomers(weft_group_t group, weft_store_t store, int* count);

/* How often the group has been made: 1 at first, one more after each weft_group_reconfigure(). A process that finds more
 * than 1 when it makes a group has joined one that runs. Errors: INVALID_ARGUMENT. Any thread. */
WEFT_EXPORT weft_result_t weft_group_epoch(weft_group_t group, uint32_t* epoch);

/* This process's rank, 0..size-1. Errors: INVALID_ARGUMENT. Any thread. */
WEFT_EXPORT weft_result_t weft_group_rank(weft_group_t group, int* rank);
/* How many ranks the group has. Errors: INVALID_ARGUMENT. Any thread. */
WEFT_EXPORT weft_result_t weft_group_size(weft_group_t group, int* size);
/* The group's name; valid until the handle is destroyed. Errors: INVALID_ARGUMENT. Any thread. */
WEFT_EXPORT weft_result_t weft_group_name(weft_group_t group, const char** name);

/* Sets this rank's deadline of the group's operations that are called from now on and have no timeout_ns of their own
 * (weft_call_t), in place of the config's timeout_ns; 0: WEFT_TIMEOUT_S or 1800 s. Operations under way keep theirs, and so
 * do groups made of this one before; later ones inherit it. Not collective: ranks may differ, and the shortest deadline
 * that passes ends the operation for all. Never waits. Errors: INVALID_ARGUMENT (a negative timeout). Any thread. */
WEFT_EXPORT weft_result_t weft_group_set_timeout(weft_group_t group, int64_t timeout_ns);

/* How many collectives this rank has issued on the group, which is the last one's sequence number in messages and in the
 * flight recorder: on all ranks, calls of the same number belong together. Blocking calls and started works count from
 * their call on, those of a batch from its end on, refusals (weft_group_refuse) count, calls that were refused and messages never do; splits and shared memory are made by
 * collectives, which count too. What another thread calls at this moment may count or not. Never waits. Errors:
 * INVALID_ARGUMENT. Any thread. */
WEFT_EXPORT weft_result_t weft_group_sequence(weft_group_t group, uint64_t* sequence);

/* What this rank has done with a group so far. Bytes are of the caller's buffers. */
typedef struct weft_group_stats {
  size_t struct_size;
  uint64_t collectives;   /* operations ended, well or not */
  uint64_t messages;      /* sends and receives ended, well or not */
  uint64_t failures;      /* of these, not ended well */
  uint64_t in_bytes;      /* read from in buffers */
  uint64_t out_bytes;     /* written to out buffers */
  uint64_t pending;       /* operations started and not ended */
  int64_t wait_ns;        /* time that blocking calls spent asleep or yielding for peers */
  uint64_t shared_bytes;  /* shared memory that this rank holds for the group */
  uint64_t private_bytes; /* other memory that it holds for the group, about */
  /* Of a group over several nodes, else 0: messages that this rank has posted for its operations, and
   * their bytes without headers and repetitions; those that are on their way or have failed, too. */
  uint64_t node_messages; /* to ranks of its node */
  uint64_t node_bytes;
  uint64_t net_messages; /* to ranks of other nodes */
  uint64_t net_bytes;
} weft_group_stats_t;

/* Fills *stats, whose struct_size must be set (INVALID_ARGUMENT). Never waits. Any thread. */
WEFT_EXPORT weft_result_t weft_group_stats(weft_group_t group, weft_group_stats_t* stats);

/* WEFT_SUCCESS while the group works; else why it no longer does, with the sentence in
 * weft_last_error(). Never waits. Any thread. */
WEFT_EXPORT weft_result_t weft_group_error(weft_group_t group);

/* Tells the other ranks that this one does not make its next collective, because its arguments are wrong, say: who has made it, or makes it
 * later, gets MISMATCH at once, with this rank and `reason`, and the group has ended, as after any mismatch. The refusal takes the place of
 * the call in the order of collectives. So if all ranks refuse, whatever each of them refuses and why, the group goes on; and a rank that
 * refuses must not make the call after all. For bindings and programs that check what they pass: a call of this library that is refused
 * (INVALID_ARGUMENT and so on) takes no place, and may be corrected and repeated.
 * `operation`: the name of the call ("all_reduce"); NULL and other names: it is not told. `reason`: UTF-8, of which 367 bytes are told.
 * Messages are not concerned: who waits for one from this rank waits on. Takes its place now, also while a batch is open on this thread.
 * Never waits. Errors: INVALID_ARGUMENT; those of a call that starts an operation; OUT_OF_MEMORY (others have not come to 1024
 * refusals). Any thread. */
WEFT_EXPORT weft_result_t weft_group_refuse(weft_group_t group, const char* operation,
                                            const char* reason);

/* Ends the group's operations on all its ranks: those under way and all later ones return
 * WEFT_ABORTED with `reason` (NULL: none given). Local, returns within a second, may be called any
 * number of times and from any thread. */
WEFT_EXPORT weft_result_t weft_group_abort(weft_group_t group, const char* reason);

/* Frees this rank's part. Operations still under way are aborted. Not collective: a rank may leave
 * while others still hold the group, but an operation that needs it then fails, naming it. NULL is
 * fine. No other call may use the handle during or after this one. Errors: INVALID_ARGUMENT. */
WEFT_EXPORT weft_result_t weft_group_destroy(weft_group_t group);

WEFT_END_DECLS

#endif /* WEFT_GROUP_H_ */
