#include "comm/agent/island_number_set.h"

#include <bit>

#include "base/check.h"
#include "base/text.h"

namespace weft {

IslandNumberSet IslandNumberSet::All(int bound) {
  IslandNumberSet all(bound);
  for (int number = 0; number < bound; ++number)
    all.Add(number);
  return all;
}

bool IslandNumberSet::Has(int number) const {
  if (number < 0 || number >= bound_) return false;
  return (words_[static_cast<size_t>(number) / 64] >> (number % 64) & 1) != 0;
}

bool IslandNumberSet::Add(int number) {
  if (number < 0 || number >= bound_ || Has(number)) return false;
  words_[static_cast<size_t>(number) / 64] |= uint64_t{1} << (number % 64);
  return true;
}

void IslandNumberSet::Remove(int number) {
  if (Has(number)) words_[static_cast<size_t>(number) / 64] &= ~(uint64_t{1} << (number % 64));
}

int IslandNumberSet::Count() const {
  int count = 0;
  for (const uint64_t word : words_)
    count += std::popcount(word);
  return count;
}

int IslandNumberSet::First() const {
  for (size_t i = 0; i < words_.size(); ++i) {
    if (words_[i] != 0) return static_cast<int>(i * 64) + std::countr_zero(words_[i]);
  }
  return -1;
}

std::vector<int> IslandNumberSet::Numbers() const {
  std::vector<int> numbers;
  for (size_t i = 0; i < words_.size(); ++i) {
    for (uint64_t word = words_[i]; word != 0; word &= word - 1) {
      numbers.push_back(static_cast<int>(i * 64) + std::countr_zero(word));
    }
  }
  return numbers;
}

bool IslandNumberSet::AddAll(const IslandNumberSet& other) {
  WEFT_CHECK(bound_ == other.bound_);
  bool grew = false;
  for (size_t i = 0; i < words_.size(); ++i) {
    grew = grew || (other.words_[i] & ~words_[i]) != 0;
    words_[i] |= other.words_[i];
  }
  return grew;
}

IslandNumberSet IslandNumberSet::Minus(const IslandNumberSet& other) const {
  WEFT_CHECK(bound_ == other.bound_);
  IslandNumberSet result = *this;
  for (size_t i = 0; i < words_.size(); ++i)
    result.words_[i] &= ~other.words_[i];
  return result;
}

IslandNumberSet IslandNumberSet::And(const IslandNumberSet& other) const {
  WEFT_CHECK(bound_ == other.bound_);
  IslandNumberSet result = *this;
  for (size_t i = 0; i < words_.size(); ++i)
    result.words_[i] &= other.words_[i];
  return result;
}

bool IslandNumberSet::Contains(const IslandNumberSet& other) const {
  return other.Minus(*this).Empty();
}

void IslandNumberSet::Write(WireWriter* writer) const {
  writer->U32(static_cast<uint32_t>(bound_));
  for (const uint64_t word : words_)
    writer->U64(word);
}

IslandNumberSet IslandNumberSet::Read(WireReader* reader, int bound) {
  IslandNumberSet result(bound);
  if (reader->U32() != static_cast<uint32_t>(bound)) {
    reader->Bytes(reader->left() + 1);  // makes it bad
    return result;
  }
  for (uint64_t& word : result.words_)
    word = reader->U64();
  // Bits beyond the bound are nobody's.
  if (bound % 64 != 0 && !result.words_.empty()) {
    result.words_.back() &= (uint64_t{1} << (bound % 64)) - 1;
  }
  return result;
}

std::string IslandNumberSet::ToString(int names_max) const {
  std::string text;
  int named = 0;
  for (const int number : Numbers()) {
    if (named++ == names_max) return text + ", ...";
    text += StrCat(text.empty() ? "" : ", ", number);
  }
  return text;
}

}  // namespace weft
