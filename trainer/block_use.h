// One call of a block (block.h), as its parts take it.
//
// Thread-safety: values.
#ifndef WEFT_TRAINER_BLOCK_USE_H_
#define WEFT_TRAINER_BLOCK_USE_H_

#include <cstddef>

#include "trainer/activations.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

template <typename T>
struct BlockUse {
  UnitParams<T>& params;
  Activations<T>& all;
  const BlockActivations<T>& kept;  // of this block
  size_t layer, batch, rows;

  const T* in() const { return all.residual(layer); }

  T* out() const { return all.residual(layer + 1); }
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_BLOCK_USE_H_
