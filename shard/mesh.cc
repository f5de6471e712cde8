#include "shard/mesh.h"

#include <cstdint>
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
  if (axes.size() > 1) {
    return MakeError(WEFT_UNSUPPORTED, {.operation = "mesh_create"},
                     StrCat("mesh_create: ", axes.size(),
                            " axes were asked for, this version has one; use a group per axis"));
  }
  return std::shared_ptr<const Mesh>(new Mesh(std::move(group), std::move(axes)));
}

Mesh::Mesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshAxis> axes)
    : group_(std::move(group)), axes_(std::move(axes)) {}

}  // namespace weft
