#include "topology/topology_json.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kJsonNumberMax = uint64_t{1} << 60;

std::string Line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// ,"name":[ with an element per line ].
std::string ListText(const char* name, const std::vector<Json>& list) {
  std::string text = StrCat(",\n\"", name, "\":[");
  for (size_t i = 0; i < list.size(); ++i)
    text += StrCat(i == 0 ? "\n" : ",\n", Line(list[i]));
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

// Reads members; the first thing that is wrong is kept, and everything after it reads as nothing.
class TopologyReader {
 public:
  const absl::Status& status() const { return status_; }

  bool ok() const { return status_.ok(); }

  void Fail(std::string_view what) {
    if (ok()) status_ = MakeError(WEFT_CORRUPT, StrCat("the text of the topology has ", what));
  }

  // nullptr if there is no such member, which is an error unless it is optional.
  const Json* Member(const Json& json, const char* name, bool optional = false) {
    if (json.is_object()) {
      const auto found = json.find(name);
      if (found != json.end()) return &*found;
    }
    if (!optional || !json.is_object())
      Fail(StrCat("no member \"", name, "\" where one is needed"));
    return nullptr;
  }

  // `otherwise` if the member is optional (>= 0) and not there.
  int64_t Number(const Json& json, const char* name, uint64_t most, bool optional = false,
                 int64_t otherwise = 0) {
    const Json* const value = Member(json, name, optional);
    if (value == nullptr) return otherwise;
    if (value->is_number_unsigned() && value->get<uint64_t>() <= most)
      return static_cast<int64_t>(value->get<uint64_t>());
    Fail(StrCat("\"", name, "\" that is no number up to ", most));
    return otherwise;
  }

  std::string Text(const Json& json, const char* name, bool optional = false) {
    const Json* const value = Member(json, name, optional);
    if (value == nullptr) return {};
    if (value->is_string()) return value->get<std::string>();
    Fail(StrCat("\"", name, "\" that is no text"));
    return {};
  }

  bool Flag(const Json& json, const char* name) {
    const Json* const value = Member(json, name, /*optional=*/true);
    if (value == nullptr) return false;
    if (value->is_boolean()) return value->get<bool>();
    Fail(StrCat("\"", name, "\" that is neither true nor false"));
    return false;
  }

  CpuSet Cpus(const Json& json) {
    const std::string list = Text(json, "cpus");
    absl::StatusOr<CpuSet> cpus = CpuSet::FromList(list);
    if (cpus.ok()) return *std::move(cpus);
    Fail(FromAbsl(cpus.status().message()));
    return {};
  }

  // Its elements, up to `most`; none if it is not there.
  std::vector<const Json*> List(const Json& json, const char* name, size_t most) {
    std::vector<const Json*> list;
    const Json* const value = Member(json, name, /*optional=*/true);
    if (value == nullptr) return list;
    if (!value->is_array() || value->size() > most) {
      Fail(StrCat("\"", name, "\" that is no list of up to ", most));
      return list;
    }
    for (const Json& one : *value)
      list.push_back(&one);
    return list;
  }

 private:
  absl::Status status_;
};

std::vector<TopologyObject> ReadObjects(TopologyReader* reader, const Json& json, const char* name,
                                        const char* bytes) {
  std::vector<TopologyObject> objects;
  for (const Json* const one : reader->List(json, name, kTopologyObjectsMax)) {
    if (!reader->ok()) return objects;
    TopologyObject object;
    object.number = static_cast<int>(reader->Number(*one, "number", kObjectNumberMax));
    object.cpus = reader->Cpus(*one);
    if (bytes != nullptr)
      object.bytes = static_cast<uint64_t>(reader->Number(*one, bytes, kJsonNumberMax, true));
    objects.push_back(std::move(object));
  }
  return objects;
}

std::vector<std::vector<int>> ReadDistances(TopologyReader* reader, const Json& json) {
  std::vector<std::vector<int>> rows;
  for (const Json* const row : reader->List(json, "numa_distances", kNumaNodesMax)) {
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
  device.name = reader->Text(json, "name");
  device.kind = reader->Text(json, "kind");
  device.speed_mbit_s = reader->Number(json, "speed_mbit_s", kJsonNumberMax, true);
  device.numa_node =
      static_cast<int>(reader->Number(json, "numa_node", kObjectNumberMax, true, -1));
  device.rdma = reader->Text(json, "rdma", true);
  for (const Json* const address : reader->List(json, "pci", kPciPathMax)) {
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
  topology.source = reader->Text(json, "source", true);
  topology.host = reader->Text(json, "host", true);
  topology.cpu_model = reader->Text(json, "cpu_model", true);
  topology.hypervisor = reader->Flag(json, "hypervisor");
  topology.cpus = reader->Cpus(json);
  topology.packages = ReadObjects(reader, json, "packages", nullptr);
  topology.numa_nodes = ReadObjects(reader, json, "numa_nodes", "memory_bytes");
  topology.l3_caches = ReadObjects(reader, json, "l3_caches", "bytes");
  topology.cores = ReadObjects(reader, json, "cores", nullptr);
  topology.numa_distances = ReadDistances(reader, json);
  for (const Json* const device : reader->List(json, "network", kNetworkDevicesMax)) {
    if (!reader->ok()) break;
    topology.network.push_back(ReadDevice(reader, *device));
  }
  return topology;
}

}  // namespace

std::string TopologyAsJson(const Topology& topology) {
  std::string text =
      StrCat("{\"version\":", kTopologyFormatVersion, ",\"source\":", Line(topology.source),
             ",\"host\":", Line(topology.host), ",\n\"cpu_model\":", Line(topology.cpu_model),
             ",\"hypervisor\":", topology.hypervisor ? "true" : "false",
             ",\n\"cpus\":", Line(topology.cpus.ToList()));
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
  if (text.size() > kTopologyTextBytesMax)
    reader.Fail(StrCat("more than ", kTopologyTextBytesMax, " bytes"));
  const Json json = reader.ok()
                        ? Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false)
                        : Json();
  if (reader.ok() && !json.is_object()) reader.Fail("something that is no JSON object");
  const int64_t version = reader.Number(json, "version", kJsonNumberMax);
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
