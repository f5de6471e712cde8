/* Reductions made at run time: sums of scaled inputs, and your own functions.
 *
 *   float factor = 0.25f;
 *   weft_op_t scaled;
 *   weft_op_create_premul_sum(&factor, WEFT_FLOAT32, &scaled);
 *   weft_all_reduce(x, x, n, WEFT_FLOAT32, scaled, group, NULL, NULL);
 *   weft_op_destroy(scaled);
 *
 * A reduction made here belongs to the process, not to a group: it may be used with any group, and
 * every rank makes its own. Operations under way keep what they need of it.
 */
#ifndef WEFT_OP_H_
#define WEFT_OP_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* Sum of factor x input: each input is multiplied in the type in which sums are formed (float32;
 * float64 for float64; integers wrap) before it is added. `factor` is one element of `dtype`, read
 * now; ranks may have different factors. For reductions of `dtype` only (INVALID_ARGUMENT with
 * another). Errors: INVALID_ARGUMENT (NULL, unknown dtype, BOOL). Any thread. */
WEFT_EXPORT weft_result_t weft_op_create_premul_sum(const void* factor, weft_dtype_t dtype,
                                                    weft_op_t* op);

/* out[i] = left[i] op right[i] for `count` values of `dtype`. `left` holds the combination of
 * lower ranks and `right` that of the ranks that follow them, so the function must be associative but
 * need not be commutative. `out` is `left`, or overlaps neither; all three are aligned for `dtype`.
 * It is called with any part of the operation's values, so out[i] may depend on left[i] and right[i]
 * alone, unless element_count (below) says that several values belong together: then `count` is a
 * multiple of it, and the values are whole elements. May be called on any thread that waits or tests,
 * and on the progress thread; must not call weft or block. */
typedef void (*weft_user_op_t)(const void* left, const void* right, void* out, size_t count,
                               weft_dtype_t dtype, void* user);

/* How large an element of a user's reduction may be. */
#define WEFT_USER_ELEMENT_BYTES_MAX 8192

/* A reduction by a function. */
typedef struct weft_user_op_config {
  size_t struct_size;
  weft_user_op_t function;
  void* user;       /* handed to every call */
  const char* name; /* at most 63 bytes, copied; ranks are compared by it */
  /* Called once with `user` when the reduction has been destroyed and no operation uses it, nor a group that may repeat one:
   * at the latest when its groups have been destroyed. On any thread; must not call weft. NULL: `user` must stay valid as long. */
  void (*release_user)(void* user);
  /* Values of the operation's dtype that are one element, and always together: 2 for complex numbers or
   * a sum and a count, 4 for 2x2 matrices. Operations still count values; a count or displacement that this
   * does not divide is INVALID_ARGUMENT, and so is a dtype that makes an element larger than
   * WEFT_USER_ELEMENT_BYTES_MAX. Memory is aligned for the dtype, so for a struct take one as wide as
   * its widest member. 0: 1, each value is an element. */
  size_t element_count;
} weft_user_op_config_t;

/* A reduction by your function, along the same tree over ranks as sums. Every rank of an operation
 * must use one of the same name and element_count (a difference is WEFT_MISMATCH). Values are
 * kept in `dtype` between the calls. If the call fails, `user` is not released. Errors: INVALID_ARGUMENT. Any thread.
 *
 *   static void multiply(const void* left, const void* right, void* out, size_t count,
 *                        weft_dtype_t dtype, void* user) {
 *     const double complex *a = left, *b = right;
 *     for (size_t i = 0; i < count / 2; ++i) ((double complex*)out)[i] = a[i] * b[i];
 *   }
 *   weft_user_op_config_t config = {.struct_size = sizeof config, .function = multiply,
 *                                   .name = "complex product", .element_count = 2};
 *   weft_op_create_user(&config, &product);
 *   weft_all_reduce(z, z, 2 * n, WEFT_FLOAT64, product, group, NULL, NULL);  // n complex numbers */
WEFT_EXPORT weft_result_t weft_op_create_user(const weft_user_op_config_t* config, weft_op_t* op);

/* Forgets a reduction made here. Operations under way are not disturbed. INVALID_ARGUMENT for any
 * other number. Any thread. */
WEFT_EXPORT weft_result_t weft_op_destroy(weft_op_t op);

WEFT_END_DECLS

#endif /* WEFT_OP_H_ */
