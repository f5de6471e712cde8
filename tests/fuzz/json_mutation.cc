#include "tests/fuzz/json_mutation.h"

#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <utility>

#include "base/text.h"

namespace weft::test {
namespace {

using Random = std::mt19937_64;

size_t Pick(Random& random, size_t count) {
  return static_cast<size_t>(random() % count);
}

// [begin, end) of the text.
struct Span {
  size_t begin = 0;
  size_t end = 0;

  size_t size() const { return end - begin; }
};

// Of all that begin at or after a place by chance, the first; of all, if there is none behind it.
template <typename Find>
std::optional<Span> SomeSpan(const std::string& text, Random& random, Find find) {
  const size_t from = Pick(random, text.size() + 1);
  for (const size_t start : {from, size_t{0}}) {
    for (size_t at = start; at < text.size(); ++at) {
      const std::optional<Span> span = find(text, at);
      if (span) return span;
    }
  }
  return std::nullopt;
}

bool IsDigit(char byte) {
  return byte >= '0' && byte <= '9';
}

std::optional<Span> NumberAt(const std::string& text, size_t at) {
  if (!IsDigit(text[at]) || (at > 0 && IsDigit(text[at - 1]))) return std::nullopt;
  size_t end = at;
  while (end < text.size() && IsDigit(text[end]))
    ++end;
  return Span{at, end};
}

// With its quotes; of quotes within it nothing is known.
std::optional<Span> QuotedAt(const std::string& text, size_t at) {
  if (text[at] != '"') return std::nullopt;
  const size_t end = text.find('"', at + 1);
  if (end == std::string::npos) return std::nullopt;
  return Span{at, end + 1};
}

std::optional<Span> BracketsAt(const std::string& text, size_t at) {
  if (text[at] != '[' && text[at] != '{') return std::nullopt;
  int depth = 0;
  for (size_t end = at; end < text.size(); ++end) {
    if (text[end] == '[' || text[end] == '{') ++depth;
    if (text[end] == ']' || text[end] == '}') --depth;
    if (depth == 0) return Span{at, end + 1};
  }
  return std::nullopt;
}

std::optional<Span> ValueAt(const std::string& text, size_t at) {
  std::optional<Span> span = NumberAt(text, at);
  if (!span) span = QuotedAt(text, at);
  return span ? span : BracketsAt(text, at);
}

// Another number, some of them near this one.
std::string OtherNumber(const std::string& number, Random& random) {
  static constexpr const char* kNumbers[] = {"0",
                                             "1",
                                             "2",
                                             "3",
                                             "4",
                                             "6",
                                             "7",
                                             "12",
                                             "24",
                                             "65536",
                                             "65537",
                                             "4194304",
                                             "4294967295",
                                             "4294967296",
                                             "4611686018427387904",
                                             "4611686018427387905",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "18446744073709551615",
                                             "18446744073709551616",
                                             "-1",
                                             "1.5",
                                             "1e300",
                                             "1e999",
                                             "null"};
  if (Pick(random, 2) == 0 && number.size() < 10)
    return StrCat(std::stoll(number) + static_cast<int64_t>(Pick(random, 17)) - 8);
  return kNumbers[Pick(random, std::size(kNumbers))];
}

void ChangeNumber(std::string* text, Random& random) {
  const std::optional<Span> span = SomeSpan(*text, random, NumberAt);
  if (!span) return;
  text->replace(span->begin, span->size(),
                OtherNumber(text->substr(span->begin, span->size()), random));
}

void ChangeText(std::string* text, const MutationHints& hints, Random& random) {
  const std::optional<Span> span = SomeSpan(*text, random, QuotedAt);
  if (!span) return;
  std::string changed = hints.texts[Pick(random, hints.texts.size())];
  const std::optional<Span> other = SomeSpan(*text, random, QuotedAt);
  if (other && Pick(random, 2) == 0) changed = text->substr(other->begin, other->size());
  text->replace(span->begin, span->size(), changed);
}

// One value in the place of another, twice, or away.
void MoveValue(std::string* text, Random& random) {
  const std::optional<Span> span = SomeSpan(*text, random, ValueAt);
  if (!span) return;
  const std::string value = text->substr(span->begin, span->size());
  switch (Pick(random, 4)) {
    case 0: {
      const std::optional<Span> to = SomeSpan(*text, random, ValueAt);
      if (to) text->replace(to->begin, to->size(), value);
      break;
    }
    case 1:
      text->insert(span->begin, value + ",");
      break;
    case 2: {  // with the comma behind it
      const bool comma = span->end < text->size() && (*text)[span->end] == ',';
      text->erase(span->begin, span->size() + (comma ? 1 : 0));
      break;
    }
    default:  // two that follow each other change places
      if (span->end + 1 < text->size() && (*text)[span->end] == ',') {
        const std::optional<Span> next = ValueAt(*text, span->end + 1);
        if (!next) break;
        const std::string swapped = text->substr(next->begin, next->size()) + "," + value;
        text->replace(span->begin, next->end - span->begin, swapped);
      }
  }
}

bool IsWordByte(char byte) {
  return IsDigit(byte) || byte == '_' || (byte >= 'A' && byte <= 'Z') ||
         (byte >= 'a' && byte <= 'z');
}

// A number, or letters.
std::optional<Span> WordAt(const std::string& text, size_t at) {
  if (!IsWordByte(text[at]) || (at > 0 && IsWordByte(text[at - 1]))) return std::nullopt;
  size_t end = at;
  while (end < text.size() && IsWordByte(text[end]))
    ++end;
  return Span{at, end};
}

// One word for another wherever it stands, so that files go on agreeing with each other.
void ChangeWord(std::string* text, Random& random) {
  const std::optional<Span> span = SomeSpan(*text, random, WordAt);
  const std::optional<Span> other = SomeSpan(*text, random, WordAt);
  if (!span || !other) return;
  const std::string from = text->substr(span->begin, span->size());
  std::string to = text->substr(other->begin, other->size());
  if (NumberAt(from, 0) && Pick(random, 4) != 0) to = OtherNumber(from, random);
  for (size_t at = 0; at < text->size(); ++at) {
    const std::optional<Span> word = WordAt(*text, at);
    if (!word) continue;
    if (text->compare(word->begin, word->size(), from) == 0) {
      text->replace(word->begin, word->size(), to);
      at += to.size();
    } else {
      at = word->end;
    }
  }
}

// Another thing to do with the same files.
void ChangePurpose(std::string* text, const MutationHints& hints, Random& random) {
  if (!text->empty())
    (*text)[0] =
        static_cast<char>((*text)[0] ^ hints.purposes[Pick(random, hints.purposes.size())]);
}

void ChangeBytes(std::string* text, Random& random) {
  if (text->empty()) return;
  const size_t at = Pick(random, text->size());
  switch (Pick(random, 4)) {
    case 0:
      (*text)[at] = static_cast<char>((*text)[at] ^ 1 << Pick(random, 8));
      break;
    case 1:
      text->erase(at, 1 + Pick(random, 8));
      break;
    case 2:
      text->insert(at, 1, static_cast<char>(random()));
      break;
    default:
      text->resize(at);
  }
}

}  // namespace

std::string MutateJson(std::string input, const MutationHints& hints, Random& random) {
  for (size_t changes = 1 + Pick(random, 3); changes > 0; --changes) {
    switch (Pick(random, 10)) {
      case 0:
      case 1:
      case 2:
        ChangeNumber(&input, random);
        break;
      case 3:
        ChangeText(&input, hints, random);
        break;
      case 4:
      case 5:
        MoveValue(&input, random);
        break;
      case 6:
      case 7:
        ChangeWord(&input, random);
        break;
      case 8:
        ChangePurpose(&input, hints, random);
        break;
      default:
        ChangeBytes(&input, random);
    }
  }
  return input;
}

}  // namespace weft::test
