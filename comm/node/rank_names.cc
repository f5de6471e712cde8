#include "comm/node/rank_names.h"

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace weft {
namespace {

// "rank 4", "ranks 4, 6".
std::string Numbered(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

// An island of a first group has the group's numbers, which are those of the world.
bool RankNames::Renumbered() const {
  return !state_.world_ranks.empty() && state_.world_ranks != state_.group_ranks;
}

// "world rank 6", "world ranks 4, 6"; of another first group than "world" "ranks 4, 6 of group jobs".
std::string RankNames::WorldRanks(const std::vector<int>& ranks) const {
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const int rank : ranks)
    numbers.push_back(state_.WorldRank(rank));
  const std::string list = Numbered(numbers);
  return state_.world_name == "world" ? "world " + list
                                      : fmt::format("{} of group {}", list, state_.world_name);
}

std::string RankNames::ListOf(const std::vector<int>& ranks) const {
  std::vector<int> numbers;
  numbers.reserve(ranks.size());
  for (const int rank : ranks)
    numbers.push_back(state_.GroupRank(rank));
  std::string list = Numbered(numbers);
  if (!Renumbered()) return list;
  return fmt::format("{} of group {} ({})", list, group_, WorldRanks(ranks));
}

std::string RankNames::NameOf(int rank, std::string_view facts) const {
  if (facts.empty()) return ListOf({rank});
  const int number = state_.GroupRank(rank);
  if (!Renumbered()) return fmt::format("rank {} ({})", number, facts);
  return fmt::format("rank {} of group {} ({}, {})", number, group_, WorldRanks({rank}), facts);
}

ErrorFields RankNames::FieldsOf(int rank) const {
  ErrorFields fields{.group = group_};
  if (rank < 0) return fields;
  const auto& identity = state_.peers[static_cast<size_t>(rank)]->identity();
  fields.rank = rank;
  fields.world_rank = state_.WorldRank(rank);
  fields.pid = identity.pid;
  fields.host = identity.host;
  return fields;
}

}  // namespace weft
