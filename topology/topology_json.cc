#include "topology/topology_json.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "base/json_reader.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr uint64_t kJsonNumberMax = uint64_t{1} << 60;

// ,"name":[ with an element per line ].
std::string ListText(const char* name, const std::vector<Json>& list) {
  std::string text = StrCat(",\n\"", name, "\":[");
  for (size_t i = 0; i < list.size(); ++i)
    text += StrCat(i == 0 ? "\n" : ",\n", JsonLine(list[i]));
  return text + "]";
}

// `bytes`: what the size is called, nullptr if the kind has none.
std::vector<Json> ObjectsAsJson(const std::vector<TopologyObject>& objects, const char* bytes) {
  std::vector<Json> list;
  for (const TopologyObject& object : objects) {
    Json json = {{"number", object.number}, {"cpus", object.cpus.ToList()}};
    if (bytes != nullptr && object.bytes != 0) json[bytes] = object.bytes;
    list.push_back(std::move(json));
  }
  return list;
}

Json DeviceAsJson(const NetworkDevice& device) {
  Json json = {{"name", device.name}, {"kind", device.kind}};
  if (device.speed_mbit_s != 0) json["speed_mbit_s"] = device.speed_mbit_s;
  if (device.numa_node != -1) json["numa_node"] = device.numa_node;
  if (!device.pci.empty()) json["pci"] = device.pci;
  if (!device.rdma.empty()) json["rdma"] = device.rdma;
  return json;
}

// Members by their names, most of which may be missing.
class TopologyReader : public JsonReader {
 public:
  TopologyReader() : JsonReader("the text of the topology") {}

  int64_t NumberOf(const Json& json, const char* name, uint64_t most) {
    return static_cast<int64_t>(Number(Member(json, name), most));
  }

  int64_t NumberOr(const Json& json, const char* name, uint64_t most, int64_t otherwise) {
    const Json& value = Member(json, name, /*optional=*/true);
    return value.is_null() ? otherwise : static_cast<int64_t>(Number(value, most));
  }

  std::string TextOf(const Json& json, const char* name) {
    const Json& value = Member(json, name, /*optional=*/true);
    return value.is_null() ? std::string() : Text(value);
  }

  bool FlagOf(const Json& json, const char* name) {
    const Json& value = Member(json, name, /*optional=*/true);
    return !value.is_null() && Flag(value);
  }

  CpuSet Cpus(const Json& json) {
    absl::StatusOr<CpuSet> cpus = CpuSet::FromList(Text(Member(json, "cpus")));
    if (cpus.ok()) return *std::move(cpus);
    Fail(FromAbsl(cpus.status().message()));
    return {};
  }

  // None if it is not there.
  std::vector<const Json*> ListOf(const Json& json, const char* name, size_t most) {
    const Json& value = Member(json, name, /*optional=*/true);
    return value.is_null() ? std::vector<const Json*>() : List(value, 0, most);
  }
};

std::vector<TopologyObject> ReadObjects(TopologyReader* reader, const Json& json, const char* name,
                                        const char* bytes) {
  std::vector<TopologyObject> objects;
  for (const Json* const one : reader->ListOf(json, name, kTopologyObjectsMax)) {
    if (!reader->ok()) return objects;
    TopologyObject object;
    object.number = static_cast<int>(reader->NumberOf(*one, "number", kObjectNumberMax));
    object.cpus = reader->Cpus(*one);
    if (bytes != nullptr)
      object.bytes = static_cast<uint64_t>(reader->NumberOr(*one, bytes, kJsonNumberMax, 0));
    objects.push_back(std::move(object));
  }
  return objects;
}

std::vector<std::vector<int>> ReadDistances(TopologyReader* reader, const Json& json) {
  std::vector<std::vector<int>> rows;
  for (const Json* const row : reader->ListOf(json, "numa_distances", kNumaNodesMax)) {
    rows.emplace_back();
    if (!row->is_array() || row->size() > kNumaNodesMax) {
      reader->Fail("a row of NUMA distances that is no list");
      return rows;
    }
    for (const Json& distance : *row) {
      if (!distance.is_number_unsigned() || distance.get<uint64_t>() > kObjectNumberMax)
        reader->Fail("a NUMA distance that is no number");
      if (!reader->ok()) return rows;
      rows.back().push_back(distance.get<int>());
    }
  }
  return rows;
}

NetworkDevice ReadDevice(TopologyReader* reader, const Json& json) {
  NetworkDevice device;
  device.name = reader->Text(reader->Member(json, "name"));
  device.kind = reader->Text(reader->Member(json, "kind"));
  device.speed_mbit_s = reader->NumberOr(json, "speed_mbit_s", kJsonNumberMax, 0);
  device.numa_node = static_cast<int>(reader->NumberOr(json, "numa_node", kObjectNumberMax, -1));
  device.rdma = reader->TextOf(json, "rdma");
  for (const Json* const address : reader->ListOf(json, "pci", kPciPathMax)) {
    if (!address->is_string()) {
      reader->Fail("a PCI address that is no text");
      return device;
    }
    device.pci.push_back(address->get<std::string>());
  }
  return device;
}

Topology ReadMembers(TopologyReader* reader, const Json& json) {
  Topology topology;
  topology.source = reader->TextOf(json, "source");
  topology.host = reader->TextOf(json, "host");
  topology.cpu_model = reader->TextOf(json, "cpu_model");
  topology.hypervisor = reader->FlagOf(json, "hypervisor");
  topology.cpus = reader->Cpus(json);
  topology.packages = ReadObjects(reader, json, "packages", nullptr);
  topology.numa_nodes = ReadObjects(reader, json, "numa_nodes", "memory_bytes");
  topology.l3_caches = ReadObjects(reader, json, "l3_caches", "bytes");
  topology.cores = ReadObjects(reader, json, "cores", nullptr);
  topology.numa_distances = ReadDistances(reader, json);
  for (const Json* const device : reader->ListOf(json, "network", kNetworkDevicesMax)) {
    if (!reader->ok()) break;
    topology.network.push_back(ReadDevice(reader, *device));
  }
  return topology;
}

}  // namespace

std::string TopologyAsJson(const Topology& topology) {
  std::string text = StrCat(
      "{\"version\":", kTopologyFormatVersion, ",\"source\":", JsonLine(topology.source),
      ",\"host\":", JsonLine(topology.host), ",\n\"cpu_model\":", JsonLine(topology.cpu_model),
      ",\"hypervisor\":", topology.hypervisor ? "true" : "false",
      ",\n\"cpus\":", JsonLine(topology.cpus.ToList()));
  text += ListText("packages", ObjectsAsJson(topology.packages, nullptr));
  text += ListText("numa_nodes", ObjectsAsJson(topology.numa_nodes, "memory_bytes"));
  text += ListText("l3_caches", ObjectsAsJson(topology.l3_caches, "bytes"));
  text += ListText("cores", ObjectsAsJson(topology.cores, nullptr));
  text +=
      ListText("numa_distances", {topology.numa_distances.begin(), topology.numa_distances.end()});
  std::vector<Json> network;
  for (const NetworkDevice& device : topology.network)
    network.push_back(DeviceAsJson(device));
  return text + ListText("network", network) + "}\n";
}

absl::StatusOr<Topology> TopologyFromJson(std::string_view text) {
  TopologyReader reader;
  const Json json = reader.Parse(text, kTopologyTextBytesMax);
  const int64_t version = reader.NumberOf(json, "version", kJsonNumberMax);
  if (reader.ok() && version != kTopologyFormatVersion)
    reader.Fail(
        StrCat("version ", version, " of the format; this program reads ", kTopologyFormatVersion));
  if (!reader.ok()) return reader.status();
  Topology topology = ReadMembers(&reader, json);
  WEFT_RETURN_IF_ERROR(reader.status());
  WEFT_RETURN_IF_ERROR(CompleteTopology(&topology));
  return topology;
}

}  // namespace weft
