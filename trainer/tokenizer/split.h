// Cuts text into the pieces that byte pair encoding looks at one by one: merges never cross the end
// of a piece.
//
//   for (size_t at = 0, end; at < text.size(); at = end) {
//     end = PieceEnd(SplitPattern::kGpt2, text, at);
//     ... text.substr(at, end - at) ...
//   }
//
// Vocabularies are made for one pattern, and have other tokens with another one. Both patterns take
// every byte, so the pieces of any text, UTF-8 or not, are all of its bytes.
//
// Thread-safety: pure functions. Time: linear in the text.
#ifndef WEFT_TRAINER_TOKENIZER_SPLIT_H_
#define WEFT_TRAINER_TOKENIZER_SPLIT_H_

#include <cstddef>
#include <optional>
#include <string_view>

namespace weft::trainer {

enum class SplitPattern { kGpt2, kLlama3 };

// As files of vocabularies write it.
std::string_view RegexOf(SplitPattern pattern);

// The pattern whose regular expression this is, letter by letter.
std::optional<SplitPattern> PatternOf(std::string_view regex);

// The end of the piece that begins at `begin`, which is below text.size().
size_t PieceEnd(SplitPattern pattern, std::string_view text, size_t begin);

// The first place at or after `from` before which every piece ends, whatever text is before and
// behind: between a letter or number and what is neither. text.size() if there is none before.
size_t NextPieceBorder(std::string_view text, size_t from);

// How many bytes behind a place say whether it is a border: those of a character.
constexpr size_t kBorderLookahead = 4;

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_SPLIT_H_
