/* Collectives with a count per rank.
 *
 * All rules of collective.h hold. Counts and displacements are arrays of one element per rank, in
 * elements of `dtype`, read during the call (also when work != NULL). Displacements say where a
 * rank's block begins in the buffer; NULL: packed, each block behind the previous one. Blocks of an out
 * buffer must not overlap (INVALID_ARGUMENT). A buffer that a rank neither sends nor receives may be NULL.
 *
 * The counts of all_gather_v and reduce_scatter_v must be the same on all ranks. For gather_v, scatter_v and
 * all_to_all_v, each rank passes its own counts, and the count that a rank sends must be the count that the
 * receiver expects. A difference is WEFT_MISMATCH on every rank; the message has both counts.
 */
#ifndef WEFT_VECTOR_H_
#define WEFT_VECTOR_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* out[displacements[r] + i] = in[i] of rank r for i < counts[r], on every rank. in: [counts[rank]].
 * Displacements may differ from rank to rank. In place: in == out + displacements[rank]
 * elements. */
WEFT_EXPORT weft_result_t weft_all_gather_v(const void* in, void* out, const size_t* counts,
                                            const size_t* displacements, weft_dtype_t dtype,
                                            weft_group_t group, const weft_call_t* call,
                                            weft_work_t* work);

/* out[i] = op over all ranks of in[displacements[rank] + i] for i < counts[rank]. out:
 * [counts[rank]]. Displacements must be the same on all ranks. In place: out == in +
 * displacements[rank] elements; the rest of in is not changed. */
WEFT_EXPORT weft_result_t weft_reduce_scatter_v(const void* in, void* out, const size_t* counts,
                                                const size_t* displacements, weft_dtype_t dtype,
                                                weft_op_t op, weft_group_t group,
                                                const weft_call_t* call, weft_work_t* work);

/* out[displacements[r] + i] = in[i] of rank r, on rank `root`. in: [count], of this rank. out, counts
 * and displacements are used on root only and may be NULL elsewhere. In place: on root in == out +
 * displacements[root] elements. */
WEFT_EXPORT weft_result_t weft_gather_v(const void* in, size_t count, void* out,
                                        const size_t* counts, const size_t* displacements,
                                        weft_dtype_t dtype, int root, weft_group_t group,
                                        const weft_call_t* call, weft_work_t* work);

/* out[i] = in[displacements[rank] + i] of rank `root`, on every rank. out: [count], of this rank. in,
 * counts and displacements are used on root only and may be NULL elsewhere. In place: on root out ==
 * in + displacements[root] elements. */
WEFT_EXPORT weft_result_t weft_scatter_v(const void* in, const size_t* counts,
                                         const size_t* displacements, void* out, size_t count,
                                         weft_dtype_t dtype, int root, weft_group_t group,
                                         const weft_call_t* call, weft_work_t* work);

/* out[out_displacements[r] + i] = in[in_displacements[rank] + i] of rank r for i < out_counts[r],
 * where in_displacements is rank r's. What r has in in_counts[rank] must be what this rank has in
 * out_counts[r]. In place: in == out, and counts and displacements are the same in both
 * directions. */
WEFT_EXPORT weft_result_t weft_all_to_all_v(const void* in, const size_t* in_counts,
                                            const size_t* in_displacements, void* out,
                                            const size_t* out_counts,
                                            const size_t* out_displacements, weft_dtype_t dtype,
                                            weft_group_t group, const weft_call_t* call,
                                            weft_work_t* work);

WEFT_END_DECLS

#endif /* WEFT_VECTOR_H_ */
