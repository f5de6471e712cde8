/* Collectives over lists of buffers, as one operation.
 *
 *   weft_iov_t parts[] = {{w, w, 4096}, {b, b, 64}};   // two gradients, in place
 *   weft_all_reduce_iov(parts, 2, WEFT_FLOAT32, WEFT_SUM, group, NULL, NULL);
 *
 * The result is that of one call for each part, but ranks meet once and small parts share the way:
 * what a framework would otherwise copy into a flat buffer first. All rules of collective.h hold for
 * each part. The list is read during the call (also when work != NULL). The number of parts and their
 * counts must be the same on all ranks (WEFT_MISMATCH); at most WEFT_IOV_PARTS_MAX.
 */
#ifndef WEFT_IOV_H_
#define WEFT_IOV_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* How many parts a list may have. */
#define WEFT_IOV_PARTS_MAX 65536

/* One part. Sizes of in and out, and what in place means, as for the plain call of that count. */
typedef struct weft_iov {
  const void* in;
  void* out;
  size_t count; /* elements */
} weft_iov_t;

/* weft_all_reduce of every part. */
WEFT_EXPORT weft_result_t weft_all_reduce_iov(const weft_iov_t* parts, size_t part_count,
                                              weft_dtype_t dtype, weft_op_t op, weft_group_t group,
                                              const weft_call_t* call, weft_work_t* work);

/* weft_all_gather of every part: out of part i is [size * count of part i]. */
WEFT_EXPORT weft_result_t weft_all_gather_iov(const weft_iov_t* parts, size_t part_count,
                                              weft_dtype_t dtype, weft_group_t group,
                                              const weft_call_t* call, weft_work_t* work);

/* weft_reduce_scatter of every part: in of part i is [size * count of part i]. */
WEFT_EXPORT weft_result_t weft_reduce_scatter_iov(const weft_iov_t* parts, size_t part_count,
                                                  weft_dtype_t dtype, weft_op_t op,
                                                  weft_group_t group, const weft_call_t* call,
                                                  weft_work_t* work);

WEFT_END_DECLS

#endif /* WEFT_IOV_H_ */
