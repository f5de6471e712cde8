#include "topology/read_topology.h"

#include <cerrno>

#include <fcntl.h>

#include "base/fd.h"
#include "base/file.h"
#include "base/new_fd.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "topology/sysfs_topology.h"
#include "topology/topology_json.h"

namespace weft {

absl::StatusOr<Topology> ReadTopology() {
  const std::string& file = GetOptions().topology_file;
  if (file.empty()) return ReadSysfsTopology("");
  absl::StatusOr<Topology> topology = ReadTopologyFile(file);
  if (!topology.ok()) return Annotate(topology.status(), "WEFT_TOPOLOGY_FILE: ");
  return topology;
}

absl::StatusOr<Topology> ReadTopologyFile(const std::string& path) {
  // A pipe that nobody writes to is not waited for.
  const UniqueFd fd = OpenFile(path, O_RDONLY | O_NONBLOCK);
  if (!fd.valid()) return SystemError(errno, StrCat("opening ", path));
  WEFT_ASSIGN_OR_RETURN(const std::string text,
                        ReadFile(fd.get(), kTopologyTextBytesMax + 1, StrCat("reading ", path)));
  absl::StatusOr<Topology> topology = TopologyFromJson(text);
  if (!topology.ok()) return Annotate(topology.status(), path + ": ");
  return topology;
}

}  // namespace weft
