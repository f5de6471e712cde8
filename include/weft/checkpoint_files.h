/* Models on their way between checkpoints and files that other programs read and write: safetensors files, one, or several with
 * an index (model.safetensors.index.json), as transformers, accelerate and diffusers have them.
 *
 *   weft_checkpoint_export_config_t config = {sizeof config, "runs/a/checkpoints", "llama", .shard_bytes = 5000000000};
 *   weft_checkpoint_export(&config, NULL);          llama/model-00001-of-00003.safetensors ...
 *
 *   weft_checkpoint_import_config_t config = {sizeof config, "llama", "runs/b/checkpoints"};
 *   weft_checkpoint_import(&config, &copied);       a checkpoint, for any number of ranks and any preset
 *
 * Neither needs a group, nor ranks: one process calls them, such as rank 0 when training has ended. To load files of others into a
 * context, a part of them, under other names or as other types, nothing need be imported: weft_checkpoint_load takes them as they are
 * (`source` in checkpoint.h), and lists what was left out. An import makes a checkpoint of them that has checksums, keeps what others have
 * written in __metadata__, and can be resumed from, exported, pinned and verified as any other.
 *
 * Tensors' values go to and fro, each whole and under its name; of a checkpoint optimizer state, numbers and values of the program's own
 * stay behind. 16 MiB of tensors are in memory at a time, 1 MiB more where values are converted.
 *
 * Errors of both: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range, and what is said below); CORRUPT, naming file and tensor or
 * chunk, for files that are not what they should be; SYSTEM_ERROR naming the file that could not be found, read or written; OUT_OF_MEMORY if the disk is full;
 * INTERRUPTED as the thread's check says (interrupt.h). After an error nothing is left of what was begun.
 *
 * Thread rule: any thread, any number of them; of one target one at a time.
 */
#ifndef WEFT_CHECKPOINT_FILES_H_
#define WEFT_CHECKPOINT_FILES_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* What was copied. */
typedef struct weft_checkpoint_copied {
  size_t struct_size; /* set by the caller: sizeof(weft_checkpoint_copied_t) */
  int64_t step;       /* of the checkpoint */
  size_t tensor_count;
  size_t value_bytes; /* of their values, as they were written */
  size_t file_count;  /* safetensors files that were written, or read */
  /* The directory of the checkpoint that was exported, or made; valid until this thread's next call of a function of this header. */
  const char* checkpoint;
} weft_checkpoint_copied_t;

/* What is exported, where to, and how. */
typedef struct weft_checkpoint_export_config {
  size_t struct_size;
  const char* source; /* the directory of a checkpoint, or of several: the latest that is whole */
  const char* target; /* the file to be made; with shard_bytes the folder. Its parent is there */
  /* 0: one file. Else a folder as transformers writes it: model-00001-of-00003.safetensors and so on, none with more than so many bytes of
   * values unless one tensor has more, and model.safetensors.index.json, which comes last; or one model.safetensors, if that is enough. */
  size_t shard_bytes;
  /* All floating-point values become those of this type, rounded once, to nearest even; tensors of other types stay as they are. 0: all of them do. */
  weft_dtype_t floats_as;
  /* Tensors that are called otherwise in the files: names[i] of the checkpoint is file_names[i] there. NULL: it is left out. */
  const char* const* names;      /* [name_count] */
  const char* const* file_names; /* [name_count] */
  size_t name_count;
} weft_checkpoint_export_config_t;

/* Writes a checkpoint's tensors for other programs. What is there is never replaced: a file that exists, or a folder that has a model, is
 * INVALID_ARGUMENT; a folder may have other files, such as config.json. The metadata are those of the files that the checkpoint was
 * imported from, if it was; `format` is "pt", which transformers asks for, unless it was "tf", "flax" or "mlx". In a directory of several, one
 * that is damaged is passed over for the one before it, with a warning; a run may go on saving there. copied may be NULL. Other errors:
 * INVALID_ARGUMENT if there is no checkpoint, for names that it has not, that are no names in a checkpoint (checkpoint.h), or that
 * two tensors would have, for floats_as of a type that is not floating-point, and for more than 99,999 files. */
WEFT_EXPORT weft_result_t weft_checkpoint_export(const weft_checkpoint_export_config_t* config,
                                                 weft_checkpoint_copied_t* copied);

/* What is imported, and where to. */
typedef struct weft_checkpoint_import_config {
  size_t struct_size;
  /* A .safetensors file; a model.safetensors.index.json; or a folder, by the index in it, else all of its .safetensors files. */
  const char* source;
  const char* directory; /* of all checkpoints, as in weft_checkpoint_config_t */
  int64_t step;          /* of the checkpoint: 0 to 2^53 */
} weft_checkpoint_import_config_t;

/* Makes a checkpoint of other programs' files, which is then the latest in its directory, of a run of its own. It is of one rank, with values
 * alone: WEFT_CHECKPOINT_VALUES_ONLY loads it. Tensors of all types of the format are kept, but those whose elements are less than a byte (F4,
 * F6_E2M3, F6_E3M2). copied may be NULL. Other errors: CORRUPT, naming file and tensor, for what is no safetensors file or was cut off, a
 * tensor in two files, an index that names a tensor that its file has not, or a file that is not beside it; INVALID_ARGUMENT for a folder without
 * such files, without some of a series, or with several indexes, and for more tensors or bytes of metadata than a checkpoint can have
 * (docs/formats/checkpoint.md, Limits); BAD_STATE, naming host, process and job, if a job saves in the directory, which takes up to a minute to
 * find out of one on another host. */
WEFT_EXPORT weft_result_t weft_checkpoint_import(const weft_checkpoint_import_config_t* config,
                                                 weft_checkpoint_copied_t* copied);

WEFT_END_DECLS

#endif /* WEFT_CHECKPOINT_FILES_H_ */
