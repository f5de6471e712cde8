#include "shard/layout/mesh.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "comm/group/number_hash.h"
#include "comm/group/split_wish.h"

namespace weft {
namespace {

constexpr char kGroupCall[] = "mesh_group";
constexpr uint32_t kAxesSalt = 0x61786573;  // in the signature: no call of a user's is taken for it

absl::Status InvalidMesh(const char* call, std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = call}, StrCat(call, ": ", what));
}

absl::Status CheckNames(const char* call, const std::vector<MeshAxis>& axes) {
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) {
      return InvalidMesh(call, StrCat("axis ", i, " has no name; give it one"));
    }
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axes[i].name) {
        return InvalidMesh(call, StrCat("two axes are named ", axes[i].name, "; names are unique"));
      }
    }
  }
  return absl::OkStatus();
}

// The product of the sizes, or more than `ranks_max` if it is that.
int64_t RanksOf(const std::vector<MeshAxis>& axes, int ranks_max) {
  int64_t product = 1;
  for (const MeshAxis& axis : axes) {
    product *= axis.size;
    if (product > ranks_max) break;
  }
  return product;
}

absl::Status CheckAxes(const std::vector<MeshAxis>& axes, int group_size) {
  constexpr char kCall[] = "mesh_create";
  WEFT_RETURN_IF_ERROR(CheckNames(kCall, axes));
  for (const MeshAxis& axis : axes) {
    if (axis.size >= 1 && axis.size <= group_size) continue;
    return InvalidMesh(kCall, StrCat("axis ", axis.name, " has size ", axis.size, " in a group of ",
                                     group_size, " ranks; 1 to ", group_size, " are possible"));
  }
  const int64_t product = RanksOf(axes, group_size);
  if (product == group_size) return absl::OkStatus();
  return InvalidMesh(
      kCall, StrCat("the axes' sizes multiply to ", product, product > group_size ? " or more" : "",
                    ", the group has ", group_size, " ranks; make them equal"));
}

absl::Status CheckDryAxes(const std::vector<MeshAxis>& axes, int rank) {
  constexpr char kCall[] = "mesh_create_dry";
  constexpr int kMost = Mesh::kDryRanksMax;
  if (axes.empty()) {
    return InvalidMesh(kCall,
                       "there is no axis; without a group the number of ranks is not known, "
                       "so give the axes' names and sizes");
  }
  WEFT_RETURN_IF_ERROR(CheckNames(kCall, axes));
  for (const MeshAxis& axis : axes) {
    if (axis.size >= 1 && axis.size <= kMost) continue;
    return InvalidMesh(kCall, StrCat("axis ", axis.name, " has size ", axis.size, "; 1 to ", kMost,
                                     " are possible"));
  }
  const int64_t product = RanksOf(axes, kMost);
  if (product > kMost) {
    return InvalidMesh(kCall, StrCat("the axes' sizes multiply to ", product, " or more; up to ",
                                     kMost, " ranks are possible"));
  }
  if (rank >= 0 && rank < product) return absl::OkStatus();
  return InvalidMesh(
      kCall, StrCat("rank is ", rank, ", the mesh has ", product, " ranks; pass one from 0"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Mesh>> Mesh::Create(std::shared_ptr<ProcessGroup> group,
                                                         std::vector<MeshAxis> axes) {
  if (axes.empty()) axes.push_back({"data", group->size()});
  WEFT_RETURN_IF_ERROR(CheckAxes(axes, group->size()));
  const int rank = group->rank();
  const int size = group->size();
  std::shared_ptr<Mesh> mesh(new Mesh(std::move(group), std::move(axes), rank, size));
  WEFT_RETURN_IF_ERROR(mesh->SplitAxes());
  return std::shared_ptr<const Mesh>(std::move(mesh));
}

absl::StatusOr<std::shared_ptr<const Mesh>> Mesh::CreateDry(std::vector<MeshAxis> axes, int rank) {
  WEFT_RETURN_IF_ERROR(CheckDryAxes(axes, rank));
  const auto size = static_cast<int>(RanksOf(axes, kDryRanksMax));
  return std::shared_ptr<const Mesh>(new Mesh(nullptr, std::move(axes), rank, size));
}

Mesh::Mesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshAxis> axes, int rank, int size)
    : group_(std::move(group)), axes_(std::move(axes)), rank_(rank), size_(size) {}

Mesh::~Mesh() {
  for (const auto& [axes, group] : groups_) {
    if (group != group_) group->Close();
  }
}

std::string Mesh::Names(const AxisSet& axes, const char* separator) const {
  std::string names;
  for (const size_t axis : axes)
    absl::StrAppend(&names, names.empty() ? "" : separator, axes_[axis].name);
  return names;
}

absl::StatusOr<Mesh::AxisSet> Mesh::FindAxes(const std::vector<std::string>& names) const {
  AxisSet all;
  for (size_t axis = 0; axis < axes_.size(); ++axis)
    all.insert(axis);
  AxisSet found;
  for (const std::string& name : names) {
    const auto axis = std::find_if(axes_.begin(), axes_.end(),
                                   [&](const MeshAxis& known) { return known.name == name; });
    if (axis == axes_.end()) {
      return InvalidMesh(kGroupCall, StrCat("the mesh has no axis \"", name, "\"; its axes are ",
                                            Names(all, ", ")));
    }
    if (!found.insert(static_cast<size_t>(axis - axes_.begin())).second) {
      return InvalidMesh(kGroupCall, StrCat("axis ", name, " is named twice; name each of ",
                                            Names(all, ", "), " at most once"));
    }
  }
  if (!found.empty()) return found;
  return InvalidMesh(kGroupCall,
                     StrCat("no axis is named; name one or several of ", Names(all, ", ")));
}

// Of the ranks along `axes`, this one among them: the one whose places on them are 0. A rank's
// place on an axis is (rank / stride) % size, where the stride is the product of the sizes after
// it.
int Mesh::FirstRankAlong(const AxisSet& axes) const {
  int first = rank_;
  int stride = size_;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    stride /= axes_[axis].size;
    if (axes.contains(axis)) first -= rank_ / stride % axes_[axis].size * stride;
  }
  return first;
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> Mesh::Split(const AxisSet& axes,
                                                          const std::string& name) const {
  return group_->Split(FirstRankAlong(axes), rank_,
                       {.name = StrCat(group_->name(), ".", name), .ends_whole = true});
}

// Either all ranks have their groups, or none keeps one: a later call must find all alike.
absl::Status Mesh::AgreeOn(const AxisSet& axes, const absl::Status& made) const {
  struct Outcome {
    uint64_t axes;
    int32_t result;  // weft_result_t of making the group
    uint32_t unused;
  };

  NumberHash hash;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    hash.Add(static_cast<uint64_t>(axes_[axis].size));
    hash.Add(axes.contains(axis) ? 1 : 0);
  }
  const Outcome mine{.axes = hash.Get(), .result = ResultOf(made), .unused = 0};
  std::vector<Outcome> all;
  WEFT_RETURN_IF_ERROR(ExchangeForSplit(*group_, {}, kAxesSalt, mine, &all));
  for (int rank = 0; rank < size_; ++rank) {
    const Outcome& outcome = all[static_cast<size_t>(rank)];
    if (outcome.axes != all[0].axes) {
      return MakeError(WEFT_MISMATCH, CulpritOf(*group_, rank, kGroupCall),
                       StrCat("rank ", rank, " names other axes than rank 0; this rank, ", rank_,
                              ", names ", Names(axes, ", "), "; name the same on all ranks"));
    }
    if (outcome.result != WEFT_SUCCESS) {
      return MakeError(WEFT_REMOTE_ERROR, CulpritOf(*group_, rank, kGroupCall),
                       StrCat("rank ", rank, " could not make its group; its own error says why"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> Mesh::Group(
    const std::vector<std::string>& names) const {
  WEFT_ASSIGN_OR_RETURN(const AxisSet axes, FindAxes(names));
  MutexLock lock(mutex_);
  if (const auto known = groups_.find(axes); known != groups_.end()) return known->second;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> made = Split(axes, Names(axes, "."));
  const absl::Status agreed = AgreeOn(axes, made.status());
  if (made.ok() && agreed.ok()) {
    groups_[axes] = *made;
    return made;
  }
  if (made.ok()) (*made)->Close();
  return Annotate(made.ok() ? agreed : made.status(),
                  StrCat(kGroupCall, ", axes ", Names(axes, ", "), ": "));
}

absl::StatusOr<std::shared_ptr<ProcessGroup>> Mesh::SplitNew(const AxisSet& axes,
                                                             const std::string& name) {
  if (const auto known = groups_.find(axes); known != groups_.end()) return known->second;
  absl::StatusOr<std::shared_ptr<ProcessGroup>> made = Split(axes, name);
  if (!made.ok())
    return Annotate(made.status(), StrCat("mesh_create, splitting axis ", name, ": "));
  groups_[axes] = *made;
  return made;
}

absl::Status Mesh::SplitAxes() {
  MutexLock lock(mutex_);
  AxisSet all;
  AxisSet of_outer;
  for (size_t axis = 0; axis < axes_.size(); ++axis) {
    all.insert(axis);
    if (axis + 1 < axes_.size()) of_outer.insert(axis);
  }
  groups_[all] = group_;
  for (const size_t axis : all) {
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> group, SplitNew({axis}, axes_[axis].name));
    axis_groups_.push_back(std::move(group));
  }
  if (!of_outer.empty()) {
    WEFT_ASSIGN_OR_RETURN(outer_, SplitNew(of_outer, "outer"));
  }
  return absl::OkStatus();
}

}  // namespace weft
