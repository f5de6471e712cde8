// Named axes over the ranks of a group, the last one varying fastest.
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Mesh> mesh,
//                         Mesh::Create(group, {{"replica", 2}, {"shard", 4}}));
//   mesh->inner();       // the 4 ranks of this rank's replica
//   mesh->outer();       // the 2 ranks that are at this rank's place of their replicas
//   mesh->Group({"replica", "shard"});   // the ranks along several axes
//
// Create is collective if there are several axes: it splits the group. CreateDry makes a mesh of
// ranks that do not exist, on which contexts can be planned and nothing else: it has no groups.
//
// A failure in one of the mesh's groups ends all of them, and the group that it was made on, with
// the same cause (GroupOptions::ends_whole): a rank that waits in one may wait for a rank that has
// been told in another.
//
// Thread-safety: constant after Create, but for Group(), which any thread may call. Shares the
// group; closes those that it has split in the destructor.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "comm/group/process_group.h"

namespace weft {

struct MeshAxis {
  std::string name;
  int size = 0;
};

class Mesh {
 public:
  static constexpr int kDryRanksMax = 1 << 20;

  // No axes: one named "data" of the group's size. INVALID_ARGUMENT for an empty or repeated name
  // or sizes whose product is not the group's, and what a split fails with.
  static absl::StatusOr<std::shared_ptr<const Mesh>> Create(std::shared_ptr<ProcessGroup> group,
                                                            std::vector<MeshAxis> axes);
  // As seen by rank `rank`. INVALID_ARGUMENT as for Create, and for no axes, more ranks than
  // kDryRanksMax, or a rank that is not among them.
  static absl::StatusOr<std::shared_ptr<const Mesh>> CreateDry(std::vector<MeshAxis> axes,
                                                               int rank);
  ~Mesh();
  Mesh(const Mesh&) = delete;
  Mesh& operator=(const Mesh&) = delete;

  const std::vector<MeshAxis>& axes() const { return axes_; }

  // This rank among all, and among those along the last axis.
  int rank() const { return rank_; }

  int size() const { return size_; }

  int inner_rank() const { return rank_ % inner_size(); }

  // Alike on the ranks along the last axis: the number of their replica.
  int outer_rank() const { return rank_ / inner_size(); }

  int inner_size() const { return axes_.back().size; }

  // Nobody is there: no group below exists.
  bool dry() const { return group_ == nullptr; }

  const std::shared_ptr<ProcessGroup>& group() const { return group_; }

  // The ranks that differ from this one in their place on axis `axis` only.
  const std::shared_ptr<ProcessGroup>& axis_group(size_t axis) const { return axis_groups_[axis]; }

  // The ranks that differ from this one in their places on these axes only, numbered as in the
  // mesh. Names in any order mean one group, which is made by the first call with them and lives as
  // long as the mesh: that call is collective over the mesh's group, as a split is, and other
  // threads' calls wait for it. Not of a dry mesh. INVALID_ARGUMENT: no name, unknown ones, one
  // twice. MISMATCH: ranks name different axes; REMOTE_ERROR: another rank could not make it. Both
  // come on all ranks, which may call again.
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Group(const std::vector<std::string>& names) const;

  // The ranks along the last axis; the whole group if there is one axis.
  const std::shared_ptr<ProcessGroup>& inner() const { return axis_groups_.back(); }

  // The ranks with the same place on the last axis; nullptr if there is one axis.
  const std::shared_ptr<ProcessGroup>& outer() const { return outer_; }

 private:
  using AxisSet = std::set<size_t>;

  Mesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshAxis> axes, int rank, int size);
  std::string Names(const AxisSet& axes, const char* separator) const;
  absl::StatusOr<AxisSet> FindAxes(const std::vector<std::string>& names) const;
  int FirstRankAlong(const AxisSet& axes) const;
  absl::Status AgreeOn(const AxisSet& axes, const absl::Status& made) const;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> Split(const AxisSet& axes,
                                                      const std::string& name) const;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> SplitNew(const AxisSet& axes,
                                                         const std::string& name)
      WEFT_REQUIRES(mutex_);
  absl::Status SplitAxes();

  const std::shared_ptr<ProcessGroup> group_;
  const std::vector<MeshAxis> axes_;
  const int rank_;
  const int size_;
  std::vector<std::shared_ptr<ProcessGroup>> axis_groups_;
  std::shared_ptr<ProcessGroup> outer_;

  mutable Mutex mutex_;
  // All of them, those above included.
  mutable std::map<AxisSet, std::shared_ptr<ProcessGroup>> groups_ WEFT_GUARDED_BY(mutex_);
};

}  // namespace weft
