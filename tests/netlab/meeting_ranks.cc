// Ranks that meet as a launcher lets them, make a group over all their nodes, and sum their numbers. Each says one line:
//
//   rank 1 of 2 on node1: island 1 of 2, sum 1
//
// What is wrong is said instead, and the exit code is 1. With the argument "wait" they go on summing until that fails, each time within the
// seconds and of so many numbers as two more arguments say; with "probe" they measure the links before, and one more line says
//
//   between nodes: 15 us, 3 us of a rank's time for a message, 25 Gbit/s (measured)
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/seams.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "comm/hierarchy/islands.h"
#include "comm/hierarchy/make_group.h"
#include "comm/rendezvous/member_watch.h"
#include "comm/rendezvous/rendezvous.h"

namespace weft {
namespace {

constexpr int64_t kMeetNs = 60'000'000'000;
constexpr int64_t kProbeForNs = 8'000'000'000;  // machines are busy
constexpr size_t kCount = 100'003;

absl::StatusOr<int64_t> Sum(ProcessGroup& group, size_t count = kCount, int64_t timeout_ns = 0) {
  const std::vector<int64_t> in(count, group.rank());
  std::vector<int64_t> out(count, -1);
  WEFT_RETURN_IF_ERROR(group.Run({.kind = OpKind::kAllReduce,
                                  .dtype = WEFT_INT64,
                                  .op = WEFT_SUM,
                                  .count = count,
                                  .in = in.data(),
                                  .out = out.data(),
                                  .timeout_ns = timeout_ns}));
  for (const int64_t value : out) {
    if (value != out[0]) return MakeError(WEFT_CORRUPT, "the elements of the sum differ");
  }
  return out[0];
}

struct Wishes {
  bool wait = false;
  bool probe = false;
  int64_t timeout_ns = 0;
  size_t count = kCount;
};

absl::Status Meet(const Wishes& wishes) {
  WEFT_ASSIGN_OR_RETURN(const Rendezvous met, RendezvousFromEnvironment(MonotonicNs() + kMeetNs));
  const GroupMember self = DescribeSelf(met.rank);
  MemberWatch watch(*SystemSeams().proc, self, "islands");
  WEFT_ASSIGN_OR_RETURN(const Membership members,
                        ExchangeMembership(*met.store, "islands", met.rank, met.size, self,
                                           MonotonicNs() + kMeetNs, watch));
  const Islands islands = IslandsOf(members);
  WEFT_ASSIGN_OR_RETURN(
      const std::shared_ptr<ProcessGroup> group,
      MakeGroup(met.store.get(), met.rank, met.size,
                {.name = "meeting", .timeout_ns = kMeetNs, .init_timeout_ns = kMeetNs},
                {.span = {.probe_ns = wishes.probe ? kProbeForNs : 0}}));
  WEFT_ASSIGN_OR_RETURN(int64_t sum, Sum(*group));
  std::printf("rank %d of %d on %s: island %d of %d, sum %lld\n", met.rank, met.size,
              self.host.c_str(), islands.island_of[static_cast<size_t>(met.rank)], islands.count(),
              static_cast<long long>(sum));
  std::fflush(stdout);
  if (wishes.probe) {
    const std::string text = group->Explain(
        {.kind = OpKind::kAllReduce, .dtype = WEFT_INT64, .op = WEFT_SUM, .count = kCount},
        BufferKind{});
    const size_t at = text.find("between nodes: ");
    std::printf("%s\n", text.substr(at, text.find('\n', at) - at).c_str());
    std::fflush(stdout);
  }
  while (wishes.wait) {
    WEFT_ASSIGN_OR_RETURN(sum, Sum(*group, wishes.count, wishes.timeout_ns));
  }
  group->Close();
  return absl::OkStatus();
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  const std::string_view does = argc > 1 ? argv[1] : "";
  weft::Wishes wishes{.wait = does == "wait", .probe = does == "probe"};
  if (argc > 2) wishes.timeout_ns = std::atoll(argv[2]) * 1'000'000'000;
  if (argc > 3) wishes.count = static_cast<size_t>(std::atoll(argv[3]));
  const absl::Status met = weft::Meet(wishes);
  if (met.ok()) return 0;
  std::printf("failed: %s\n", std::string(met.message()).c_str());
  return 1;
}
