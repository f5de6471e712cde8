// A map by text in which a std::string_view is looked up without a copy.
//
// Abseil's own hash of strings takes its own string_view, which is not std's where Abseil was built
// as C++14 (Debian).
#ifndef WEFT_TRAINER_TOKENIZER_TEXT_MAP_H_
#define WEFT_TRAINER_TOKENIZER_TEXT_MAP_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <absl/container/flat_hash_map.h>
#include <absl/hash/hash.h>
#include <absl/strings/string_view.h>

namespace weft::trainer {

struct TextHash {
  using is_transparent = void;

  size_t operator()(std::string_view text) const {
    return absl::Hash<absl::string_view>()({text.data(), text.size()});
  }
};

// Text is a std::string, or a std::string_view of text that stays.
template <typename Text, typename Value>
using TextMap = absl::flat_hash_map<Text, Value, TextHash, std::equal_to<>>;

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_TEXT_MAP_H_
