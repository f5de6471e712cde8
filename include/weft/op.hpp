// Reductions made at run time, as objects: scaled sums, and functions of your own.
//
//   const weft::Op half = weft::Op::PremulSum(0.5f);
//   group.AllReduce(x, x, n, half);
//   const weft::Op longest = weft::Op::Of<int32_t>("longest", [](int32_t a, int32_t b) { return a > b ? a : b; });
//   using Complex = std::complex<double>;   // an element of two float64
//   const weft::Op product = weft::Op::Of<double, Complex>("product", [](Complex a, Complex b) { return a * b; });
//
// Include weft/weft.hpp. Works under way keep what they need of a reduction, also the function. Thread rule: as in op.h; functions may run on several threads at once.
#ifndef WEFT_OP_HPP_
#define WEFT_OP_HPP_

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "weft/owners.hpp"
#include "weft/weft.h"

namespace weft {
inline namespace interface_0 {

// Owns a reduction; goes wherever a weft_op_t is asked for.
class Op {
 public:
  // out = left op right, for count values: see weft_user_op_t. It must not throw.
  using Function = std::function<void(const void* left, const void* right, void* out,
                                      std::size_t count, weft_dtype_t dtype)>;

  // Sum of factor x input, for the type that the factor has.
  template <typename T>
  static Op PremulSum(T factor) {
    return PremulSum(&factor, DtypeOf<T>());
  }

  // The same for any type; `factor` is one element of it, read now.
  static Op PremulSum(const void* factor, weft_dtype_t dtype) {
    return Op(internal::Returned<weft_op_t>(weft_op_create_premul_sum, factor, dtype));
  }

  // A reduction by your function; every rank gives its own one the same name. `element_count` values of the
  // operation's type are one element.
  static Op FromFunction(const std::string& name, Function function,
                         std::size_t element_count = 1) {
    auto owned = std::make_unique<Function>(std::move(function));
    const weft_user_op_config_t config = {sizeof config, &Call,    owned.get(),
                                          name.c_str(),  &Release, element_count};
    Op op(internal::Returned<weft_op_t>(weft_op_create_user, &config));
    (void)owned.release();  // Release deletes it
    return op;
  }

  // The same one element at a time: combine(left, right) returns an Element. That is a T, or what is as large as several
  // of them and may be copied by its bytes: std::complex<T>, std::array<T, 4>, a struct. Operations count values of T.
  template <typename T, typename Element = T, typename Combine>
  static Op Of(const std::string& name, Combine combine) {
    (void)DtypeOf<T>();
    static_assert(sizeof(Element) % sizeof(T) == 0, "an Element is a whole number of values");
    constexpr std::size_t kValues = sizeof(Element) / sizeof(T);
    const auto of_all = [combine](const void* left, const void* right, void* out, std::size_t count,
                                  weft_dtype_t) {
      for (std::size_t i = 0; i < count / kValues; ++i) {
        Element a, b;
        std::memcpy(&a, static_cast<const char*>(left) + i * sizeof(a), sizeof(a));
        std::memcpy(&b, static_cast<const char*>(right) + i * sizeof(b), sizeof(b));
        const Element combined = combine(a, b);
        std::memcpy(static_cast<char*>(out) + i * sizeof(combined), &combined, sizeof(combined));
      }
    };
    return FromFunction(name, of_all, kValues);
  }

  Op(Op&& other) noexcept = default;
  Op& operator=(Op&& other) noexcept = default;

  // The number for C functions. Implicit, so that an Op is passed like WEFT_SUM.
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator weft_op_t() const noexcept { return handle_.get(); }

  weft_op_t get() const noexcept { return handle_.get(); }

 private:
  explicit Op(weft_op_t op) noexcept : handle_(op) {}

  static void Release(void* user) noexcept { delete static_cast<Function*>(user); }

  static void Call(const void* left, const void* right, void* out, std::size_t count,
                   weft_dtype_t dtype, void* user) noexcept {
    (*static_cast<const Function*>(user))(left, right, out, count, dtype);
  }

  // Zero, which is WEFT_SUM, counts as no handle.
  Handle<weft_op_t, weft_op_destroy> handle_;
};

}  // namespace interface_0
}  // namespace weft

#endif  // WEFT_OP_HPP_
