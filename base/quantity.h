// Numbers with a suffix as people write them on command lines and in the environment: "64M", "1.5KiB", "40GB", "7B".
//
//   double bytes = 0;
//   if (!ParseQuantity("1.5GB", kByteSuffixes, &bytes)) ...   // 1.5e9
//
// Header-only, and it needs the standard library only: programs that see no more than include/weft take sizes as well,
// and should refuse the same ones.
//
// Thread-safety: pure functions.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace weft {

struct Suffix {
  std::string_view text;
  int64_t factor;
};

// K, M, G, T are powers of 1024; an i, a B or both may follow.
inline constexpr Suffix kBinarySuffixes[] = {
    {"B", 1},          {"K", 1 << 10},    {"KB", 1 << 10},  {"KI", 1 << 10},  {"KIB", 1 << 10},
    {"M", 1 << 20},    {"MB", 1 << 20},   {"MI", 1 << 20},  {"MIB", 1 << 20}, {"G", 1 << 30},
    {"GB", 1 << 30},   {"GI", 1 << 30},   {"GIB", 1 << 30}, {"T", 1LL << 40}, {"TB", 1LL << 40},
    {"TI", 1LL << 40}, {"TIB", 1LL << 40}};

// Where both GB and GiB have their meaning. G alone would have two.
inline constexpr Suffix kByteSuffixes[] = {
    {"B", 1},          {"kB", 1'000},         {"KB", 1'000},
    {"MB", 1'000'000}, {"GB", 1'000'000'000}, {"TB", 1'000'000'000'000},
    {"kiB", 1 << 10},  {"KiB", 1 << 10},      {"MiB", 1 << 20},
    {"GiB", 1 << 30},  {"TiB", 1LL << 40}};

// Reads a number as std::from_chars does, and at most one of `suffixes` right behind it. False if there is anything else,
// or if it comes to more than a Number holds; then *value stays as it is. Whole numbers have no fraction and are exact.
template <typename Number>
bool ParseQuantity(std::string_view text, std::span<const Suffix> suffixes, Number* value) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;
  Number factor = rest == end ? 1 : 0;
  for (const Suffix& suffix : suffixes) {
    if (std::string_view(rest, end) == suffix.text) factor = static_cast<Number>(suffix.factor);
  }
  if (factor == 0) return false;
  if constexpr (std::is_integral_v<Number>) {
    const Number most = std::numeric_limits<Number>::max() / factor;
    if (number > most || number < -most) return false;
  } else if (!std::isfinite(number * factor)) {
    return false;
  }
  *value = number * factor;
  return true;
}

// Bytes with kBinarySuffixes, letters in any case: "4096", "64M", "1g", "16KiB". False if it is none, or below zero.
template <typename Number>
bool ParseBytes(std::string_view text, Number* bytes) {
  std::string upper(text);
  for (char& c : upper)
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  Number parsed{};
  if (!ParseQuantity(upper, kBinarySuffixes, &parsed) || parsed < 0) return false;
  *bytes = parsed;
  return true;
}

}  // namespace weft
