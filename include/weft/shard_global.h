/* Which elements of which tensor of the whole model a param is. A param is usually a whole tensor, and nothing need be said. Where
 * ranks hold slices of one, as in tensor parallelism, each says where its slice lies, so that a checkpoint has the tensor under one
 * name, and ranks that slice it differently find their elements by intersecting intervals.
 *
 *   const int64_t slice[] = {1024, 768};                       rows 1024 to 2047 of a matrix of 3072 x 768
 *   const int64_t whole[] = {3072, 768};
 *   ... weft_shard_unit_add_param(unit, {"up.weight", slice, 2, ...}, &param);
 *   const weft_shard_global_t global = {sizeof global, "up.weight", whole, 2, 1024 * 768};
 *   weft_shard_param_global(param, &global);
 *
 * A slice is one interval of the elements in row-major order. So store a weight with the dimension that is cut as its first.
 *
 * Errors of all: INVALID_ARGUMENT (NULL, wrong struct_size, a value out of range), BAD_STATE; FORKED.
 *
 * Thread rule: as the calls that declare: one thread at a time.
 */
#ifndef WEFT_SHARD_GLOBAL_H_
#define WEFT_SHARD_GLOBAL_H_

#include "weft/shard.h"
#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Where a param lies in a global tensor: it is the elements [offset, offset + the param's count) of it, in row-major order. */
typedef struct weft_shard_global {
  size_t struct_size;
  const char* name;     /* of the global tensor, not empty; copied */
  const int64_t* shape; /* [ndim], of the whole tensor; copied */
  int ndim;             /* 0: a scalar */
  size_t offset;        /* elements of the global tensor before the param's first one */
} weft_shard_global_t;

/* Says which interval of which global tensor `param` is, before finalize; the last call counts. Without it a param is the whole of a
 * tensor of its own name and shape. Of a tied param it speaks of the param that it is. All ranks of a context say the same:
 * finalize compares it with the rest of the declaration (MISMATCH). Several params of a context may be intervals of one global
 * tensor. They must agree on its shape and have one type, and must not overlap: else weft_shard_context_plan and finalize are
 * INVALID_ARGUMENT, and name both. Intervals need not cover the tensor, as other contexts may have the rest. What is computed,
 * gathered and updated does not depend on it. Not collective. Errors: INVALID_ARGUMENT, also if the param ends behind the
 * tensor; BAD_STATE after finalize. After an error the param is what it was. */
WEFT_EXPORT weft_result_t weft_shard_param_global(weft_shard_param_t param,
                                                  const weft_shard_global_t* global);

WEFT_END_DECLS

#endif /* WEFT_SHARD_GLOBAL_H_ */
