// Named axes over the ranks of a group, the last one varying fastest.
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const Mesh> mesh, Mesh::Create(group, {{"data", 8}}));
//
// This version has one axis; several are UNSUPPORTED. Thread-safety: constant after Create. Shares
// the group.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "comm/group/process_group.h"

namespace weft {

struct MeshAxis {
  std::string name;
  int size = 0;
};

class Mesh {
 public:
  // No axes: one named "data" of the group's size. INVALID_ARGUMENT for an empty or repeated name
  // or sizes whose product is not the group's.
  static absl::StatusOr<std::shared_ptr<const Mesh>> Create(std::shared_ptr<ProcessGroup> group,
                                                            std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }

  const std::shared_ptr<ProcessGroup>& group() const { return group_; }

 private:
  Mesh(std::shared_ptr<ProcessGroup> group, std::vector<MeshAxis> axes);

  const std::shared_ptr<ProcessGroup> group_;
  const std::vector<MeshAxis> axes_;
};

}  // namespace weft
