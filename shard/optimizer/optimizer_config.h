// What the optimizer of a context is: which formula with which numbers, its loss scale, its threads.
//
//   const OptimizerConfig config = {.kind = WEFT_OPTIMIZER_SGD, .sgd = {.momentum = 0.9}, .threads = 4};
//   const std::string text = OptimizerText(config);       // ranks compare it in finalize
//
// Thread-safety: a value.
#pragma once

#include <string>

#include "weft/shard_step.h"

#include "shard/optimizer/loss_scale.h"
#include "shard/optimizer/muon.h"
#include "shard/optimizer/optimizer_step.h"

namespace weft {

struct OptimizerConfig {
  weft_optimizer_kind_t kind = WEFT_OPTIMIZER_ADAMW;
  AdamWOptions adamw;  // the options of `kind` count
  SgdOptions sgd;
  LionOptions lion;
  LambOptions lamb;
  LarsOptions lars;
  bool dynamic_scale = false;
  double static_scale = 1;
  LossScaleOptions scale;
  weft_nonfinite_t nonfinite = WEFT_NONFINITE_WARN;
  int64_t nonfinite_steps = 1;  // in a row, of WEFT_NONFINITE_FAIL
  MuonOptions muon;
  MatrixProduct product;  // MUON's
  int threads = 1;  // of this rank, the one that calls included; the numbers do not depend on it
};

// All that decides the numbers and when an update fails, in one line; any two doubles have different texts. Learning rates are given
// with every update and are not in it, nor is what only decides the speed.
std::string OptimizerText(const OptimizerConfig& config);

}  // namespace weft
