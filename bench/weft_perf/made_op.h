// The library's number of a reduction; for mulsum, which has none of its own, one made here and
// destroyed with the object.
//
//   MadeOp op;
//   if (Outcome made = op.Make(*reduction, *type, rank); !made.ok()) return made;
//   weft_all_reduce(in, out, count, type->dtype, op.number(), group, nullptr, nullptr);
//
// Thread-safety: used by one thread.
#ifndef WEFT_BENCH_WEFT_PERF_MADE_OP_H_
#define WEFT_BENCH_WEFT_PERF_MADE_OP_H_

#include "weft/types.h"

#include "bench/weft_perf/element.h"
#include "bench/weft_perf/outcome.h"

namespace weft::perf {

class MadeOp {
 public:
  MadeOp() = default;
  ~MadeOp();
  MadeOp(const MadeOp&) = delete;
  MadeOp& operator=(const MadeOp&) = delete;

  // At most once. `rank` decides the factor.
  Outcome Make(const Reduction& reduction, const ElementType& type, int rank);

  // WEFT_SUM before Make.
  weft_op_t number() const { return number_; }

 private:
  weft_op_t number_ = WEFT_SUM;
  bool made_ = false;
};

}  // namespace weft::perf

#endif  // WEFT_BENCH_WEFT_PERF_MADE_OP_H_
