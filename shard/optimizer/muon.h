// Muon: momentum, then an update of orthonormal rows or columns, for whole matrices (K. Jordan et al.: Muon: An optimizer for hidden
// layers in neural networks, 2024, https://kellerjordan.github.io/posts/muon).
//
//   UpdateMuon(isa, team, product, step, rows, cols, arrays, scratch);     // scratch: MuonScratchFloats(rows, cols)
//
// With g = gradient x gradient_factor:
//   m = mu m + (1 - mu) g;  u = m, or (1 - mu) g + mu m with nesterov     // as torch.optim.Muon keeps m
//   X = u / max(|u|, 1e-7), transposed if it has more rows than columns; five times
//     A = X X^T;  X = a X + (b A + c A A) X        a, b, c = 3.4445, -4.7750, 2.0315
//   w = w (1 - lr wd) - lr sqrt(max(1, rows / cols)) X, transposed back
//
// The iteration is in float32. The built-in product adds in one order, whatever the threads, so with it the bits are the
// same on every rank, preset and instruction set; a product of the caller's has the bits that it has.
//
// Thread-safety: one thread at a time per scratch, which the team's threads help.
#pragma once

#include <cstddef>

#include "weft/shard_step.h"

#include "comm/kernels/isa.h"
#include "shard/optimizer/optimizer_arguments.h"
#include "shard/optimizer/optimizer_step.h"
#include "shard/optimizer/thread_team.h"

namespace weft {

// What multiplies matrices; `product` is nullptr for the built-in one.
struct MatrixProduct {
  weft_matmul_t product = nullptr;
  void* user = nullptr;
};

struct Matrix {
  size_t rows = 0;
  size_t cols = 0;

  size_t count() const { return rows * cols; }
};

// Floats that an update of a matrix of this shape works in.
size_t MuonScratchFloats(const Matrix& shape);

// `arrays` are the whole matrix, by rows; the second moment is not used.
void UpdateMuon(Isa isa, ThreadTeam& team, const MatrixProduct& product, const MuonOptions& options,
                double gradient_factor, const Matrix& shape, const OptimizerArrays& arrays,
                float* scratch);

// c [m, n] = a [m, k] b [k, n], all by rows; each element is added in the order of k, in float32.
void MultiplyPlainly(ThreadTeam& team, const float* a, const float* b, float* c, size_t m, size_t n,
                     size_t k);

}  // namespace weft
