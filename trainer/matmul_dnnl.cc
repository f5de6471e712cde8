#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "trainer/aligned_vector.h"
#include "trainer/matmul.h"
#include "trainer/ops.h"

namespace weft::trainer {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

// c[m, n] (+)= a[m, k] b[k, n] (+ bias[n]) (+ addend[m, n]); `a_transposed` means that a is stored
// [k, m]. a_ld, b_ld and c_ld: numbers between stored rows.
struct Product {
  size_t m = 0, k = 0, n = 0;
  size_t a_ld = 0, b_ld = 0, c_ld = 0;
  bool a_transposed = false, b_transposed = false;
  bool bias = false, addend = false;
  bool accumulate = false;
  NumberType out = NumberType::kFloat32;

  size_t a_rows() const { return a_transposed ? k : m; }

  size_t b_rows() const { return b_transposed ? n : k; }

  auto operator<=>(const Product&) const = default;  // NOLINT(modernize-use-nullptr): it is not one
};

memory::desc DenseFloats(const Product& p) {
  return {{memory::dim(p.m), memory::dim(p.n)}, Type::f32, Tag::ab};
}

dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, const Product& p, Type inputs) {
  const auto dim = [](size_t n) {
    return static_cast<memory::dim>(n);
  };
  const auto matrix = [&](size_t rows, size_t columns, size_t ld, bool transposed) {
    return memory::desc({dim(rows), dim(columns)}, inputs,
                        transposed ? memory::dims{1, dim(ld)} : memory::dims{dim(ld), 1});
  };
  const memory::desc a = matrix(p.m, p.k, p.a_ld, p.a_transposed);
  const memory::desc b = matrix(p.k, p.n, p.b_ld, p.b_transposed);
  const Type out = p.out == NumberType::kBf16 ? Type::bf16 : Type::f32;
  const memory::desc c({dim(p.m), dim(p.n)}, out, memory::dims{dim(p.c_ld), 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops after;
  if (p.accumulate) after.append_sum(1.0f);
  if (p.addend) {
    after.append_binary(dnnl::algorithm::binary_add, DenseFloats(p));
  }
  attributes.set_post_ops(after);
  if (!p.bias) return {{a, b, c}, attributes, engine};
  const memory::desc bias({1, dim(p.n)}, Type::f32, Tag::ab);
  return {{a, b, bias, c}, attributes, engine};
}

class DnnlMatmul : public Matmul<float> {
 public:
  explicit DnnlMatmul(Precision precision)
      : precision_(precision), inputs_(precision == Precision::kBf16 ? Type::bf16 : Type::f32) {}

  NumberType input_type() const override { return InputTypeOf(precision_); }

  void Forward(Numbers x, Numbers w, Addends<float> addends, MutableNumbers y, MatmulShape s,
               bool w_transposed) override {
    Run({.m = s.m,
         .k = s.k,
         .n = s.n,
         .a_ld = x.StrideOf(s.k),
         .b_ld = w_transposed ? s.k : s.n,
         .c_ld = y.StrideOf(s.n),
         .b_transposed = w_transposed,
         .bias = addends.bias != nullptr,
         .addend = addends.matrix != nullptr,
         .out = y.type},
        x, w, addends, y.data);
  }

  void BackwardInput(Numbers dy, Numbers w, MutableNumbers dx, MatmulShape s, bool w_transposed,
                     bool adds) override {
    Run({.m = s.m,
         .k = s.n,
         .n = s.k,
         .a_ld = dy.StrideOf(s.n),
         .b_ld = w_transposed ? s.k : s.n,
         .c_ld = dx.StrideOf(s.k),
         .b_transposed = !w_transposed,
         .accumulate = adds,
         .out = dx.type},
        dy, w, {}, dx.data);
  }

  void BackwardWeight(Numbers x, Numbers dy, WeightGradient<float> dw, MatmulShape s,
                      bool w_transposed) override {
    Product p = {.m = s.k, .k = s.m, .n = s.n, .a_ld = x.StrideOf(s.k), .b_ld = dy.StrideOf(s.n)};
    p.a_transposed = true;
    p.accumulate = !dw.unset;
    if (w_transposed) {
      std::swap(p.m, p.n);
      std::swap(p.a_ld, p.b_ld);
      std::swap(x, dy);
    }
    p.c_ld = p.n;
    Run(p, x, dy, {}, dw.data);
  }

 private:
  // A copy of an operand in the type that is multiplied.
  struct Converted {
    AlignedVector<uint16_t> half;
    AlignedVector<float> whole;
  };

  struct Entry {
    dnnl::matmul primitive;
    memory a, b, c, bias, addend, scratchpad;  // the last is that of all
    std::unordered_map<int, memory> arguments;
  };

  Entry& EntryFor(const Product& p) {
    const auto found = entries_.find(p);
    if (found != entries_.end()) return found->second;
    const auto desc = Describe(engine_, p, inputs_);
    Entry e;
    e.primitive = dnnl::matmul(desc);
    e.a = memory(desc.src_desc(), engine_, nullptr);
    e.b = memory(desc.weights_desc(), engine_, nullptr);
    e.c = memory(desc.dst_desc(), engine_, nullptr);
    e.scratchpad = memory(desc.scratchpad_desc(), engine_, nullptr);
    if (scratch_.size() < desc.scratchpad_desc().get_size())
      scratch_.resize(desc.scratchpad_desc().get_size());
    e.arguments = {{DNNL_ARG_SRC, e.a},
                   {DNNL_ARG_WEIGHTS, e.b},
                   {DNNL_ARG_DST, e.c},
                   {DNNL_ARG_SCRATCHPAD, e.scratchpad}};
    if (p.bias) {
      e.bias = memory(desc.bias_desc(), engine_, nullptr);
      e.arguments[DNNL_ARG_BIAS] = e.bias;
    }
    if (p.addend) {
      e.addend = memory(DenseFloats(p), engine_, nullptr);
      e.arguments[DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1] = e.addend;
    }
    return entries_.emplace(p, std::move(e)).first->second;
  }

  void Run(const Product& p, Numbers a, Numbers b, const Addends<float>& addends, void* c) {
    Entry& e = EntryFor(p);
    e.a.set_data_handle(Input(a, p.a_rows() * p.a_ld, a_converted_));
    e.b.set_data_handle(Input(b, p.b_rows() * p.b_ld, b_converted_));
    e.c.set_data_handle(c);
    e.scratchpad.set_data_handle(scratch_.data());
    if (p.bias) e.bias.set_data_handle(const_cast<float*>(addends.bias));
    if (p.addend) e.addend.set_data_handle(const_cast<float*>(addends.matrix));
    e.primitive.execute(stream_, e.arguments);
    stream_.wait();
  }

  // The numbers in the type that is multiplied, where they lie if they have it.
  void* Input(Numbers x, size_t count, Converted& converted) {
    if (precision_ == Precision::kFp16) return Fp16(x, count, converted);
    if (inputs_ == Type::f32) return const_cast<float*>(Whole(x, count, converted));
    if (x.type == NumberType::kBf16) return const_cast<void*>(x.data);
    const float* const whole = Whole(x, count, converted);
    if (converted.half.size() < count) converted.half.resize(count);
    GetOps<float>().to_bf16(whole, converted.half.data(), count);
    return converted.half.data();
  }

  // What has 16 bits stays as it is: only weights have.
  static float* Fp16(Numbers x, size_t count, Converted& converted) {
    if (x.type != NumberType::kFloat32) return const_cast<float*>(Whole(x, count, converted));
    const Ops<float>& ops = GetOps<float>();
    if (converted.half.size() < count) converted.half.resize(count);
    if (converted.whole.size() < count) converted.whole.resize(count);
    ops.to_fp16(static_cast<const float*>(x.data), converted.half.data(), count);
    ops.widen({converted.half.data(), NumberType::kFp16}, converted.whole.data(), count);
    return converted.whole.data();
  }

  static const float* Whole(Numbers x, size_t count, Converted& converted) {
    if (x.type == NumberType::kFloat32) return static_cast<const float*>(x.data);
    if (converted.whole.size() < count) converted.whole.resize(count);
    GetOps<float>().widen(x, converted.whole.data(), count);
    return converted.whole.data();
  }

  const Precision precision_;
  const Type inputs_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::map<Product, Entry> entries_;
  Converted a_converted_, b_converted_;
  AlignedVector<std::byte> scratch_;
};

}  // namespace

bool PrecisionSupported(Precision precision) {
  if (precision != Precision::kBf16) return true;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    Describe(engine, {.m = 16, .k = 16, .n = 16, .a_ld = 16, .b_ld = 16, .c_ld = 16, .bias = true},
             Type::bf16);
    return true;
  } catch (const dnnl::error&) {
    return false;
  }
}

template <>
std::unique_ptr<Matmul<float>> MakeMatmul<float>(Precision precision) {
  return std::make_unique<DnnlMatmul>(precision);
}

}  // namespace weft::trainer
