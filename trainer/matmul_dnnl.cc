#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "trainer/matmul.h"
#include "trainer/ops.h"

namespace weft::trainer {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;
using Type = memory::data_type;

// c[m, n] (+)= a[m, k] b[k, n] (+ bias[n]); `a_transposed` means that a is stored [k, m].
struct Product {
  size_t m = 0, k = 0, n = 0;
  bool a_transposed = false, b_transposed = false;
  bool bias = false;
  bool accumulate = false;

  auto operator<=>(const Product&) const = default;
};

// Elements between the stored rows of a transposed left operand. It is read across them, and rows that begin a multiple of 2 KiB
// apart fall into few sets of the cache. So it is copied to rows that are a cache line longer: the gradient of a weight of 1024 x 256
// over 1024 rows takes 8.3 ms instead of 17.6, copy included (fp32, AMD EPYC), one of 512 x 128 over 512 rows 1.0 instead of 1.3.
size_t StrideOf(const Product& p) {
  constexpr size_t kAliased = 512;
  constexpr size_t kLine = 16;
  return p.a_transposed && p.m % kAliased == 0 ? p.m + kLine : p.m;
}

dnnl::matmul::primitive_desc Describe(const dnnl::engine& engine, const Product& p, Type inputs) {
  const auto dim = [](size_t n) {
    return static_cast<memory::dim>(n);
  };
  const memory::dims rows =
      p.a_transposed ? memory::dims{1, dim(StrideOf(p))} : memory::dims{dim(p.k), 1};
  const memory::desc a({dim(p.m), dim(p.k)}, inputs, rows);
  const memory::desc b({dim(p.k), dim(p.n)}, inputs, p.b_transposed ? Tag::ba : Tag::ab);
  const memory::desc c({dim(p.m), dim(p.n)}, Type::f32, Tag::ab);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (p.accumulate) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  if (!p.bias) return {{a, b, c}, attributes, engine};
  const memory::desc bias({1, dim(p.n)}, Type::f32, Tag::ab);
  return {{a, b, bias, c}, attributes, engine};
}

class DnnlMatmul : public Matmul<float> {
 public:
  explicit DnnlMatmul(Precision precision)
      : precision_(precision), inputs_(precision == Precision::kBf16 ? Type::bf16 : Type::f32) {}

  void Forward(const float* x, Numbers w, const float* bias, float* y, MatmulShape s,
               bool w_transposed) override {
    Run({s.m, s.k, s.n, false, w_transposed, bias != nullptr, false}, x, w, bias, y);
  }

  void BackwardInput(const float* dy, Numbers w, float* dx, MatmulShape s,
                     bool w_transposed) override {
    Run({s.m, s.n, s.k, false, !w_transposed, false, false}, dy, w, nullptr, dx);
  }

  void BackwardWeight(const float* x, const float* dy, float* dw, MatmulShape s,
                      bool w_transposed) override {
    if (w_transposed) {
      Run({s.n, s.m, s.k, true, false, false, true}, dy, NumbersOf(x), nullptr, dw);
    } else {
      Run({s.k, s.m, s.n, true, false, false, true}, x, NumbersOf(dy), nullptr, dw);
    }
  }

 private:
  // A copy of an operand in the type that is multiplied.
  struct Converted {
    std::vector<uint16_t> half;
    std::vector<float> whole;
  };

  struct Entry {
    dnnl::matmul primitive;
    memory a, b, c, bias, scratchpad;
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
    e.scratchpad = memory(desc.scratchpad_desc(), engine_);
    e.arguments = {{DNNL_ARG_SRC, e.a},
                   {DNNL_ARG_WEIGHTS, e.b},
                   {DNNL_ARG_DST, e.c},
                   {DNNL_ARG_SCRATCHPAD, e.scratchpad}};
    if (p.bias) {
      e.bias = memory(desc.bias_desc(), engine_, nullptr);
      e.arguments[DNNL_ARG_BIAS] = e.bias;
    }
    return entries_.emplace(p, std::move(e)).first->second;
  }

  void Run(const Product& p, const float* a, Numbers b, const float* bias, float* c) {
    Entry& e = EntryFor(p);
    const size_t stride = StrideOf(p);
    const float* const left = stride == p.m ? a : Spread(a, p, stride);
    e.a.set_data_handle(Input(NumbersOf(left), stride * p.k, a_converted_));
    e.b.set_data_handle(Input(b, p.k * p.n, b_converted_));
    e.c.set_data_handle(c);
    if (p.bias) e.bias.set_data_handle(const_cast<float*>(bias));
    e.primitive.execute(stream_, e.arguments);
    stream_.wait();
  }

  const float* Spread(const float* a, const Product& p, size_t stride) {
    if (spread_.size() < stride * p.k) spread_.resize(stride * p.k);
    for (size_t i = 0; i < p.k; i++)
      std::copy_n(a + i * p.m, p.m, spread_.data() + i * stride);
    return spread_.data();
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
  std::vector<float> spread_;
};

}  // namespace

bool PrecisionSupported(Precision precision) {
  if (precision != Precision::kBf16) return true;
  try {
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    Describe(engine, {16, 16, 16, false, false, true, false}, Type::bf16);
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
