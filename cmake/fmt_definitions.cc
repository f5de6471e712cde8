// The definitions of fmt that do not depend on what is formatted, compiled once.
//
// Header only, fmt compiles them again in every source that includes it: 2 to 3 s each on the 2 cores this is built on.
// The packaged library would be one more that libweft.so needs at run time.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE

namespace detail {

template FMT_API auto dragonbox::to_decimal(float value) noexcept -> dragonbox::decimal_fp<float>;
template FMT_API auto dragonbox::to_decimal(double value) noexcept -> dragonbox::decimal_fp<double>;
template FMT_API auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template FMT_API auto decimal_point_impl(locale_ref) -> char;
template FMT_API void buffer<char>::append(const char*, const char*);
template FMT_API void vformat_to(buffer<char>&, string_view,
                                 basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);
template FMT_API locale_ref::locale_ref(const std::locale&);
template FMT_API auto locale_ref::get<std::locale>() const -> std::locale;

}  // namespace detail

FMT_END_NAMESPACE
