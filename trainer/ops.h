// The trainer's own numerical operations, as one table of functions per instruction set.
//
//   const Ops<float>& ops = GetOps<float>();
//   ops.layer_norm(x, gamma, beta, out, mean, rstd, rows, width);
//
// Every operation exists for float and double; double is what the finite-difference tests use.
// Numbers have the type T, or, beside float, may be bfloat16 where the comment has no other rule;
// sums are T's all the same. Matrices are row-major, and dense unless a stride of Numbers says
// otherwise. "+=" in a comment means that the operation adds to its output. Each function is
// deterministic: same input, same machine, same bits, for any number of threads, of which those of
// OpenMP are used. Another instruction set may give other bits, because fused multiply-add rounds
// once where two instructions round twice.
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

// Sizes of one attention call. Heads of queries that follow each other share one of keys and
// values: qkv is [batch, seq, kv_heads, heads / kv_heads queries, key, value; head_dim]. Where each
// head has its own that is [batch, seq, heads, 3, head_dim].
struct AttentionShape {
  size_t batch = 0;
  size_t seq = 0;
  size_t heads = 0;
  size_t head_dim = 0;
  size_t kv_heads = 0;  // a divisor of heads; 0: as many
};

template <typename T>
struct Ops {
  // y[i] = exp(x[i]), about 1e-7 (1e-15) relative.
  void (*exp)(const T* x, T* y, size_t count);
  // out[b, t] = wte[tokens[b, t]] + wpe[t]; both tables have the same type. Without wpe.data, or
  // dwpe, there are no positions.
  void (*embed)(const Token* tokens, Numbers wte, Numbers wpe, T* out, size_t batch, size_t seq,
                size_t width);
  // dwte += , dwpe +=
  void (*embed_backward)(const Token* tokens, const T* dout, T* dwte, T* dwpe, size_t batch,
                         size_t seq, size_t width);
  // Saves mean and 1/sigma of each row for the way back.
  void (*layer_norm)(const T* x, const T* gamma, const T* beta, MutableNumbers out, T* mean,
                     T* rstd, size_t rows, size_t width);
  // dx += , dgamma += , dbeta +=
  void (*layer_norm_backward)(const T* dout, const T* x, const T* gamma, const T* mean,
                              const T* rstd, T* dx, T* dgamma, T* dbeta, size_t rows, size_t width);
  // out = x * rstd * gamma, where rstd = 1 / sqrt(mean(x^2) + epsilon) of each row is saved for the
  // way back.
  void (*rms_norm)(const T* x, const T* gamma, double epsilon, MutableNumbers out, T* rstd,
                   size_t rows, size_t width);
  // dx += , dgamma +=
  void (*rms_norm_backward)(const T* dout, const T* x, const T* gamma, const T* rstd, T* dx,
                            T* dgamma, size_t rows, size_t width);
  // Turns each query and key of qkv by its position: numbers i and head_dim / 2 + i are a point of
  // the plane, turned by the angle that table has at [position, i], as cosine and sine: [seq, 2,
  // head_dim / 2]. `back`: the other way round, which is the way back for gradients. head_dim is
  // even.
  void (*rotate)(MutableNumbers qkv, const T* table, const AttentionShape& shape, bool back);
  // Causal attention; out is [batch, seq, heads, head_dim], lse [batch, heads, seq] keeps the
  // logarithm of each row's softmax sum, all that the way back needs. qkv and out have one type: of
  // 16 bits, scores and probabilities are rounded to it before they are multiplied. The mask is
  // that of the probabilities, [batch, heads, seq] rows of seq columns.
  void (*attention)(Numbers qkv, MutableNumbers out, T* lse, const AttentionShape& shape,
                    const DropoutMask& mask);
  // dqkv = (overwritten); all have the type of qkv.
  void (*attention_backward)(Numbers qkv, Numbers out, const T* lse, Numbers dout,
                             MutableNumbers dqkv, const AttentionShape& shape,
                             const DropoutMask& mask);
  // GELU in its tanh form; x and out have one type, and out may be x.
  void (*gelu)(Numbers x, MutableNumbers out, size_t rows, size_t columns);
  // dx = dout * gelu'(x), all of one type; dx may be dout. sums[j] += the sum over i of dx[i, j],
  // before it is rounded.
  void (*gelu_backward)(Numbers x, Numbers dout, MutableNumbers dx, T* sums, size_t rows,
                        size_t columns);
  // out = gate * sigmoid(gate) * up; all have one type, and out may be one of the others.
  void (*swiglu)(Numbers gate, Numbers up, MutableNumbers out, size_t rows, size_t columns);
  // dgate = , dup = ; all have one type, and dup may be dout.
  void (*swiglu_backward)(Numbers gate, Numbers up, Numbers dout, MutableNumbers dgate,
                          MutableNumbers dup, size_t rows, size_t columns);
  // out = a + b; out may be a.
  void (*add)(const T* a, const T* b, T* out, size_t count);
  // out = x where the mask keeps it, scaled, else 0; out may be x.
  void (*dropout)(const T* x, T* out, size_t rows, size_t columns, const DropoutMask& mask);
  // sums[j] += sum over i of x[i, j]
  void (*column_sum)(Numbers x, T* sums, size_t rows, size_t columns);
  // out = x in the type of out; sums[j] += sum over i of x[i, j], unless sums is null.
  void (*narrow)(const T* x, MutableNumbers out, T* sums, size_t rows, size_t columns);
  // Returns the sum over rows of -log softmax(logits)[target]. With grad_scale != 0 the logits of a
  // row are replaced by grad_scale * (softmax - onehot) in the type `gradient`, from the row's
  // beginning on. Rows begin `stride` numbers of T apart; what stands from `columns` on takes no
  // part, and becomes 0 in a gradient.
  double (*cross_entropy)(T* logits, const Token* targets, double grad_scale, NumberType gradient,
                          size_t rows, size_t columns, size_t stride);
  // c[m, n] (+)= a[m, k] b[k, n], where a[i, p] stands at a[i * a_row + p * a_column].
  void (*small_matmul)(size_t m, size_t n, size_t k, const T* a, size_t a_row, size_t a_column,
                       const T* b, size_t ldb, T* c, size_t ldc, bool accumulate);
  // Rounds to 16 bits, nearest even; NaN stays NaN, and what is too large becomes infinite.
  void (*to_bf16)(const T* x, uint16_t* y, size_t count);
  void (*to_fp16)(const T* x, uint16_t* y, size_t count);
  // From 16 bits or T's own type; exact.
  void (*widen)(Numbers x, T* y, size_t count);
};

// kAvx512Bf16 has products of bfloat16 beside AVX-512.
enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Bf16 };

// Whether this machine can run the table of `isa`.
bool IsaSupported(Isa isa);
Isa FastestIsa();
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
