#include "shard/mesh.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

absl::Status Invalid(std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, {.operation = "mesh_create"},
                   StrCat("mesh_create: ", what));
}

absl::Status CheckAxes(const std::vector<MeshAxis>& axes, int group_size) {
  int64_t product = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name.empty()) return Invalid(StrCat("axis ", i, " has no name; give it one"));
    for (size_t j = 0; j < i; ++j) {
      if (axes[j].name == axes[i].name) {
        return Invalid(StrCat("two axes are named ", axes[i].name, "; names are unique"));
      }
    }
    if (axes[i].size < 1 || axes[i].size > group_size) {
      return Invalid(StrCat("axis ", axes[i].name, " has size ", axes[i].size, " in a group of ",
                            group_size, " ranks; 1 to ", group_size, " are possible"));
    }
    product *= axes[i].size;
    if (product > group_size) break;
  }
  if (product != group_size) {
    return Invalid(StrCat("the axes' sizes multiply to ", product,
                          product > group_size ? " or more" : "", ", the group has ", group_size,
                          " ranks; make them equal"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Mesh>> Mesh::Create(std::shared_ptr<ProcessGroup> group,
                                                         std::vector<MeshAxis> axes) {
  if (axes.empty()) axes.push_back({"data", group->size()});
  WEFT_RETURN_IF_ERROR(CheckAxes(axes, group->size()));
  std::shared_ptr<Mesh> mesh(new Mesh(std::move(group), std::move(axes)));
  WEFT_RETURN_IF_ERROR(mesh->SplitAxes());
  return std::shared_ptr<const Mesh>(std::move(mesh));
}

Mesh::Mesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshAxis> axes)
    : group_(std::move(group)), axes_(std::move(axes)) {}

Mesh::~Mesh() {
  if (axes_.size() == 1) return;
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
