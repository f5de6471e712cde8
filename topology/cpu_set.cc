#include "topology/cpu_set.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstddef>

#include <sched.h>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr int kWordBits = 64;

// Digits alone: SimpleAtoi would take signs and blanks.
bool ReadCpu(absl::string_view text, int* cpu) {
  return !text.empty() && text.size() <= 4 &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isdigit(c); }) &&
         absl::SimpleAtoi(text, cpu) && *cpu < kCpusMax;
}

}  // namespace

absl::StatusOr<CpuSet> CpuSet::FromList(std::string_view list) {
  CpuSet set;
  if (list.empty()) return set;
  int next = 0;
  for (const absl::string_view part : absl::StrSplit(ToAbsl(list), ',')) {
    const size_t dash = part.find('-');
    int first = 0;
    int last = 0;
    if (!ReadCpu(part.substr(0, dash), &first) ||
        !ReadCpu(dash == absl::string_view::npos ? part : part.substr(dash + 1), &last) ||
        first < next || last < first) {
      return MakeError(WEFT_CORRUPT,
                       StrCat("\"", list.substr(0, 64), "\" is no list of CPUs below ", kCpusMax,
                              " in rising order, as 0-3,8"));
    }
    for (int cpu = first; cpu <= last; ++cpu)
      set.Add(cpu);
    next = last + 1;
  }
  return set;
}

CpuSet CpuSet::OfThisThread() {
  // The kernel refuses a mask that is smaller than its own.
  std::vector<uint64_t> words(kCpusMax / kWordBits);
  CpuSet set;
  if (sched_getaffinity(0, words.size() * sizeof(words[0]),
                        reinterpret_cast<cpu_set_t*>(words.data())) != 0) {
    return set;
  }
  set.words_ = std::move(words);
  set.Trim();
  return set;
}

void CpuSet::Add(int cpu) {
  WEFT_CHECK(cpu >= 0 && cpu < kCpusMax);
  const size_t word = static_cast<size_t>(cpu / kWordBits);
  if (word >= words_.size()) words_.resize(word + 1);
  words_[word] |= uint64_t{1} << (cpu % kWordBits);
}

bool CpuSet::Has(int cpu) const {
  const size_t word = static_cast<size_t>(cpu / kWordBits);
  return cpu >= 0 && word < words_.size() && (words_[word] >> (cpu % kWordBits) & 1) != 0;
}

int CpuSet::count() const {
  int count = 0;
  for (const uint64_t word : words_)
    count += std::popcount(word);
  return count;
}

int CpuSet::first() const {
  for (size_t word = 0; word < words_.size(); ++word) {
    if (words_[word] != 0)
      return static_cast<int>(word) * kWordBits + std::countr_zero(words_[word]);
  }
  return -1;
}

std::vector<int> CpuSet::Members() const {
  std::vector<int> members;
  for (size_t word = 0; word < words_.size(); ++word) {
    for (uint64_t left = words_[word]; left != 0; left &= left - 1)
      members.push_back(static_cast<int>(word) * kWordBits + std::countr_zero(left));
  }
  return members;
}

std::string CpuSet::ToList() const {
  std::string text;
  const std::vector<int> members = Members();
  for (size_t i = 0; i < members.size();) {
    size_t end = i + 1;
    while (end < members.size() && members[end] == members[end - 1] + 1)
      ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(members[i]);
    if (end - i > 1) text += "-" + std::to_string(members[end - 1]);
    i = end;
  }
  return text;
}

CpuSet CpuSet::operator&(const CpuSet& other) const {
  CpuSet both;
  both.words_.resize(std::min(words_.size(), other.words_.size()));
  for (size_t word = 0; word < both.words_.size(); ++word)
    both.words_[word] = words_[word] & other.words_[word];
  both.Trim();
  return both;
}

CpuSet CpuSet::operator|(const CpuSet& other) const {
  CpuSet either = *this;
  if (either.words_.size() < other.words_.size()) either.words_.resize(other.words_.size());
  for (size_t word = 0; word < other.words_.size(); ++word)
    either.words_[word] |= other.words_[word];
  return either;
}

CpuSet CpuSet::operator-(const CpuSet& other) const {
  CpuSet rest = *this;
  for (size_t word = 0; word < std::min(words_.size(), other.words_.size()); ++word)
    rest.words_[word] &= ~other.words_[word];
  rest.Trim();
  return rest;
}

void CpuSet::Trim() {
  while (!words_.empty() && words_.back() == 0)
    words_.pop_back();
}

}  // namespace weft
