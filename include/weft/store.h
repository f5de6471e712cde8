/* How ranks find each other: a small key-value store and the id that names one.
 *
 * Under a launcher nothing here is needed: weft_group_create_from_env() finds everything. A
 * framework that has its own store hands it in as callbacks; a program that can send 128 bytes to
 * its ranks uses a unique id, as with NCCL.
 */
#ifndef WEFT_STORE_H_
#define WEFT_STORE_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Size of a unique id. */
#define WEFT_UNIQUE_ID_BYTES 128

/* Names a rendezvous and carries its secret: whoever has it can join. Send it to ranks you trust,
 * do not print it. */
typedef struct weft_unique_id {
  char internal[WEFT_UNIQUE_ID_BYTES];
} weft_unique_id_t;

/* Makes an id and starts serving its rendezvous in this process, until the process ends or the
 * group made from it has all its ranks. Call on one rank, send the bytes to all. Errors:
 * INVALID_ARGUMENT (NULL), SYSTEM_ERROR. Any thread. */
WEFT_EXPORT weft_result_t weft_unique_id_create(weft_unique_id_t* id);

/* A foreign store. All functions may be called from the thread that creates, joins or reconfigures a group, one at a time if no other
 * thread uses the same weft_store_t.
 * Values are byte strings of at most 1 MiB. Each returns WEFT_SUCCESS or the reason why not, by weft_callback_failed (error.h) as a sentence. */
typedef struct weft_store_callbacks {
  size_t struct_size;
  void* user;
  /* Writes `size` bytes at `value` under `key`, replacing what was there. */
  weft_result_t (*set)(void* user, const char* key, const void* value, size_t size);
  /* Waits up to timeout_ns for `key`. On entry *size is the room at `value`; on success the bytes
   * written. A value larger than the room is INVALID_ARGUMENT with *size set to what is needed.
   * WEFT_TIMEOUT if the key did not come. */
  weft_result_t (*get)(void* user, const char* key, void* value, size_t* size, int64_t timeout_ns);
  /* Adds `delta` to the decimal number under `key` (0 if absent) and returns the new number in
   * *result. */
  weft_result_t (*add)(void* user, const char* key, int64_t delta, int64_t* result);
  /* Removes `key`; one that is not there is no failure. May be NULL: then every group that is made through the store leaves
   * two keys per rank in it and one more. Called for keys that all ranks have read, while the group is being made; a failure
   * is logged and does no harm. */
  weft_result_t (*remove)(void* user, const char* key);
  /* Called once with `user` by weft_store_destroy, which may come from a forked child too. NULL: nothing is called. */
  void (*release_user)(void* user);
} weft_store_callbacks_t;

/* Wraps a foreign store. `callbacks` is copied; `user` must outlive the store and every group
 * creation that uses it. If the call fails, `user` is not released. Children forked later may use the store. Errors: INVALID_ARGUMENT (NULL, a missing function, wrong struct_size).
 * Any thread. */
WEFT_EXPORT weft_result_t weft_store_create_callbacks(const weft_store_callbacks_t* callbacks,
                                                      weft_store_t* store);

/* Frees the store; groups made through it live on. NULL is fine. Errors: INVALID_ARGUMENT. Any
 * thread. */
WEFT_EXPORT weft_result_t weft_store_destroy(weft_store_t store);

WEFT_END_DECLS

#endif /* WEFT_STORE_H_ */
