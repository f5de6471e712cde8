#include "shard/layout/mesh.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

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
  if (axes_.size() == 1 || dry()) return;
  for (const std::shared_ptr<ProcessGroup>& group : axis_groups_)
    group->Close();
  if (axes_.size() > 2 && outer_ != nullptr) outer_->Close();
}

// A rank's place on an axis is (rank / stride) % size, where the stride is the product of the sizes after it.
absl::Status Mesh::SplitAxes() {
  if (axes_.size() == 1) {
    axis_groups_.push_back(group_);
    return absl::OkStatus();
  }
  const int rank = group_->rank();
  const auto split = [&](const std::string& name,
                         int color) -> absl::StatusOr<std::shared_ptr<ProcessGroup>> {
    absl::StatusOr<std::shared_ptr<ProcessGroup>> made =
        group_->Split(color, rank, {.name = StrCat(group_->name(), ".", name)});
    if (made.ok()) return made;
    return Annotate(made.status(), StrCat("mesh_create, splitting axis ", name, ": "));
  };
  int stride = group_->size();
  for (const MeshAxis& axis : axes_) {
    const int outer_part = rank / stride * stride;
    stride /= axis.size;
    WEFT_ASSIGN_OR_RETURN(std::shared_ptr<ProcessGroup> group,
                          split(axis.name, outer_part + rank % stride));
    axis_groups_.push_back(std::move(group));
  }
  outer_ = axis_groups_[0];
  if (axes_.size() > 2) {
    WEFT_ASSIGN_OR_RETURN(outer_, split("outer", rank % axes_.back().size));
  }
  return absl::OkStatus();
}

}  // namespace weft
