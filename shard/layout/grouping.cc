#include "shard/layout/grouping.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

absl::Status Invalid(std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "shard_add_units"},
                   StrCat("shard_add_units: ", what));
}

using Components = std::vector<std::string>;

absl::StatusOr<Components> PatternOf(const std::string& prefix) {
  Components pattern = absl::StrSplit(prefix, '.');
  if (std::find(pattern.begin(), pattern.end(), "") == pattern.end()) return pattern;
  return Invalid(StrCat("by_prefix \"", prefix,
                        "\" has an empty component; write names with a dot between, as in "
                        "\"blocks.*\""));
}

// What of the name matches; empty if it does not.
std::string MatchOf(const std::string& name, const Components& pattern) {
  Components components = absl::StrSplit(name, '.');
  if (components.size() < pattern.size()) return "";
  components.resize(pattern.size());
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != "*" && pattern[i] != components[i]) return "";
  }
  return absl::StrJoin(components, ".");
}

std::vector<ParamGroup> EachAlone(const std::vector<GroupedParam>& params) {
  std::vector<ParamGroup> groups;
  for (size_t i = 0; i < params.size(); ++i)
    groups.push_back({params[i].name, i, 1, params[i].bytes});
  return groups;
}

absl::StatusOr<std::vector<ParamGroup>> ByPrefix(const std::vector<GroupedParam>& params,
                                                 const std::string& prefix) {
  WEFT_ASSIGN_OR_RETURN(const Components pattern, PatternOf(prefix));
  std::vector<ParamGroup> groups;
  std::unordered_set<std::string> seen;
  std::string open;  // the match of the last group; empty for what does not match
  for (size_t i = 0; i < params.size(); ++i) {
    std::string match = MatchOf(params[i].name, pattern);
    if (groups.empty() || match != open) {
      if (!match.empty() && !seen.insert(match).second) {
        return Invalid(StrCat("parameter ", params[i].name, " is apart from the others of ", match,
                              "; a unit's parameters are neighbours in the list"));
      }
      groups.push_back({match.empty() ? params[i].name : match, i, 0, 0});
      open = std::move(match);
    }
    ++groups.back().count;
    groups.back().bytes += params[i].bytes;
  }
  if (!seen.empty() || params.empty()) return groups;
  return Invalid(StrCat("no parameter's name begins as by_prefix \"", prefix,
                        "\" says (the first is ", params[0].name, "); check the pattern"));
}

void Join(ParamGroup& group, const ParamGroup& next) {
  group.count += next.count;
  group.bytes += next.bytes;
}

std::vector<ParamGroup> BySize(const std::vector<ParamGroup>& groups, size_t min_bytes) {
  std::vector<ParamGroup> joined;
  for (const ParamGroup& group : groups) {
    if (joined.empty() || joined.back().bytes >= min_bytes) {
      joined.push_back(group);
    } else {
      Join(joined.back(), group);
    }
  }
  if (joined.size() > 1 && joined.back().bytes < min_bytes) {
    Join(joined[joined.size() - 2], joined.back());
    joined.pop_back();
  }
  return joined;
}

}  // namespace

absl::StatusOr<std::vector<ParamGroup>> GroupParams(const std::vector<GroupedParam>& params,
                                                    const Grouping& grouping) {
  if (grouping.prefix.empty() && grouping.min_bytes == 0) {
    return Invalid("neither by_prefix nor min_bytes is given; say what makes a unit");
  }
  if (grouping.prefix.empty()) return BySize(EachAlone(params), grouping.min_bytes);
  WEFT_ASSIGN_OR_RETURN(std::vector<ParamGroup> groups, ByPrefix(params, grouping.prefix));
  return BySize(groups, grouping.min_bytes);
}

}  // namespace weft
