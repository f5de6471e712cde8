/* What weft does for a call, and why.
 *
 *   char text[2048];
 *   weft_explain_query_t query = {sizeof query, "all_reduce", 1 << 20, WEFT_FLOAT32, WEFT_SUM, 1};
 *   weft_explain(group, &query, text, sizeof text, NULL);
 */
#ifndef WEFT_EXPLAIN_H_
#define WEFT_EXPLAIN_H_

#include "weft/types.h"

WEFT_BEGIN_DECLS

/* The call to be explained. */
typedef struct weft_explain_query {
  size_t struct_size;
  const char* operation; /* "all_reduce", "all_to_all_v"...: a collective without its "weft_" */
  size_t count;          /* elements, as the call takes them; for _v forms the largest block */
  weft_dtype_t dtype;
  weft_op_t op;
  int symmetric; /* 1: all buffers are of weft_mem_alloc or weft_mem_register, on all ranks; 2: and the
                    outs of all ranks are one place of weft_mem_alloc_shared ("shared") */
  const char* algorithm; /* as in weft_call_t */
  uint32_t fields;       /* WEFT_CALL_STRICT_ALGORITHM or 0 */
} weft_explain_query_t;

/* Writes into `text` (at most `capacity` bytes, always ended by a NUL) lines of "name: value":
 * algorithm, the bytes it moves, what it waits for, why it was chosen, and the algorithms that were
 * not chosen, each with the reason and the time it would take; for private buffers also what it would cost to copy them
 * into symmetric memory first and to go on with the view (weft_mem_alloc_copy), and whether that is cheaper. The
 * names of algorithms are those of weft_call_t::algorithm. Of a group over several nodes: the schedule, its segments, what
 * this rank sends, that an algorithm which the call names is not taken, what links are taken to be (default or measured, see WEFT_PROBE) and, unless it has very many messages, the predicted time.
 * *length, if not NULL, gets the bytes that the whole text needs without the NUL. Never waits. Errors:
 * INVALID_ARGUMENT. Any thread. */
WEFT_EXPORT weft_result_t weft_explain(weft_group_t group, const weft_explain_query_t* query,
                                       char* text, size_t capacity, size_t* length);

WEFT_END_DECLS

#endif /* WEFT_EXPLAIN_H_ */
