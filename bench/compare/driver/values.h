/* Inputs whose results are exact in any order of additions, and the comparison with what must come out.
 *
 * Element i of rank r is an integer from 0 to 12: sums of up to 19 ranks are exact in bfloat16.
 *
 * Thread rule: no state.
 */
#ifndef WEFT_BENCH_COMPARE_DRIVER_VALUES_H_
#define WEFT_BENCH_COMPARE_DRIVER_VALUES_H_

#include <stddef.h>

#include "bench/compare/driver/command.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes what rank `rank` gives into in, and what can never come out into out where that is another
 * place. */
void FillValues(const struct command* command, int rank, int size, void* in, void* out);

/* How many elements of out are not what the operation must leave there. */
size_t CountWrong(const struct command* command, int rank, int size, const void* out);

#ifdef __cplusplus
}
#endif

#endif /* WEFT_BENCH_COMPARE_DRIVER_VALUES_H_ */
