// Groups along several axes of a mesh: which ranks they have, that each is made once and on all
// ranks or on none, what is refused, and contexts on them.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/forwarding_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "shard/layout/mesh.h"
#include "tests/shard/ranks.h"
#include "tests/shard/small_model.h"

namespace weft::mesh_group_test {
namespace {

using testing::HasSubstr;

using Names = std::vector<std::string>;

std::vector<MeshAxis> AxesOf(const std::vector<int>& sizes) {
  std::vector<MeshAxis> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    axes.push_back({StrCat("axis", i), sizes[i]});
  return axes;
}

// The place of a rank on each axis.
std::vector<int> PlacesOf(int rank, const std::vector<int>& sizes) {
  std::vector<int> places(sizes.size());
  for (size_t i = sizes.size(); i-- > 0; rank /= sizes[i])
    places[i] = rank % sizes[i];
  return places;
}

// The mesh's ranks that differ from `rank` on the axes in the bits of `set` only, in their order.
std::vector<int> RanksAlong(int rank, const std::vector<int>& sizes, unsigned set) {
  int ranks = 1;
  for (const int size : sizes)
    ranks *= size;
  const std::vector<int> own = PlacesOf(rank, sizes);
  std::vector<int> along;
  for (int other = 0; other < ranks; ++other) {
    const std::vector<int> places = PlacesOf(other, sizes);
    bool is_along = true;
    for (size_t i = 0; i < sizes.size(); ++i)
      is_along = is_along && (places[i] == own[i] || (set >> i & 1) != 0);
    if (is_along) along.push_back(other);
  }
  return along;
}

// `value` of all ranks of a group, by rank.
absl::StatusOr<std::vector<int>> Gathered(ProcessGroup& group, int value) {
  std::vector<int> all(static_cast<size_t>(group.size()));
  Collective gather{.kind = OpKind::kAllGather, .dtype = WEFT_INT32, .count = 1};
  gather.in = &value;
  gather.out = all.data();
  WEFT_RETURN_IF_ERROR(group.Run(gather));
  return all;
}

// Of each set of axes of a mesh, named in either order.
absl::Status ExpectAllGroups(const Mesh& mesh, const std::vector<int>& sizes) {
  for (unsigned set = 1; set < 1u << sizes.size(); ++set) {
    SCOPED_TRACE(StrCat("axes ", set));
    Names names;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if ((set >> i & 1) != 0) names.push_back(mesh.axes()[i].name);
    }
    WEFT_ASSIGN_OR_RETURN(const auto group, mesh.Group(names));
    const std::vector<int> expected = RanksAlong(mesh.rank(), sizes, set);
    WEFT_ASSIGN_OR_RETURN(const std::vector<int> ranks, Gathered(*group, mesh.rank()));
    EXPECT_EQ(ranks, expected);
    EXPECT_EQ(expected.at(static_cast<size_t>(group->rank())), mesh.rank());
    // Nothing is made a second time, so nobody needs to come.
    const uint64_t calls = mesh.group()->sequence();
    std::reverse(names.begin(), names.end());
    WEFT_ASSIGN_OR_RETURN(const auto again, mesh.Group(names));
    EXPECT_EQ(again, group);
    EXPECT_EQ(mesh.group()->sequence(), calls);
  }
  return absl::OkStatus();
}

TEST(MeshGroup, HasTheRanksAlongItsAxesInTheOrderOfTheMesh) {
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{
           {1}, {5}, {2, 4}, {3, 2}, {2, 2, 2}, {1, 3, 2}, {2, 1, 2, 2}, {1, 2, 1, 1, 2, 2}}) {
    SCOPED_TRACE(testing::PrintToString(sizes));
    int ranks = 1;
    for (const int size : sizes)
      ranks *= size;
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, ranks, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(std::move(group), AxesOf(sizes)));
          return ExpectAllGroups(*mesh, sizes);
        }));
  }
}

TEST(MeshGroup, IsTheMeshsOwnWhereThatHasOne) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 8, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(group, AxesOf({2, 2, 2})));
        const uint64_t calls = group->sequence();
        for (size_t axis = 0; axis < 3; ++axis) {
          WEFT_ASSIGN_OR_RETURN(const auto along, mesh->Group({StrCat("axis", axis)}));
          EXPECT_EQ(along, mesh->axis_group(axis));
        }
        WEFT_ASSIGN_OR_RETURN(const auto outer, mesh->Group({"axis1", "axis0"}));
        EXPECT_EQ(outer, mesh->outer());
        WEFT_ASSIGN_OR_RETURN(const auto all, mesh->Group({"axis1", "axis0", "axis2"}));
        EXPECT_EQ(all, group);
        EXPECT_EQ(group->sequence(), calls);
        WEFT_ASSIGN_OR_RETURN(const auto made, mesh->Group({"axis1", "axis2"}));
        EXPECT_EQ(made->name(), StrCat(group->name(), ".axis1.axis2"));
        return absl::OkStatus();
      }));
}

TEST(MeshGroup, RefusesNamesWithASentenceThatListsTheAxes) {
  ExpectAllOk(
      RunRanks(GroupKind::kLocal, 4, [&](int, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(
            const auto mesh,
            Mesh::Create(std::move(group), {{"pp", 1}, {"dp", 2}, {"cp", 1}, {"tp", 2}}));
        const auto refused = [&](const Names& names, const char* what) {
          const absl::Status status = mesh->Group(names).status();
          EXPECT_EQ(ResultOf(status), WEFT_INVALID_ARGUMENT) << status;
          EXPECT_THAT(std::string(status.message()), HasSubstr(what));
          EXPECT_THAT(std::string(status.message()), HasSubstr("pp, dp, cp, tp"));
        };
        refused({"dp", "ep"}, "no axis \"ep\"");
        refused({""}, "no axis \"\"");
        refused({"dp", "cp", "dp"}, "axis dp is named twice");
        refused({}, "no axis is named");
        return mesh->group()->Run({.kind = OpKind::kBarrier});
      }));
}

TEST(MeshGroup, SaysOnAllRanksWhichOneNamesOtherAxes) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 8, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(const auto mesh, Mesh::Create(std::move(group), AxesOf({2, 2, 2})));
        const Names right = {"axis0", "axis2"};
        const absl::Status status =
            mesh->Group(rank == 5 ? Names{"axis1", "axis2"} : right).status();
        EXPECT_EQ(ResultOf(status), WEFT_MISMATCH) << status;
        EXPECT_EQ(FieldsOf(status).rank, 5);
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("rank 5 names other axes than rank 0"));
        WEFT_ASSIGN_OR_RETURN(const auto made, mesh->Group(right));
        return made->Run({.kind = OpKind::kBarrier});
      }));
}

// One rank cannot make its part, the first time that one is made after the mesh's axes.
class FailingOnce : public ForwardingGroup {
 public:
  using ForwardingGroup::ForwardingGroup;

  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(int color, int key,
                                                      const GroupOptions& options) override {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> part, group().Split(color, key, options));
    if (rank() != 6 || ++splits_ != kFailing) return part;
    part->Close();
    return MakeError(WEFT_OUT_OF_MEMORY, "there is no memory");
  }

 private:
  static constexpr int kFailing = 5;  // three axes, and all of them but the last

  int splits_ = 0;
};

TEST(MeshGroup, IsMadeOnAllRanksOrOnNone) {
  ExpectAllOk(RunRanks(
      GroupKind::kLocal, 8, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
        WEFT_ASSIGN_OR_RETURN(
            const auto mesh,
            Mesh::Create(std::make_shared<FailingOnce>(std::move(group)), AxesOf({2, 2, 2})));
        const Names names = {"axis1", "axis2"};
        const absl::Status status = mesh->Group(names).status();
        EXPECT_EQ(ResultOf(status), rank == 6 ? WEFT_OUT_OF_MEMORY : WEFT_REMOTE_ERROR) << status;
        if (rank != 6) {
          EXPECT_EQ(FieldsOf(status).rank, 6);
        }
        WEFT_ASSIGN_OR_RETURN(const auto made, mesh->Group(names));
        return made->Run({.kind = OpKind::kBarrier});
      }));
}

// Data parallelism over two axes of three: every rank along the third trains a model of its own
// with those along the others.
TEST(MeshGroup, HasContextsWithTheGradientsOfItsRanks) {
  const std::vector<ModelParam> model = SmallModel();
  for (const weft_shard_preset_t preset :
       {WEFT_SHARD_NO_SHARD, WEFT_SHARD_FULL_SHARD, WEFT_SHARD_HYBRID_SHARD}) {
    SCOPED_TRACE(PresetName(preset));
    ExpectAllOk(RunRanks(
        GroupKind::kLocal, 8, [&](int rank, std::shared_ptr<ProcessGroup> group) -> absl::Status {
          WEFT_ASSIGN_OR_RETURN(const auto mesh,
                                Mesh::Create(std::move(group), {{"dp", 2}, {"cp", 2}, {"tp", 2}}));
          WEFT_ASSIGN_OR_RETURN(const auto data, mesh->Group({"dp", "cp"}));
          const bool hybrid = preset == WEFT_SHARD_HYBRID_SHARD;
          const Scenario scenario{
              .seed = 7 + static_cast<uint64_t>(rank % 2), .ranks = 4, .replica = hybrid ? 2 : 0};
          WEFT_ASSIGN_OR_RETURN(
              auto context,
              MakeContext(data, {}, hybrid ? std::vector<int>{2, 2} : std::vector<int>{}));
          WEFT_RETURN_IF_ERROR(Declare(*context, model, PlacementOf(preset)));
          WEFT_RETURN_IF_ERROR(context->Finalize().status());
          for (int step = 0; step < scenario.steps; ++step) {
            WEFT_RETURN_IF_ERROR(RunStep(*context, model, scenario, data->rank(), step).status());
            WEFT_RETURN_IF_ERROR(
                ExpectOwn(*context, model, ExpectedGradients(model, scenario, step)));
            WEFT_RETURN_IF_ERROR(context->StepEnd());
          }
          return absl::OkStatus();
        }));
  }
}

}  // namespace
}  // namespace weft::mesh_group_test
