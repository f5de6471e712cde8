// hwloc's inline functions call its others by name, which are not linked: only what needs none of them is used.
#include "topology/hwloc_topology.h"

#include "base/status.h"
#include "base/text.h"

#ifdef WEFT_WITH_HWLOC
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <hwloc.h>
#include <hwloc/distances.h>

#include "base/host.h"
#include "base/shared_library.h"
#endif

namespace weft {

#ifndef WEFT_WITH_HWLOC

absl::StatusOr<Topology> ReadHwlocTopology() {
  return MakeError(WEFT_UNSUPPORTED,
                   "this weft was built without hwloc (its headers, or WEFT_WITH_HWLOC=OFF)");
}

#else

namespace {

// All of version 2 have this name; hwloc_get_api_version tells the rest.
constexpr char kLibrary[] = "libhwloc.so.15";
constexpr unsigned kMajorVersion = HWLOC_API_VERSION >> 16;

struct Hwloc {
  decltype(&hwloc_get_api_version) get_api_version;
  decltype(&hwloc_topology_init) init;
  decltype(&hwloc_topology_destroy) destroy;
  decltype(&hwloc_topology_set_flags) set_flags;
  decltype(&hwloc_topology_set_io_types_filter) set_io_types_filter;
  decltype(&hwloc_topology_load) load;
  decltype(&hwloc_get_type_depth) get_type_depth;
  decltype(&hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&hwloc_bitmap_list_asprintf) bitmap_list_asprintf;
  decltype(&hwloc_bitmap_weight) bitmap_weight;
  decltype(&hwloc_bitmap_first) bitmap_first;
  decltype(&hwloc_distances_get_by_type) distances_get_by_type;
  decltype(&hwloc_distances_release) distances_release;
};

// Opened for good: its plugins do not expect to be unloaded.
absl::StatusOr<Hwloc> OpenHwloc() {
  const absl::StatusOr<void*> library = OpenLibrary(kLibrary);
  if (!library.ok()) {
    return MakeError(WEFT_UNSUPPORTED, StrCat("opening hwloc: ", library.status().message(),
                                              "; install it (Debian: libhwloc15)"));
  }
  Hwloc hwloc{};
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(dlsym(*library, name));
    if (*function == nullptr) missing = name;
  };
  find("hwloc_get_api_version", &hwloc.get_api_version);
  find("hwloc_topology_init", &hwloc.init);
  find("hwloc_topology_destroy", &hwloc.destroy);
  find("hwloc_topology_set_flags", &hwloc.set_flags);
  find("hwloc_topology_set_io_types_filter", &hwloc.set_io_types_filter);
  find("hwloc_topology_load", &hwloc.load);
  find("hwloc_get_type_depth", &hwloc.get_type_depth);
  find("hwloc_get_nbobjs_by_depth", &hwloc.get_nbobjs_by_depth);
  find("hwloc_get_obj_by_depth", &hwloc.get_obj_by_depth);
  find("hwloc_bitmap_list_asprintf", &hwloc.bitmap_list_asprintf);
  find("hwloc_bitmap_weight", &hwloc.bitmap_weight);
  find("hwloc_bitmap_first", &hwloc.bitmap_first);
  find("hwloc_distances_get_by_type", &hwloc.distances_get_by_type);
  find("hwloc_distances_release", &hwloc.distances_release);
  if (missing != nullptr)
    return MakeError(WEFT_UNSUPPORTED, StrCat("opening hwloc: it has no ", missing));
  if (hwloc.get_api_version() >> 16 != kMajorVersion) {
    return MakeError(WEFT_UNSUPPORTED,
                     StrCat("opening hwloc: it has the interface of version ",
                            hwloc.get_api_version() >> 16, ", not ", kMajorVersion));
  }
  return hwloc;
}

// One topology of hwloc's, being read.
class HwlocReader {
 public:
  explicit HwlocReader(const Hwloc& hwloc) : hwloc_(hwloc) {}

  HwlocReader(const HwlocReader&) = delete;
  HwlocReader& operator=(const HwlocReader&) = delete;

  ~HwlocReader() {
    if (loaded_ != nullptr) hwloc_.destroy(loaded_);
  }

  absl::StatusOr<Topology> Read() {
    if (hwloc_.init(&loaded_) != 0 ||
        hwloc_.set_flags(loaded_, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc_.set_io_types_filter(loaded_, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        hwloc_.load(loaded_) != 0) {
      return SystemError(errno, "reading this machine's topology by hwloc");
    }
    Topology topology;
    topology.source = "hwloc";
    topology.hypervisor = ReadHostFacts().hypervisor;
    WEFT_RETURN_IF_ERROR(ReadMachine(&topology));
    constexpr hwloc_obj_type_t kTypes[] = {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_NUMANODE, HWLOC_OBJ_L3CACHE,
                                           HWLOC_OBJ_CORE};
    for (const ObjectKind kind : kObjectKinds)
      WEFT_RETURN_IF_ERROR(
          ReadObjects(kTypes[static_cast<size_t>(kind)], &topology.ObjectsOf(kind)));
    ReadNumaDistances(&topology);
    ReadNetwork(&topology);
    WEFT_RETURN_IF_ERROR(CompleteTopology(&topology));
    return topology;
  }

 private:
  std::vector<hwloc_obj_t> ObjectsOfType(hwloc_obj_type_t type) const {
    std::vector<hwloc_obj_t> objects;
    const int depth = hwloc_.get_type_depth(loaded_, type);
    if (depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE) return objects;
    const unsigned count = hwloc_.get_nbobjs_by_depth(loaded_, depth);
    for (unsigned i = 0; i < std::min<unsigned>(count, kTopologyObjectsMax + 1); ++i) {
      const hwloc_obj_t object = hwloc_.get_obj_by_depth(loaded_, depth, i);
      if (object != nullptr) objects.push_back(object);
    }
    return objects;
  }

  // "" if there is none.
  static std::string InfoOf(hwloc_obj_t object, std::string_view name) {
    for (unsigned i = 0; i < object->infos_count; ++i) {
      if (name == object->infos[i].name) return PlainText(object->infos[i].value);
    }
    return "";
  }

  static std::string PlainText(std::string_view text) {
    std::string plain(text.substr(0, kTopologyNameBytesMax));
    std::replace_if(
        plain.begin(), plain.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
    return plain;
  }

  absl::StatusOr<CpuSet> CpusOf(hwloc_obj_t object) const {
    char* text = nullptr;
    if (object->cpuset == nullptr) return CpuSet();
    if (hwloc_.bitmap_list_asprintf(&text, object->cpuset) < 0 || text == nullptr)
      return SystemError(ENOMEM, "reading hwloc's CPUs");
    const std::unique_ptr<char, void (*)(void*)> owned(text, &std::free);
    return CpuSet::FromList(text);
  }

  absl::Status ReadMachine(Topology* topology) const {
    const hwloc_obj_t root = hwloc_.get_obj_by_depth(loaded_, 0, 0);
    if (root == nullptr) return MakeError(WEFT_CORRUPT, "hwloc has no machine");
    WEFT_ASSIGN_OR_RETURN(topology->cpus, CpusOf(root));
    topology->host = InfoOf(root, "HostName");
    topology->cpu_model = InfoOf(root, "CPUModel");
    for (const hwloc_obj_t package : ObjectsOfType(HWLOC_OBJ_PACKAGE)) {
      if (topology->cpu_model.empty()) topology->cpu_model = InfoOf(package, "CPUModel");
    }
    return absl::OkStatus();
  }

  absl::Status ReadObjects(hwloc_obj_type_t type, std::vector<TopologyObject>* objects) const {
    for (const hwloc_obj_t object : ObjectsOfType(type)) {
      TopologyObject found;
      WEFT_ASSIGN_OR_RETURN(found.cpus, CpusOf(object));
      // It has no number if the system told none.
      found.number = object->os_index <= static_cast<unsigned>(kObjectNumberMax)
                         ? static_cast<int>(object->os_index)
                         : static_cast<int>(objects->size());
      if (type == HWLOC_OBJ_L3CACHE) found.bytes = object->attr->cache.size;
      if (type == HWLOC_OBJ_NUMANODE) found.bytes = object->attr->numanode.local_memory;
      objects->push_back(std::move(found));
    }
    return absl::OkStatus();
  }

  // Of the nodes in hwloc's order, if it has all of them.
  void ReadNumaDistances(Topology* topology) const {
    hwloc_distances_s* distances = nullptr;
    unsigned count = 1;
    if (hwloc_.distances_get_by_type(loaded_, HWLOC_OBJ_NUMANODE, &count, &distances,
                                     HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
        count == 0 || distances == nullptr) {
      return;
    }
    const std::vector<hwloc_obj_t> nodes = ObjectsOfType(HWLOC_OBJ_NUMANODE);
    const bool same = distances->nbobjs == nodes.size() &&
                      std::equal(nodes.begin(), nodes.end(), distances->objs);
    for (size_t row = 0; same && row < nodes.size(); ++row) {
      topology->numa_distances.emplace_back();
      for (size_t column = 0; column < nodes.size(); ++column) {
        const uint64_t distance = distances->values[row * nodes.size() + column];
        topology->numa_distances.back().push_back(
            static_cast<int>(std::min<uint64_t>(distance, kObjectNumberMax)));
      }
    }
    hwloc_.distances_release(loaded_, distances);
  }

  void ReadNetwork(Topology* topology) const {
    const std::vector<hwloc_obj_t> devices = ObjectsOfType(HWLOC_OBJ_OS_DEVICE);
    for (const hwloc_obj_t object : devices) {
      if (object->attr->osdev.type != HWLOC_OBJ_OSDEV_NETWORK || object->name == nullptr) continue;
      NetworkDevice device{.name = PlainText(object->name), .kind = KindOf(object)};
      device.numa_node = NodeNear(object, *topology);
      for (hwloc_obj_t outer = object->parent; outer != nullptr && device.pci.size() < kPciPathMax;
           outer = outer->parent) {
        if (outer->type == HWLOC_OBJ_PCI_DEVICE)
          device.pci.push_back(AddressOf(outer->attr->pcidev));
        // The host's own bridge is on no PCI bus.
        if (outer->type == HWLOC_OBJ_BRIDGE &&
            outer->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
          device.pci.push_back(AddressOf(outer->attr->bridge.upstream.pci));
      }
      std::reverse(device.pci.begin(), device.pci.end());
      for (const hwloc_obj_t other : devices) {
        if (other->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS && other->name != nullptr &&
            other->parent == object->parent && object->parent->type == HWLOC_OBJ_PCI_DEVICE)
          device.rdma = PlainText(other->name);
      }
      topology->network.push_back(std::move(device));
    }
  }

  // Hardware addresses have 6 bytes or 20.
  static std::string KindOf(hwloc_obj_t object) {
    constexpr size_t kEthernetLength = 17;
    constexpr size_t kInfinibandLength = 59;
    const size_t length = InfoOf(object, "Address").size();
    return length == kEthernetLength     ? "ethernet"
           : length == kInfinibandLength ? "infiniband"
                                         : "other";
  }

  static std::string AddressOf(const hwloc_obj_attr_u::hwloc_pcidev_attr_s& pci) {
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", static_cast<unsigned>(pci.domain), pci.bus,
                       pci.dev, static_cast<unsigned>(pci.func & 7));
  }

  // Of the innermost object around it that has CPUs or memory: its node, if that is one.
  int NodeNear(hwloc_obj_t object, const Topology& topology) const {
    while (object != nullptr && object->nodeset == nullptr)
      object = object->parent;
    if (object == nullptr || hwloc_.bitmap_weight(object->nodeset) != 1) return -1;
    const int node = hwloc_.bitmap_first(object->nodeset);
    const auto found = std::find_if(topology.numa_nodes.begin(), topology.numa_nodes.end(),
                                    [&](const TopologyObject& one) { return one.number == node; });
    return found == topology.numa_nodes.end() ? -1 : node;
  }

  const Hwloc& hwloc_;
  hwloc_topology_t loaded_ = nullptr;
};

}  // namespace

absl::StatusOr<Topology> ReadHwlocTopology() {
  WEFT_ASSIGN_OR_RETURN(const Hwloc hwloc, OpenHwloc());
  return HwlocReader(hwloc).Read();
}

#endif

}  // namespace weft
