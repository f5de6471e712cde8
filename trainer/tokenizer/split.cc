// The patterns have alternatives, of which the first that matches is taken. What stands here tries
// them in the same order; comments name the alternative.
#include "trainer/tokenizer/split.h"

#include <array>
#include <utility>

#include "trainer/tokenizer/char_class.h"

namespace weft::trainer {
namespace {

constexpr std::array<std::pair<SplitPattern, std::string_view>, 2> kRegexes = {{
    {SplitPattern::kGpt2,
     R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {SplitPattern::kLlama3, R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                            R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
}};

constexpr std::string_view kLongS = "\u017f";  // folds to s

bool IsNewline(char c) {
  return c == '\r' || c == '\n';
}

// The end of the run of one kind that begins at `at`.
size_t RunEnd(std::string_view text, size_t at, CharClass kind) {
  while (at < text.size()) {
    const Char c = CharAt(text, at);
    if (c.kind != kind) break;
    at += c.bytes;
  }
  return at;
}

// The end of 's|'t|'re|'ve|'m|'ll|'d, or `begin`.
size_t ContractionEnd(std::string_view text, size_t begin, bool any_case) {
  if (text[begin] != '\'') return begin;
  const std::string_view rest = text.substr(begin + 1, 2);
  const auto is = [&](size_t i, char c) {
    return i < rest.size() && (rest[i] == c || (any_case && rest[i] == c - 'a' + 'A'));
  };
  if (is(0, 's') || is(0, 't') || is(0, 'm') || is(0, 'd')) return begin + 2;
  if (((is(0, 'r') || is(0, 'v')) && is(1, 'e')) || (is(0, 'l') && is(1, 'l'))) return begin + 3;
  return any_case && rest == kLongS ? begin + 1 + kLongS.size() : begin;
}

// \s+(?!\S)|\s+: before what is no space one space stays for the next piece, if that leaves one for
// this piece.
size_t SpacesEnd(std::string_view text, size_t begin) {
  size_t last = begin, end = begin;
  while (end < text.size()) {
    const Char c = CharAt(text, end);
    if (c.kind != CharClass::kSpace) break;
    last = end;
    end += c.bytes;
  }
  return end == text.size() || last == begin ? end : last;
}

size_t Gpt2PieceEnd(std::string_view text, size_t begin) {
  if (const size_t end = ContractionEnd(text, begin, false); end != begin) return end;
  // ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`
  const Char first = CharAt(text, begin);
  const size_t second = begin + first.bytes;
  if (first.kind != CharClass::kSpace) return RunEnd(text, second, first.kind);
  if (text[begin] == ' ' && second < text.size()) {
    const Char c = CharAt(text, second);
    if (c.kind != CharClass::kSpace) return RunEnd(text, second + c.bytes, c.kind);
  }
  return SpacesEnd(text, begin);
}

// `\p{N}{1,3}`
size_t ThreeNumbersEnd(std::string_view text, size_t begin) {
  size_t at = begin;
  for (int i = 0; i < 3 && at < text.size(); i++) {
    const Char c = CharAt(text, at);
    if (c.kind != CharClass::kNumber) break;
    at += c.bytes;
  }
  return at;
}

// `\s*[\r\n]+|\s+(?!\S)|\s+`
size_t LinesEnd(std::string_view text, size_t begin) {
  size_t behind_newline = begin;
  for (size_t at = begin; at < text.size();) {
    const Char c = CharAt(text, at);
    if (c.kind != CharClass::kSpace) break;
    if (IsNewline(text[at])) behind_newline = at + 1;
    at += c.bytes;
  }
  return behind_newline != begin ? behind_newline : SpacesEnd(text, begin);
}

size_t Llama3PieceEnd(std::string_view text, size_t begin) {
  if (const size_t end = ContractionEnd(text, begin, true); end != begin) return end;
  const Char first = CharAt(text, begin);
  if (first.kind == CharClass::kNumber) return ThreeNumbersEnd(text, begin);
  const size_t second = begin + first.bytes;
  if (first.kind == CharClass::kLetter) return RunEnd(text, second, CharClass::kLetter);
  CharClass next = CharClass::kSpace;
  if (second < text.size()) next = CharAt(text, second).kind;
  // `[^\r\n\p{L}\p{N}]?\p{L}+`
  if (next == CharClass::kLetter && !IsNewline(text[begin])) return RunEnd(text, second, next);
  // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
  if (first.kind == CharClass::kOther || (text[begin] == ' ' && next == CharClass::kOther)) {
    size_t end = RunEnd(text, second, CharClass::kOther);
    while (end < text.size() && IsNewline(text[end]))
      end++;
    return end;
  }
  return LinesEnd(text, begin);
}

bool IsWordlike(CharClass kind) {
  return kind == CharClass::kLetter || kind == CharClass::kNumber;
}

}  // namespace

std::string_view RegexOf(SplitPattern pattern) {
  return kRegexes[size_t(pattern)].second;
}

std::optional<SplitPattern> PatternOf(std::string_view regex) {
  for (const auto& [pattern, text] : kRegexes) {
    if (text == regex) return pattern;
  }
  return std::nullopt;
}

size_t PieceEnd(SplitPattern pattern, std::string_view text, size_t begin) {
  return pattern == SplitPattern::kGpt2 ? Gpt2PieceEnd(text, begin) : Llama3PieceEnd(text, begin);
}

// A piece with a letter or number in it ends with the run of letters or numbers, and a piece begins
// in the same way after any other. In the middle of a character, where `from` may be, there is no
// letter: what follows is read as it is in the whole text.
size_t NextPieceBorder(std::string_view text, size_t from) {
  bool wordlike = false;
  for (size_t at = from; at < text.size();) {
    const Char c = CharAt(text, at);
    if (wordlike && !IsWordlike(c.kind)) return at;
    wordlike = IsWordlike(c.kind);
    at += c.bytes;
  }
  return text.size();
}

}  // namespace weft::trainer
