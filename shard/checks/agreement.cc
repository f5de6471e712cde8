// Comparing lists of any length must not need memory for ranks x entries. Each rank therefore keeps running digests: number i
// stands for the first i entries, so equal ones mean that all entries before are equal, and the first difference is
// found by bisection with one small all_gather per halving. All ranks see the same digests and take the same branches.
#include "shard/checks/agreement.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_join.h"
#include "base/status.h"
#include "base/text.h"
#include "shard/checks/rank_list.h"

namespace weft {
namespace {

constexpr size_t kTextBytesMax = 4096;

// What a rank says about its whole list.
struct Summary {
  Digest digest;
  uint64_t count = 0;
  bool operator==(const Summary&) const = default;
};

static_assert(sizeof(Summary) == 24, "no padding: it is sent as bytes");

// running[k] is the digest of the first k entries; one more stands for "the list has ended".
class RunningDigests {
 public:
  explicit RunningDigests(const std::vector<Digest>& entries) {
    running_.reserve(entries.size() + 1);
    running_.push_back(DigestOf("", 0));
    for (const Digest& entry : entries)
      running_.push_back(Join(running_.back(), entry));
    ended_ = Join(running_.back(), DigestOf("ended", 5));
  }

  const Digest& At(size_t count) const {
    return count < running_.size() ? running_[count] : ended_;
  }

  const Digest& Whole() const { return running_.back(); }

 private:
  static Digest Join(const Digest& left, const Digest& right) {
    Hasher hasher;
    hasher.Update(left.bytes.data(), left.bytes.size());
    hasher.Update(right.bytes.data(), right.bytes.size());
    return hasher.Finish();
  }

  std::vector<Digest> running_;
  Digest ended_;
};

// Ranks that are `stride` apart have the same.
template <typename T>
bool AllSame(const std::vector<T>& all, size_t stride) {
  for (size_t rank = stride; rank < all.size(); ++rank) {
    if (!(all[rank] == all[rank - stride])) return false;
  }
  return true;
}

// The sides among ranks first, first + stride, ...
Sides SidesOfSet(const std::vector<Digest>& all, size_t first, size_t stride) {
  Sides sides;
  for (size_t rank = first; rank < all.size(); rank += stride) {
    const auto side = std::find_if(sides.begin(), sides.end(), [&](const std::vector<int>& ranks) {
      return all[static_cast<size_t>(ranks[0])] == all[rank];
    });
    if (side == sides.end()) {
      sides.push_back({static_cast<int>(rank)});
    } else {
      side->push_back(static_cast<int>(rank));
    }
  }
  std::stable_sort(sides.begin(), sides.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return sides;
}

// The difference in the first set of ranks that differ; nullopt if there is none.
std::optional<Difference> DifferenceAt(size_t index, const std::vector<Digest>& all,
                                       size_t stride) {
  for (size_t first = 0; first < stride; ++first) {
    Sides sides = SidesOfSet(all, first, stride);
    if (sides.size() < 2) continue;
    Difference difference{.index = index, .majority = sides[0].size() > sides[1].size()};
    for (size_t i = 1; i < sides.size(); ++i)
      difference.ranks.insert(difference.ranks.end(), sides[i].begin(), sides[i].end());
    std::sort(difference.ranks.begin(), difference.ranks.end());
    difference.sides = std::move(sides);
    return difference;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::optional<Difference>> FirstDifference(ProcessGroup& group,
                                                          const std::vector<Digest>& entries,
                                                          int64_t timeout_ns, int stride,
                                                          const CallPurpose& purpose) {
  const auto step = static_cast<size_t>(stride);
  const RunningDigests running(entries);
  const Summary own{running.Whole(), entries.size()};
  WEFT_ASSIGN_OR_RETURN(const std::vector<Summary> summaries,
                        GatherValue(group, own, timeout_ns, purpose));
  if (AllSame(summaries, step)) return std::optional<Difference>();

  // The first `same` entries agree, the first `unlike` do not.
  uint64_t same = 0;
  uint64_t unlike = 0;
  for (const Summary& summary : summaries)
    unlike = std::max(unlike, summary.count);
  // Bound the search by a limit of our own: the counts came from other ranks.
  for (int halvings = 0; halvings < 64 && unlike - same > 1; ++halvings) {
    const uint64_t middle = same + (unlike - same) / 2;
    WEFT_ASSIGN_OR_RETURN(const std::vector<Digest> digests,
                          GatherValue(group, running.At(middle), timeout_ns, purpose));
    (AllSame(digests, step) ? same : unlike) = middle;
  }
  WEFT_ASSIGN_OR_RETURN(const std::vector<Digest> digests,
                        GatherValue(group, running.At(unlike), timeout_ns, purpose));
  std::optional<Difference> difference = DifferenceAt(unlike - 1, digests, step);
  if (difference.has_value()) return difference;
  return MakeError(WEFT_CORRUPT, {.group = group.name()},
                   StrCat("comparing lists on group ", group.name(),
                          ": digests of the same list changed between two exchanges; check the "
                          "memory and the links of this machine"));
}

Sides SidesOf(const std::vector<Digest>& digests) {
  return SidesOfSet(digests, 0, 1);
}

absl::StatusOr<std::vector<std::string>> GatherText(ProcessGroup& group, std::string_view text,
                                                    int64_t timeout_ns,
                                                    const CallPurpose& purpose) {
  text = text.substr(0, kTextBytesMax);
  WEFT_ASSIGN_OR_RETURN(const std::vector<uint64_t> sizes,
                        GatherValue<uint64_t>(group, text.size(), timeout_ns, purpose));
  const size_t room =
      std::min<uint64_t>(kTextBytesMax, *std::max_element(sizes.begin(), sizes.end()));
  std::string own(text);
  own.resize(room);
  std::string all(room * sizes.size(), '\0');
  WEFT_RETURN_IF_ERROR(group.Run({.kind = OpKind::kAllGather,
                                  .dtype = WEFT_UINT8,
                                  .count = room,
                                  .purpose = purpose,
                                  .in = own.data(),
                                  .out = all.data(),
                                  .timeout_ns = timeout_ns}));
  std::vector<std::string> texts;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    texts.push_back(all.substr(rank * room, std::min<uint64_t>(room, sizes[rank])));
  }
  return texts;
}

std::string SideList(const Sides& sides) {
  constexpr size_t kListed = 4;
  std::string text;
  for (size_t i = 0; i < std::min(sides.size(), kListed); ++i) {
    const bool last = i + 1 == sides.size();
    absl::StrAppend(&text, i == 0 ? "" : (last ? " and " : ", "), RankList(sides[i]));
  }
  size_t others = 0;
  for (size_t i = kListed; i < sides.size(); ++i)
    others += sides[i].size();
  if (others > 0) absl::StrAppend(&text, " and ", others, " other rank", others == 1 ? "" : "s");
  return text;
}

std::string WhoDiffers(const Difference& difference) {
  if (!difference.majority) return StrCat(SideList(difference.sides), " have different values");
  return StrCat(RankList(difference.ranks), difference.ranks.size() == 1 ? " has" : " have",
                " other values than ", RankList(difference.sides[0]));
}

}  // namespace weft
