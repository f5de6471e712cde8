// What ends one group of a mesh ends all of them by the same cause, on threads: an abort, a
// mismatch, a deadline, a rank that has left. mesh_failure_test.cc has the deaths, and how soon all
// know.
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/wait.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/layout/mesh.h"
#include "tests/shard/ranks.h"

namespace weft::mesh_cause_test {
namespace {

using testing::HasSubstr;

enum class Cause { kAbort, kMismatch, kDeadline, kLeft };

// What rank 5 and rank 4, its only peer in its tp group, do there. The deadline is rank 4's: the
// other one does not come.
absl::Status FailTensorGroup(Cause cause, int rank, ProcessGroup& tensor, ProcessGroup& other) {
  Message never_sent{.count = 1, .peer = 1 - other.rank()};
  char unused = 0;
  never_sent.out = &unused;
  if (rank == 5 && cause == Cause::kAbort) {
    tensor.Abort("sample 9 is torn");
    return tensor.error();
  }
  if (rank == 5 && cause == Cause::kLeft) tensor.Close();
  if (rank == 5 && cause != Cause::kMismatch) return other.Run(never_sent);
  std::vector<float> values(static_cast<size_t>(rank));
  Collective sum{.kind = OpKind::kAllReduce, .dtype = WEFT_FLOAT32, .op = WEFT_SUM};
  sum.count = values.size();
  sum.in = values.data();
  sum.out = values.data();
  if (cause == Cause::kDeadline) sum.timeout_ns = 50'000'000;
  return tensor.Run(sum);
}

// What each rank is told where it waits; six have nothing to do with the tp group that fails.
std::vector<absl::Status> ToldOf(Cause cause) {
  return RunRanks(
      GroupKind::kLocal, 8, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(const auto mesh,
                              Mesh::Create(std::move(group), {{"pp", 2}, {"dp", 2}, {"tp", 2}}));
        WEFT_ASSIGN_OR_RETURN(const auto several, mesh->Group({"dp", "tp"}));
        ProcessGroup& pipeline = *mesh->axis_group(0);
        WEFT_RETURN_IF_ERROR(mesh->group()->Run({.kind = OpKind::kBarrier}));
        absl::Status told;
        if (rank == 4 || rank == 5) {
          told = FailTensorGroup(cause, rank, *mesh->axis_group(2), pipeline);
        } else {
          ProcessGroup& waits = rank < 4 ? pipeline : *several;
          char unused = 0;
          told = waits.Run(
              Message{.out = &unused, .count = 1, .peer = (waits.rank() + 1) % waits.size()});
        }
        for (ProcessGroup* const ended : {mesh->group().get(), &pipeline, several.get()}) {
          const int64_t begun_ns = MonotonicNs();
          while (ended->error().ok() && MonotonicNs() - begun_ns < 10'000'000'000)
            std::this_thread::yield();
          EXPECT_EQ(ResultOf(ended->error()), ResultOf(told)) << ended->name();
        }
        return told;
      });
}

TEST(MeshCause, OfOneGroupEndsAll) {
  struct Case {
    Cause cause;
    weft_result_t result;
    const char* said;
  };

  for (const Case& expected : {Case{Cause::kAbort, WEFT_ABORTED, "sample 9 is torn"},
                               Case{Cause::kMismatch, WEFT_MISMATCH, "4 float32"},
                               Case{Cause::kDeadline, WEFT_TIMEOUT, "did not arrive"},
                               Case{Cause::kLeft, WEFT_PEER_LOST, "has left the group"}}) {
    SCOPED_TRACE(expected.said);
    const std::vector<absl::Status> told = ToldOf(expected.cause);
    for (const absl::Status& status : told) {
      EXPECT_EQ(ResultOf(status), expected.result) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(expected.said));
      EXPECT_EQ(FieldsOf(status).world_rank, FieldsOf(told[4]).world_rank);
    }
    // Among the two of the tp group nobody knows which one is wrong.
    if (expected.cause != Cause::kMismatch) {
      EXPECT_EQ(FieldsOf(told[0]).world_rank, 5);
    }
  }
}

}  // namespace
}  // namespace weft::mesh_cause_test
