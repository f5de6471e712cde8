#include "tests/shard/ranks.h"

#include <barrier>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/node/deferred_reclamation.h"
#include "comm/node/make_group.h"
#include "tests/shard/reference_group.h"

namespace weft {
namespace {

constexpr int64_t kTimeoutNs = 60'000'000'000;

std::vector<std::shared_ptr<ProcessGroup>> MakeGroups(GroupKind kind, int size) {
  if (kind != GroupKind::kLocal) {
    return MakeReferenceGroups(size, kTimeoutNs, kind == GroupKind::kLazyReference);
  }
  auto groups = CreateLocalGroups(size, {.name = "local", .timeout_ns = kTimeoutNs});
  EXPECT_TRUE(groups.ok()) << groups.status();
  return groups.ok() ? *std::move(groups) : std::vector<std::shared_ptr<ProcessGroup>>();
}

}  // namespace

const char* GroupKindName(GroupKind kind) {
  switch (kind) {
    case GroupKind::kLocal:
      return "Local";
    case GroupKind::kReference:
      return "Reference";
    case GroupKind::kLazyReference:
      return "LazyReference";
  }
  return "Unknown";
}

std::vector<absl::Status> RunRanks(GroupKind kind, int size, const RankBody& body) {
  const std::vector<std::shared_ptr<ProcessGroup>> groups = MakeGroups(kind, size);
  std::vector<absl::Status> statuses(groups.size());
  // Nobody leaves before all are done; then all leave together, as a group's memory likes it.
  std::barrier done(static_cast<std::ptrdiff_t>(groups.size()));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < groups.size(); ++i) {
    threads.emplace_back([&, i] {
      statuses[i] = body(static_cast<int>(i), groups[i]);
      done.arrive_and_wait();
      groups[i]->Close();
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  ReclaimDeferred();
  return statuses;
}

void ExpectAllOk(const std::vector<absl::Status>& statuses) {
  EXPECT_FALSE(statuses.empty());
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_TRUE(statuses[rank].ok()) << "rank " << rank << ": " << statuses[rank];
  }
}

absl::StatusOr<std::unique_ptr<Context>> MakeContext(std::shared_ptr<ProcessGroup> group,
                                                     const ContextOptions& options,
                                                     const std::vector<int>& axes) {
  std::vector<MeshAxis> named;
  for (size_t i = 0; i < axes.size(); ++i)
    named.push_back({StrCat("axis", i), axes[i]});
  WEFT_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(std::move(group), named));
  return Context::Create(std::move(mesh), options);
}

absl::StatusOr<int> AddUnitWithParam(Context& context, std::string_view name,
                                     const std::vector<int64_t>& shape, weft_dtype_t dtype,
                                     bool frozen, const Placement& placement) {
  WEFT_ASSIGN_OR_RETURN(const int unit, context.BeginUnit(name, placement));
  WEFT_ASSIGN_OR_RETURN(
      const int param,
      context.AddParam(unit, StrCat(name, ".weight"), shape.data(), static_cast<int>(shape.size()),
                       dtype, frozen ? WEFT_SHARD_PARAM_FROZEN : 0));
  WEFT_RETURN_IF_ERROR(context.SealUnit(unit));
  return param;
}

}  // namespace weft
