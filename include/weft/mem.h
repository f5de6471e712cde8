/* Memory that ranks of the same node can reach directly.
 *
 * Collectives on buffers from here move 2PS bytes where private ones move (5P-2)S (P ranks, S
 * bytes), because each rank reduces straight from and into its peers' memory. (Lists of buffers,
 * iov.h, gain nothing.) Allocation is local,
 * not collective: ranks may allocate different sizes in any order, and may mix this memory with any
 * other in one operation. Only weft_mem_alloc_shared is collective: it makes one block that all ranks of a group
 * share, for results that they need once. A forked child does not have its parent's memory from here. Where the parent had
 * memory of the host's from here, all of these calls return FORKED in the child. Where it had used devices alone, the child
 * has memory of the host's of its own, and FORKED is for devices, pinned memory and pointers to what is not the child's.
 */
#ifndef WEFT_MEM_H_
#define WEFT_MEM_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Flag of weft_mem_alloc_on, and of weft_mem_info_t: host memory whose pages CUDA keeps in place, so that devices reach it. */
#define WEFT_MEM_PINNED 1u

/* Allocates `bytes` (> 0), zeroed, aligned to 4096. `flags` must be 0. Pages are there when the
 * call returns: lack of memory is OUT_OF_MEMORY now, not a signal later. Errors: INVALID_ARGUMENT,
 * OUT_OF_MEMORY, SYSTEM_ERROR. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_alloc(size_t bytes, uint32_t flags, void** memory);

/* What memory is asked for. */
typedef struct weft_mem_config {
  size_t struct_size;
  size_t bytes;                   /* above 0 */
  uint32_t flags;                 /* 0, or WEFT_MEM_PINNED of the host */
  weft_device_kind_t device_kind; /* where */
  int32_t device; /* CUDA's ordinal, 0 is the first, or WEFT_DEVICE_CURRENT; of the host 0 */
  void* stream;   /* that zeroes memory of a device; NULL: CUDA's legacy stream; of the host NULL */
} weft_mem_config_t;

/* As weft_mem_alloc, on the host or on a device.
 *
 * Memory of a device is zeroed by the stream: use it there, or behind it. It is aligned to 512; blocks
 * of up to 1 MiB share 2 MiB, a larger one takes a multiple of 2 MiB. Other processes can map it where the device has POSIX descriptors
 * (weft_device_info), and all devices reach it that can (cuDeviceCanAccessPeer), without cudaDeviceEnablePeerAccess. Else it is plain
 * memory of cuMemAlloc, aligned to 256. The call does not wait for the stream; it may wait for devices while it gives freed memory
 * back that is plain or pinned, which it does if it lacks memory, or if that is more than a quarter of what lives. The stream is one
 * of the device's (else INVALID_ARGUMENT), of the primary context, which CUDA's runtime, torch and JAX use, and not in capture
 * (UNSUPPORTED; neither is the legacy one while a stream that waits for it is). Calls of this header spoil no capture on other streams.
 *
 * Pinned memory of the host is as any from weft_mem_alloc, and devices reach it at the same address. CUDA pins it through
 * the thread's current context, else one that weft has, else device 0's. Where CUDA refuses memory that processes share, it is
 * the process's own (cuMemHostAlloc), and weft_mem_query says PRIVATE.
 *
 * Errors: as weft_mem_alloc; UNSUPPORTED (no such thing on this machine), DEVICE_ERROR, FORKED (device.h). Any thread. */
WEFT_EXPORT weft_result_t weft_mem_alloc_on(const weft_mem_config_t* config, void** memory);

/* Frees memory from weft_mem_alloc and weft_mem_alloc_on, once more than weft_mem_retain has kept it. A block that an
 * operation with a work still uses is freed when the operation ends; the buffers of a blocking call must stay until it
 * has returned. NULL is fine. INVALID_ARGUMENT for any other pointer. Any thread.
 *
 * The call waits for no device, unless the memory is pinned: CUDA may wait while it unpins it. What
 * weft itself has enqueued, such as the zeroing of the block, is done before the memory is somebody
 * else's; nothing of yours may use it any more on any device (else weft_mem_free_on). Memory of a
 * device goes back to the driver when no block is left in its 2 MiB, but for 2 MiB on each device
 * that are kept; plain memory, for which CUDA would wait, with an allocation there
 * (weft_mem_alloc_on). */
WEFT_EXPORT weft_result_t weft_mem_free(void* memory);

/* As weft_mem_free for memory of a device or pinned memory that work in `stream` still uses: the block comes back when what
 * is in the stream now has ended, which later calls of this header find out. NULL is CUDA's legacy stream, of pinned memory
 * that of the thread's current device. Errors: INVALID_ARGUMENT (also a stream of another device than the block), UNSUPPORTED (other memory
 * of the host, which follows no stream; a stream in capture), DEVICE_ERROR, FORKED; nothing is freed then. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_free_on(void* memory, void* stream);

/* Keeps the block that holds `pointer`: it lasts until one more weft_mem_free(*block). For blocks of weft_mem_alloc,
 * weft_mem_alloc_on and weft_mem_alloc_copy, and for those of weft's heap in which a shard context has its parameters and gradients: a view then
 * outlives the context, which ends all it does with the block, and the group. Its contents are the
 * context's to change until then. `block`, where the block begins, may be NULL if `pointer` is that.
 * Errors: INVALID_ARGUMENT (NULL, memory that is no such block), UNSUPPORTED (from weft_mem_alloc_shared). Any thread. */
WEFT_EXPORT weft_result_t weft_mem_retain(const void* pointer, void** block);

/* What a pointer is to weft. */
typedef enum weft_mem_kind {
  WEFT_MEM_PRIVATE = 0,    /* memory of the program, or pinned memory that no peer reaches */
  WEFT_MEM_SYMMETRIC = 1,  /* a block of weft's heap, or of weft's on a device */
  WEFT_MEM_REGISTERED = 2, /* weft_mem_register, weft_mem_register_fd */
  WEFT_MEM_SHARED = 3      /* weft_mem_alloc_shared */
} weft_mem_kind_t;

/* The block or range that holds a pointer. */
typedef struct weft_mem_info {
  size_t struct_size; /* set by the caller: sizeof(weft_mem_info_t) */
  weft_mem_kind_t kind;
  weft_device_kind_t device_kind; /* where it is, as far as weft knows */
  int32_t device;                 /* CUDA's ordinal; 0 of the host */
  int32_t references;             /* of blocks: how many weft_mem_free it takes; else 0 */
  void* base;   /* where the block or range begins; NULL of the program's memory */
  size_t bytes; /* of it: of blocks with what they are rounded up by, of ranges as registered; 0 of
                     the program's memory */
  uint32_t flags; /* WEFT_MEM_PINNED */
} weft_mem_info_t;

/* Says what `pointer` is, which may be any address. Opens no driver, and asks none: memory of a device that weft has neither
 * allocated nor registered is PRIVATE and the host's to it. Errors: INVALID_ARGUMENT (pointer or info is NULL), FORKED. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_query(const void* pointer, weft_mem_info_t* info);

/* Copies `bytes` (> 0) bytes from memory of any kind into a new block, *view; free it with weft_mem_free(). Of host memory it is
 * as one of weft_mem_alloc(), and not pinned. Of a device's memory, where CUDA's driver is in the process, it is as
 * one of weft_mem_alloc_on() for that device, and CUDA's legacy stream copies: order your work before it, and behind it.
 *
 * For a framework that allocates its own buffers: if weft_explain() says that copying once and working on the view costs less
 * than a collective on private memory, release the original and use the view. Errors: INVALID_ARGUMENT, OUT_OF_MEMORY, SYSTEM_ERROR,
 * DEVICE_ERROR, UNSUPPORTED (a capture is under way in the legacy stream). Any thread. */
WEFT_EXPORT weft_result_t weft_mem_alloc_copy(const void* from, size_t bytes, void** view);

/* Allocates one block of `bytes` (> 0, the same on all ranks), zeroed, aligned to 4096, that all ranks of the group
 * share: *memory is this rank's address of it. Collective.
 *
 * You may use the block like any from weft_mem_alloc(), also in operations of other groups of these processes. In addition it may be
 * the `out` of several ranks at once in weft_all_reduce, weft_broadcast, weft_all_gather and weft_all_gather_v. These ranks
 * then have one result: each byte is written once, and all of it is complete when the call returns on any of them. An all_gather in
 * place moves nothing then, nor does a broadcast whose root has in == out. These ranks pass the same offset in the
 * block; other ranks may pass memory of their own. Ranks write small results one after
 * the other, so this pays for large ones. All ranks see what one rank does with the result: agree on who may change
 * which part, and when. No rank's input may lie in another rank's part of the result, except in all_reduce and
 * broadcast in place. Lists of buffers (iov.h) cannot have such a result.
 *
 * The memory belongs to rank 0's heap and is counted
 * there (weft_group_stats). It lasts until weft_mem_free_shared(), or until this rank destroys the group, after which the rank must not
 * touch it. Errors: INVALID_ARGUMENT, on this rank alone, which takes no part then; on all ranks
 * OUT_OF_MEMORY on rank 0 and REMOTE_ERROR on the others; MISMATCH if sizes differ; those of a collective. Any thread, like a collective. */
WEFT_EXPORT weft_result_t weft_mem_alloc_shared(weft_group_t group, size_t bytes, void** memory);

/* Gives back memory from weft_mem_alloc_shared() of the same group. Collective: all ranks pass their own address of
 * the same block, and no operation may be using it on any rank. Errors: INVALID_ARGUMENT if no block of the group
 * begins there, and REMOTE_ERROR on the other ranks then; MISMATCH if they pass different blocks; those of a
 * collective. Nothing is freed then. Any thread, like a collective. */
WEFT_EXPORT weft_result_t weft_mem_free_shared(weft_group_t group, void* memory);

/* Makes memory that the caller owns as reachable as memory from weft_mem_alloc: moves its pages into
 * weft's heap, under the same addresses and with the same contents. `memory` and `bytes` must be
 * multiples of the page size (4096), readable, writable and private; not a stack. While the call runs
 * nobody may touch the range. A child forked later does not have the range. `flags` must be 0.
 * Until weft_mem_deregister() the caller must not unmap, remap or free the range.
 *
 * Memory of a device (cudaMalloc, a tensor of torch): where CUDA's driver is in the process, it says so. Then any range of
 * one device will do, nothing moves, and weft opens the device. UNSUPPORTED: managed memory, and host memory of which CUDA has
 * pinned a page, which cannot move.
 * Errors: INVALID_ARGUMENT (NULL, alignment, overlap with another registration or with weft's own
 * memory), UNSUPPORTED, OUT_OF_MEMORY, SYSTEM_ERROR, DEVICE_ERROR; the range is then as before. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_register(void* memory, size_t bytes, uint32_t flags);

/* As weft_mem_register, for a range that is in a file of memory already, as the storages are that frameworks share between
 * processes: [memory, memory + bytes) is a shared mapping (MAP_SHARED) of `fd` from byte `offset` on. The file is a memfd,
 * or one of tmpfs (shm_open) or hugetlbfs, open for reading and writing; address and size are any. Nothing is moved:
 * whoever else has the file mapped sees the same bytes, also what peers write. Pages that are not there are taken now. `fd` may be
 * closed after the call.
 * Until weft_mem_deregister() the caller must not unmap the range, and nobody may make the file shorter: who touches
 * what is gone gets a SIGBUS. After an operation that failed because a peer was stopped, that peer may still write its part when it goes on.
 * Peers map the range when an operation needs it first, if they may trace this process (ptrace(2); so they may
 * where they read its private memory, WEFT_SINGLE_COPY). In a group where one rank may not, the range is as private memory.
 * Errors: INVALID_ARGUMENT (NULL, 0 bytes, no such descriptor, memory that is not mapped so, a file that ends before or that
 * peers could not write, overlap), UNSUPPORTED (another kind of file), OUT_OF_MEMORY (also above 4096 ranges),
 * SYSTEM_ERROR. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_register_fd(void* memory, size_t bytes, int fd, uint64_t offset,
                                               uint32_t flags);

/* Ends a registration. Of weft_mem_register_fd the range stays mapped as it is, and peers reach it no more. Of
 * weft_mem_register it becomes private memory again, with its contents. BAD_STATE while an operation of this process
 * uses it, INVALID_ARGUMENT if `memory` is not the beginning of a registration. Any thread. */
WEFT_EXPORT weft_result_t weft_mem_deregister(void* memory);

/* Where weft gets private memory whose size depends on the caller's data: messages that came before
 * their receive, temporaries of user reductions, private buffers of shard contexts. Handles and
 * control structures come from operator new. */
typedef struct weft_allocator {
  size_t struct_size;
  /* Returns `bytes` > 0 at a multiple of `alignment`, a power of two; NULL if there is no memory. */
  void* (*allocate)(size_t bytes, size_t alignment, void* user);
  /* Takes back a block from `allocate`, with the same bytes. */
  void (*release)(void* memory, size_t bytes, void* user);
  void* user;
} weft_allocator_t;

/* Sets the allocator of the process, before the first group is made (BAD_STATE later); NULL: the
 * default, operator new. Its functions may be called from any thread and must not call weft.
 * Errors: INVALID_ARGUMENT (a function is NULL), BAD_STATE. Any thread. */
WEFT_EXPORT weft_result_t weft_set_allocator(const weft_allocator_t* allocator);

WEFT_END_DECLS

#endif /* WEFT_MEM_H_ */
