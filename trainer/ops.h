// The trainer's own numerical operations, as one table of functions per instruction set.
//
//   const Ops<float>& ops = GetOps<float>();
//   ops.layer_norm(x, gamma, beta, out, mean, rstd, rows, width);
//
// Every operation exists for float and double; double is what the finite-difference tests use.
// Matrices are row-major and dense. "+=" in a comment means that the operation adds to its output.
// Each function is deterministic: same input, same machine, same bits. Another instruction set may
// give other bits, because fused multiply-add rounds once where two instructions round twice.
//
// Thread-safety: all functions are pure apart from their outputs.
#ifndef WEFT_TRAINER_OPS_H_
#define WEFT_TRAINER_OPS_H_

#include <cstddef>
#include <cstdint>

#include "trainer/dropout.h"
#include "trainer/number_type.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

// Sizes of one attention call. qkv is [batch, seq, heads, 3, head_dim].
struct AttentionShape {
  size_t batch = 0;
  size_t seq = 0;
  size_t heads = 0;
  size_t head_dim = 0;
};

template <typename T>
struct Ops {
  // y[i] = exp(x[i]), about 1e-7 (1e-15) relative.
  void (*exp)(const T* x, T* y, size_t count);
  // out[b, t] = wte[tokens[b, t]] + wpe[t]; both tables have the same type.
  void (*embed)(const Token* tokens, Numbers wte, Numbers wpe, T* out, size_t batch, size_t seq,
                size_t width);
  // dwte += , dwpe +=
  void (*embed_backward)(const Token* tokens, const T* dout, T* dwte, T* dwpe, size_t batch,
                         size_t seq, size_t width);
  // Saves mean and 1/sigma of each row for the way back.
  void (*layer_norm)(const T* x, const T* gamma, const T* beta, T* out, T* mean, T* rstd,
                     size_t rows, size_t width);
  // dx += , dgamma += , dbeta +=
  void (*layer_norm_backward)(const T* dout, const T* x, const T* gamma, const T* mean,
                              const T* rstd, T* dx, T* dgamma, T* dbeta, size_t rows, size_t width);
  // Causal attention; out is [batch, seq, heads, head_dim], lse [batch, heads, seq] keeps the
  // logarithm of each row's softmax sum, all that the way back needs. The mask is that of the probabilities,
  // [batch, heads, seq] rows of seq columns.
  void (*attention)(const T* qkv, T* out, T* lse, const AttentionShape& shape,
                    const DropoutMask& mask);
  // dqkv = (overwritten)
  void (*attention_backward)(const T* qkv, const T* out, const T* lse, const T* dout, T* dqkv,
                             const AttentionShape& shape, const DropoutMask& mask);
  // GELU in its tanh form.
  void (*gelu)(const T* x, T* out, size_t count);
  // dx = dout * gelu'(x); dx may be dout.
  void (*gelu_backward)(const T* x, const T* dout, T* dx, size_t count);
  // out = a + b; out may be a.
  void (*add)(const T* a, const T* b, T* out, size_t count);
  // out = x where the mask keeps it, scaled, else 0; out may be x.
  void (*dropout)(const T* x, T* out, size_t rows, size_t columns, const DropoutMask& mask);
  // sums[j] += sum over i of x[i, j]
  void (*column_sum)(const T* x, T* sums, size_t rows, size_t columns);
  // Returns the sum over rows of -log softmax(logits)[target]. With grad_scale != 0 the logits are
  // replaced by grad_scale * (softmax - onehot). Rows begin `stride` numbers apart; what stands from
  // `columns` on takes no part, and becomes 0 in a gradient.
  double (*cross_entropy)(T* logits, const Token* targets, double grad_scale, size_t rows,
                          size_t columns, size_t stride);
  // c[m, n] (+)= a[m, k] b[k, n], where a[i, p] stands at a[i * a_row + p * a_column].
  void (*small_matmul)(size_t m, size_t n, size_t k, const T* a, size_t a_row, size_t a_column,
                       const T* b, size_t ldb, T* c, size_t ldc, bool accumulate);
  // Rounds to 16 bits, nearest even; NaN stays NaN, and what is too large becomes infinite.
  void (*to_bf16)(const T* x, uint16_t* y, size_t count);
  void (*to_fp16)(const T* x, uint16_t* y, size_t count);
  // From 16 bits or T's own type; exact.
  void (*widen)(Numbers x, T* y, size_t count);
};

enum class Isa { kScalar, kAvx2, kAvx512 };

// Whether this machine can run the table of `isa`.
bool IsaSupported(Isa isa);
// The table of one instruction set; the machine must support it.
template <typename T, Isa kIsa>
const Ops<T>& OpsOf();
template <typename T>
const Ops<T>& OpsFor(Isa isa);
// The fastest table this machine can run.
template <typename T>
const Ops<T>& GetOps();

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPS_H_
