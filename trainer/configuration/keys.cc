#include "trainer/configuration/keys.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using Kind = ConfigValue::Kind;
using Role = ConfigKey::Role;

double NumberOf(const ConfigValue& value) {
  // from_chars takes no sign of its own.
  const char* begin = value.text.data();
  const char* const end = begin + value.text.size();
  if (begin != end && *begin == '+') ++begin;
  double number = 0;
  const auto [rest, error] = std::from_chars(begin, end, number);
  return error == std::errc() && rest == end ? number : NAN;
}

bool IsWhole(const ConfigValue& value) {
  if (value.kind != Kind::kNumber) return false;
  const double number = NumberOf(value);
  return std::floor(number) == number && std::abs(number) < 1e15;
}

bool Fits(Takes takes, const ConfigValue& value) {
  switch (takes) {
    case Takes::kBool:
      return value.kind == Kind::kBool;
    case Takes::kWhole:
      return IsWhole(value);
    case Takes::kNumber:
      return value.kind == Kind::kNumber && std::isfinite(NumberOf(value));
    case Takes::kText:
      return value.kind == Kind::kText;
    case Takes::kNumbers:
      return value.kind == Kind::kList &&
             std::all_of(value.items.begin(), value.items.end(),
                         [](const ConfigValue& item) { return Fits(Takes::kNumber, item); });
    default:
      return true;
  }
}

[[noreturn]] void Refuse(const ConfigKey& key, const ConfigValue& value,
                         const ConfigDocument& document) {
  const bool quoted = value.kind == Kind::kText && Fits(key.takes, ParseConfigValue(value.text)) &&
                      !value.text.empty();
  throw BadInput(fmt::format("{}: {} is {}, and takes {}; {}", document.file, key.name,
                             value.Shown(), NameOf(key.takes),
                             quoted ? "write it without quotes" : "give it one"));
}

}  // namespace

const char* NameOf(Takes takes) {
  switch (takes) {
    case Takes::kBool:
      return "true or false";
    case Takes::kWhole:
      return "a whole number";
    case Takes::kNumber:
      return "a number";
    case Takes::kText:
      return "text";
    case Takes::kNumbers:
      return "a list of numbers";
    default:
      return "anything";
  }
}

std::string OptionWord(std::string_view option, std::string_view value) {
  return fmt::format("--{}={}", option, value);
}

uint64_t WholeOf(const char* key, const ConfigValue& value, const ConfigDocument& document) {
  if (!IsWhole(value) || NumberOf(value) < 0) {
    throw BadInput(fmt::format("{}: {} is {}, and takes a whole number of 0 or more", document.file,
                               key, value.Shown()));
  }
  return uint64_t(NumberOf(value));
}

KeyEffect ByWord(const char* key, const ConfigValue& value, const ConfigDocument& document,
                 std::span<const WordEffect> words) {
  std::vector<std::string_view> known;
  for (const WordEffect& one : words) {
    if (value.text == one.word) return one.effect;
    known.emplace_back(one.word);
  }
  throw BadInput(fmt::format("{}: {} {} is unknown; use {}", document.file, key, value.Shown(),
                             fmt::join(known, ", ")));
}

const ConfigKey* FindConfigKey(std::string_view name) {
  for (const auto& table : {DeepSpeedKeys(), DeepSpeedZeroKeys(), AccelerateKeys()}) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [name](const ConfigKey& key) { return key.name == name; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

KeyEffect EffectOf(const ConfigKey& key, const ConfigValue& value, const ConfigDocument& document) {
  if (value.IsAuto()) return {{}, "the program chooses", true};
  if (!Fits(key.takes, value)) Refuse(key, value, document);
  switch (key.role) {
    case Role::kOption:
      return {{OptionWord(key.detail, key.takes == Takes::kWhole
                                          ? fmt::format("{}", WholeOf(key.name, value, document))
                                          : value.text)},
              "",
              true};
    case Role::kAlways:
      if (value.text == key.detail) return {{}, "as always here", true};
      return {{}, key.meaning, false};
    case Role::kNothing:
      return {{}, key.meaning, false};
    default:
      return key.read(value, document);
  }
}

}  // namespace weft::trainer
