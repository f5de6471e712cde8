/* Checkpoints: the state of shard contexts, tensors and values of your own, saved by all ranks of a group to one directory, and
 * loaded again by any number of ranks under any preset.
 *
 *   weft_checkpoint_config_t config = {sizeof config, "runs/a/checkpoints", .keep_last = 3};
 *   weft_checkpoint_create(group, &config, &checkpoint);               collective
 *   weft_checkpoint_add_context(checkpoint, NULL, context);            ... add_tensor, add_value
 *   weft_checkpoint_load(checkpoint, NULL, &loaded);                   collective; loaded.found is 0 in a new run
 *   for each step ...
 *     weft_checkpoint_save_config_t save = {sizeof save, step, .background = 1};
 *     weft_checkpoint_save(checkpoint, &save);                         between steps; no rank waits for another
 *   weft_checkpoint_wait(checkpoint, 0);
 *   weft_checkpoint_destroy(checkpoint);
 *
 * A checkpoint counts once all ranks have written all of it to the disk and rank 0 has committed it; what was there before stays until
 * then, whatever ends the program, the machine, or the disk. Every byte has a checksum, which is compared before the byte is used: a
 * checkpoint that is damaged is passed over for the one before it, with a warning. docs/formats/checkpoint.md has the files, whose
 * tensors the safetensors package reads; docs/checkpointing.md a program.
 *
 * All ranks need the same directory; on several nodes that is one of a file system that they share. One job saves in a
 * directory at a time, and another one that tries is refused with the name of the first; any number may load meanwhile.
 *
 * With the same number of ranks, training goes on with the bits that it would have had, whatever the preset.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), FORKED; collective calls also have those of
 * collective.h. SYSTEM_ERROR or OUT_OF_MEMORY name the file that could not be written or read, and what to do.
 *
 * Thread rule: one thread at a time per checkpoint: that of the step calls of its contexts.
 */
#ifndef WEFT_CHECKPOINT_H_
#define WEFT_CHECKPOINT_H_

#include "weft/shard.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* What a run saves and loads, and where. */
typedef struct weft_checkpoint* weft_checkpoint_t;

/* What the first save does about checkpoints in the directory that keep_last would remove in time, if none of them was loaded: they
 * may be another run's. */
typedef enum weft_checkpoint_not_loaded {
  WEFT_CHECKPOINT_WARN = 0,  /* a warning names them */
  WEFT_CHECKPOINT_REFUSE = 1 /* BAD_STATE names them, and nothing is saved until one was loaded */
} weft_checkpoint_not_loaded_t;

/* Where checkpoints are, and how many are kept. */
typedef struct weft_checkpoint_config {
  size_t struct_size;
  /* Of all checkpoints; made if its parent is there. One that is relative is so to the current directory of now, whatever that is later. To load one checkpoint
   * that was copied or renamed, give its own directory. */
  const char* directory;
  /* So many are kept, and those that are pinned (weftctl checkpoint pin); the older ones are removed when a new one is committed, 0: none. One
   * that has anything else in it than files of the format, or is a symbolic link, is left as it is, with a warning. */
  int64_t keep_last;
  int64_t keep_every; /* and those of steps that are multiples of it, for good; 0: none */
  int64_t
      timeout_ns; /* of a save from its begin until it is committed, and of each collective; 0: 600 s */
  const char*
      config; /* text that rank 0 writes beside each checkpoint as config.json; NULL: none */
  weft_checkpoint_not_loaded_t not_loaded;
} weft_checkpoint_config_t;

/* Strings are copied. `group` is borrowed and must outlive the checkpoint: all ranks that save. Nothing is written yet. Collective. Errors:
 * SYSTEM_ERROR if rank 0 cannot read the directory. */
WEFT_EXPORT weft_result_t weft_checkpoint_create(weft_group_t group,
                                                 const weft_checkpoint_config_t* config,
                                                 weft_checkpoint_t* checkpoint);

/* Waits for a save that is under way, until its deadline at most, and not for other ranks if the group has ended; frees everything. Not collective. NULL is fine. */
WEFT_EXPORT weft_result_t weft_checkpoint_destroy(weft_checkpoint_t checkpoint);

/* ---- what is saved ------------------------------------------------------------------------------- */

/* Names of tensors, params, values and contexts are UTF-8, of 1 to 4096 bytes, of a context also none, and not "__metadata__", which has a meaning of its own in
 * safetensors files: INVALID_ARGUMENT, from each of the calls that add. */

/* Adds all params and numbers of a finalized context, which is borrowed: once it is destroyed, saves and loads are BAD_STATE. A save that
 * is under way then goes on (weft_shard_context_destroy). `name`: tells its numbers from
 * those of other contexts, on whichever rank they are; NULL: "". Params are known by their names (weft_shard_unit_add_param), also to other
 * contexts: ranks that have other params, as stages of a pipeline do, add theirs. Not collective. Errors: INVALID_ARGUMENT for a name that is taken,
 * and those of weft_shard_state_part. */
WEFT_EXPORT weft_result_t weft_checkpoint_add_context(weft_checkpoint_t checkpoint,
                                                      const char* name,
                                                      weft_shard_context_t context);

/* A tensor of your own, or the slice of it that this rank has. */
typedef struct weft_checkpoint_tensor {
  size_t struct_size;
  const char* name;     /* of the whole tensor, the same on all ranks */
  const int64_t* shape; /* [ndim], of the whole tensor */
  int ndim;             /* 0: a scalar */
  weft_dtype_t dtype;
  size_t begin; /* this rank has elements [begin, begin + count), counted by rows */
  size_t count;
  void*
      data; /* [count]; read by saves, written by loads; borrowed until the checkpoint is destroyed */
} weft_checkpoint_tensor_t;

/* Adds a tensor. The slices of all ranks together must cover it, or the save fails; they may overlap where they have the same
 * values. Not collective. */
WEFT_EXPORT weft_result_t weft_checkpoint_add_tensor(weft_checkpoint_t checkpoint,
                                                     const weft_checkpoint_tensor_t* tensor);

/* Flags of weft_checkpoint_value_t. */
#define WEFT_CHECKPOINT_PER_RANK 1u /* each rank has its own; else rank 0's is everybody's */

/* Some bytes of your own, up to 16 MiB (more are a tensor of WEFT_UINT8), such as the state of a random number generator or the place in the data. */
typedef struct weft_checkpoint_value {
  size_t struct_size;
  const char* name;
  uint32_t flags;
  /* Called by weft_checkpoint_save: sets *bytes and *count, which stay valid until the next call. Anything but WEFT_SUCCESS fails the save;
   * weft_callback_failed (error.h) says why. */
  weft_result_t (*save)(void* user, const void** bytes, size_t* count);
  /* Called by weft_checkpoint_load before anything else is written, maybe for several checkpoints in turn, of which the last one counts. bytes is
   * NULL if the checkpoint has none of that name, or of this rank. Anything but WEFT_SUCCESS refuses the checkpoint, on all ranks, which have the sentence of
   * weft_callback_failed. */
  weft_result_t (*load)(void* user, const void* bytes, size_t count);
  void* user;
} weft_checkpoint_value_t;

/* Adds a value; the same ones on all ranks. Not collective. */
WEFT_EXPORT weft_result_t weft_checkpoint_add_value(weft_checkpoint_t checkpoint,
                                                    const weft_checkpoint_value_t* value);

/* ---- saving -------------------------------------------------------------------------------------- */

/* What is to be saved. */
typedef struct weft_checkpoint_save_config {
  size_t struct_size;
  int64_t step; /* of training; more than that of the save, or load, before */
  /* 1: return when this rank's part is copied, into memory that the checkpoint keeps, as large as the part. A thread of low priority
   * (Linux: nice + 10) writes it, so that it takes little from those that compute; who waits for it waits longer if all CPUs are busy. State that is
   * offloaded is not copied, as with in_place. */
  int background;
  /* 1, with background: params alone are copied. The thread's priority is that of the caller. Moments and main copies are written from where they are, and the next weft_shard_optimizer_step waits
   * until that has been done, as does weft_shard_context_destroy. Do not write them yourself before, or weft_checkpoint_wait. */
  int in_place;
} weft_checkpoint_save_config_t;

/* Saves, between steps or after finish, on every rank. The first save of a checkpoint object is collective: ranks agree that this job saves in
 * the directory, until the object is destroyed. The others are not: no rank waits for another, but each waits until its save before has
 * ended. Without `background` it returns when the checkpoint is committed. A save that fails leaves those before it as they are, and training
 * may go on; of one in the background weft_checkpoint_test and weft_checkpoint_wait tell, else a warning at the next save. Errors: TIMEOUT
 * naming the ranks that had not written at the deadline; UNREACHABLE if this rank does not see in the directory what rank 0 has written;
 * SYSTEM_ERROR, naming the rank, if some rank could not write; ABORTED if the group has ended, as when a rank is lost, before all had written;
 * BAD_STATE on all ranks, naming host, process and job, if another job saves in the directory, or has taken it over while this process was stopped for a
 * minute, and by not_loaded; INVALID_ARGUMENT for a step that does not grow, and if there is more than a checkpoint can have
 * (docs/formats/checkpoint.md, Limits): it would not be loaded, so it is not committed. */
WEFT_EXPORT weft_result_t weft_checkpoint_save(weft_checkpoint_t checkpoint,
                                               const weft_checkpoint_save_config_t* config);

/* Sets *ended to 0 while the last save is under way, and to 1 if it is committed, or there was none. The error of a save that has failed. */
WEFT_EXPORT weft_result_t weft_checkpoint_test(weft_checkpoint_t checkpoint, int* ended);

/* Returns when the last save is committed, or why it is not. timeout_ns 0: at its own deadline. TIMEOUT if it is still under way. */
WEFT_EXPORT weft_result_t weft_checkpoint_wait(weft_checkpoint_t checkpoint, int64_t timeout_ns);

/* ---- loading ------------------------------------------------------------------------------------- */

/* Flags of weft_checkpoint_load_config_t. */
#define WEFT_CHECKPOINT_VALUES_ONLY \
  1u /* params alone: no optimizer state, numbers or values; for finetuning */
#define WEFT_CHECKPOINT_STEP 2u /* `step` is meant, else the latest */
#define WEFT_CHECKPOINT_WHOLE \
  4u /* with VALUES_ONLY too, every tensor of the checkpoint must have been added on some rank */
#define WEFT_CHECKPOINT_PARTIAL \
  8u /* with VALUES_ONLY: what was added and the checkpoint has not keeps its values */
#define WEFT_CHECKPOINT_CONVERT \
  16u /* with VALUES_ONLY: floating-point values become those of the type that was added, rounded to nearest even */

/* Which checkpoint is wanted, and what of it. */
typedef struct weft_checkpoint_load_config {
  size_t struct_size;
  uint32_t flags; /* WEFT_CHECKPOINT_* */
  int64_t step;
  /* Where else than in the checkpoint's own directory: another directory of checkpoints; that of one, whatever it is called; with VALUES_ONLY also
   * what other programs write: a .safetensors file, a model.safetensors.index.json, or a folder of such files, which have no checksums
   * (weft_checkpoint_import makes a checkpoint of them that has). NULL: its own. */
  const char* source;
  /* Tensors that are called otherwise in the checkpoint: names[i] of what was added, on whichever rank, is saved_names[i] there. NULL, with
   * VALUES_ONLY: it is not loaded, and keeps its values, as a last layer of another shape. */
  const char* const* names;       /* [name_count] */
  const char* const* saved_names; /* [name_count] */
  size_t name_count;
} weft_checkpoint_load_config_t;

/* What was loaded. */
typedef struct weft_checkpoint_loaded {
  size_t struct_size; /* set by the caller: sizeof(weft_checkpoint_loaded_t) */
  int found;          /* 0: there is none, and nothing was done */
  int ranks;          /* that it was saved by; of others' files: how many they are */
  int64_t step;
  const char*
      path; /* its directory; valid until the next call on this checkpoint, as are the names */
  const char* const* unused; /* [unused_count] tensors of the checkpoint that no rank has taken */
  size_t unused_count;
  const char* const*
      kept; /* [kept_count] tensors of this rank that were not loaded, and keep their values */
  size_t kept_count;
} weft_checkpoint_loaded_t;

/* Loads the latest checkpoint that is whole into everything that was added, between steps or after finalize. NULL config: all 0. Collective, with
 * the same arguments. Every tensor that was added must be in the checkpoint with the same shape and type, and unless VALUES_ONLY is given with the same
 * kinds of optimizer state, made by the same optimizer (LAMB's moments are not ADAMW's; weft_shard_param_group_set changes the kind after the load, where it can
 * be changed); and, unless VALUES_ONLY is given without WHOLE, every tensor of the checkpoint must have been added on some rank. PARTIAL,
 * CONVERT and a map of names allow for what differs; a shape that differs is always an error. Errors: INVALID_ARGUMENT naming the first
 * tensor that differs, and both shapes: it is of another model, and nothing was written; CORRUPT if there are checkpoints and none is
 * whole; SYSTEM_ERROR if one of them could not be read, as without the permission, and no other is whole; UNSUPPORTED for a newer version of the format. Another
 * run may save in the directory meanwhile, and keep one checkpoint: the directory is listed again when one vanishes. A value that is of a rank which this
 * group has not, or that was not added, is named in a warning. After any other error than INVALID_ARGUMENT the state is of no use until a load
 * succeeds. */
WEFT_EXPORT weft_result_t weft_checkpoint_load(weft_checkpoint_t checkpoint,
                                               const weft_checkpoint_load_config_t* config,
                                               weft_checkpoint_loaded_t* loaded);

/* A value of the checkpoint that weft_checkpoint_load has loaded last, of any of the `loaded.ranks` ranks that saved it, also of one that this group has not; rank -1:
 * of a value without WEFT_CHECKPOINT_PER_RANK. Sets *bytes and *count, valid until the next call on this checkpoint; *bytes is NULL if the checkpoint has no such value.
 * Read values before the next save, which may remove the checkpoint: SYSTEM_ERROR then. CORRUPT if they are not as they were written; BAD_STATE if nothing was loaded.
 * Not collective. */
WEFT_EXPORT weft_result_t weft_checkpoint_value_read(weft_checkpoint_t checkpoint, const char* name,
                                                     int rank, const void** bytes, size_t* count);

WEFT_END_DECLS

#endif /* WEFT_CHECKPOINT_H_ */
