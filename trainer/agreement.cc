// Ranks compare a digest, which is all that a good start costs. Only if it differs do they exchange
// what they have, and each of them finds the same sentence.
#include "trainer/agreement.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weft/collective.h"

#include "trainer/failure.h"
#include "trainer/parallel.h"

namespace weft::trainer {
namespace {

constexpr char kComparing[] = "comparing the ranks' options";
constexpr size_t kRanksNamed = 8;
constexpr size_t kOptionsNamed = 3;

size_t SizeOf(weft_group_t group) {
  int size = 1;
  Check(weft_group_size(group, &size), "asking for the group's size");
  return size_t(size);
}

template <typename T>
std::vector<T> GatherBytes(weft_group_t group, const T* own, size_t count) {
  std::vector<T> all(count * SizeOf(group));
  Check(weft_all_gather(own, all.data(), count * sizeof(T), WEFT_UINT8, group, nullptr, nullptr),
        kComparing);
  return all;
}

std::vector<std::string> GatherTexts(weft_group_t group, std::string own) {
  const uint64_t length = own.size();
  const std::vector<uint64_t> lengths = GatherBytes(group, &length, 1);
  const size_t longest = *std::max_element(lengths.begin(), lengths.end());
  own.resize(longest);
  const std::vector<char> all = GatherBytes(group, own.data(), longest);
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < lengths.size(); rank++)
    texts.emplace_back(all.data() + rank * longest, lengths[rank]);
  return texts;
}

// What is compared of a configuration, with the key first: [["seed", "1"], ...].
std::string Compared(const ResolvedConfig& config) {
  nlohmann::json pairs = nlohmann::json::array();
  for (const ResolvedOption& option : config) {
    if (option.scope != Scope::kFree) pairs.push_back({option.key, option.value});
  }
  return pairs.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string ValueIn(const Pairs& pairs, const std::string& key) {
  for (const auto& [name, value] : pairs) {
    if (name == key) return value.empty() ? "not given" : value;
  }
  return "unknown";  // another version of the program
}

// "--seed is 1 on ranks 0 and 2 and 7 on rank 1"; "" if all have the same.
std::string Difference(const std::vector<Pairs>& ranks, const std::string& key) {
  std::vector<std::pair<std::string, std::vector<size_t>>> values;  // in the order of ranks
  for (size_t rank = 0; rank < ranks.size(); rank++) {
    const std::string value = ValueIn(ranks[rank], key);
    auto found = std::find_if(values.begin(), values.end(),
                              [&](const auto& known) { return known.first == value; });
    if (found == values.end()) found = values.insert(values.end(), {value, {}});
    found->second.push_back(rank);
  }
  if (values.size() == 1) return "";
  std::vector<std::string> parts;
  parts.reserve(values.size());
  for (const auto& [value, whose] : values)
    parts.push_back(fmt::format("{} on {}", value, NameRanks(whose)));
  return LabelOf(key) + " is " + fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string NameRanks(const std::vector<size_t>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() > kRanksNamed) {
    const std::vector<size_t> first(ranks.begin(), ranks.begin() + kRanksNamed);
    return fmt::format("ranks {} and {} more", fmt::join(first, ", "), ranks.size() - kRanksNamed);
  }
  return fmt::format("ranks {} and {}", fmt::join(ranks.begin(), ranks.end() - 1, ", "),
                     ranks.back());
}

Precision AgreeOnPrecision(weft_group_t group, const ProgramConfig& config) {
  const Precision own = config.train.precision;
  // Of a rank that was told, nothing is asked.
  const uint8_t best = uint8_t(config.best_precision ? own : Precision::kBf16);
  const std::vector<uint8_t> all = GatherBytes(group, &best, 1);
  return config.best_precision ? Precision(*std::min_element(all.begin(), all.end())) : own;
}

std::string WhereRanksDiffer(weft_group_t group, const ResolvedConfig& own) {
  const uint64_t digest = Digest(own);
  const std::vector<uint64_t> digests = GatherBytes(group, &digest, 1);
  if (std::all_of(digests.begin(), digests.end(), [&](uint64_t d) { return d == digest; }))
    return "";
  std::vector<Pairs> ranks;
  std::vector<std::string> keys;
  for (const std::string& text : GatherTexts(group, Compared(own))) {
    ranks.push_back(nlohmann::json::parse(text).get<Pairs>());
    for (const auto& [key, value] : ranks.back()) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    const std::string difference = Difference(ranks, key);
    if (!difference.empty()) differences.push_back(difference);
  }
  const size_t more = differences.size() - std::min(differences.size(), kOptionsNamed);
  differences.resize(differences.size() - more);
  return fmt::format("{}{}", fmt::join(differences, "; "),
                     more > 0 ? fmt::format("; {} more options differ", more) : "");
}

void AgreeOnConfig(weft_group_t group, const ResolvedConfig& own, const char* verb) {
  const std::string differences = WhereRanksDiffer(group, own);
  if (differences.empty()) return;
  ThrowOnAllRanks(group, fmt::format("the ranks would {} different things: {}; give all ranks the "
                                     "same",
                                     verb, differences));
}

void ThrowOnAllRanks(weft_group_t group, const std::string& sentence) {
  weft_barrier(group, nullptr, nullptr);
  throw BadInput(sentence);
}

}  // namespace weft::trainer
