// Objects lie in each other as elements do; all that is kept is what weft's topology has, and of PCI devices the way to network devices.
#include "cli/weftctl/lstopo_xml.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <expat.h>

#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr size_t kElementDepthMax = 256;
constexpr size_t kListedObjectsMax = 1 << 16;
constexpr size_t kDistanceTextMax = 16 << 20;
constexpr int kWordDigits = 8;
constexpr std::string_view kNetworkDevice = "2";  // of hwloc_obj_osdev_type_e
constexpr std::string_view kRdmaDevice = "3";
constexpr uint64_t kLatencies = 4;  // of hwloc_distances_kind_e
constexpr size_t kNoDevice = SIZE_MAX;

template <typename Number>
bool ReadNumber(std::string_view text, int base, Number* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number, base);
  return error == std::errc() && end == text.data() + text.size();
}

// "0x00000001,,0x000000ff": words of 32 bits from the highest on, empty where they are 0. False if it is something else, as the endless
// "0xf...f".
bool ReadHwlocSet(std::string_view text, CpuSet* set) {
  const std::vector<absl::string_view> words = absl::StrSplit(ToAbsl(text), ',');
  if (words.size() > kCpusMax / 32) return false;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = FromAbsl(words[words.size() - 1 - i]);
    if (word.empty() && words.size() > 1) continue;
    uint32_t bits = 0;
    if (!word.starts_with("0x") || word.size() > 2 + kWordDigits ||
        !ReadNumber(word.substr(2), 16, &bits)) {
      return false;
    }
    for (int bit = 0; bit < 32; ++bit) {
      if ((bits >> bit & 1) != 0) set->Add(static_cast<int>(i) * 32 + bit);
    }
  }
  return true;
}

std::string PlainName(std::string_view text) {
  std::string plain(text.substr(0, kTopologyNameBytesMax));
  std::replace_if(
      plain.begin(), plain.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return plain;
}

// What the callbacks of expat fill. The first thing that is wrong is kept, and ends the parse.
class LstopoReader {
 public:
  explicit LstopoReader(XML_Parser parser) : parser_(parser) { topology_.source = "hwloc"; }

  const absl::Status& status() const { return status_; }

  void Fail(std::string_view what) {
    if (status_.ok())
      status_ = MakeError(WEFT_CORRUPT, StrCat("line ", XML_GetCurrentLineNumber(parser_),
                                               " of lstopo's XML has ", what));
    XML_StopParser(parser_, XML_FALSE);
  }

  void Start(std::string_view element, const char** attributes) {
    attributes_ = attributes;
    if (open_.size() == kElementDepthMax) return Fail("elements in each other without end");
    // Objects inherit what is around them; other elements stand for the object that they are in.
    open_.push_back(open_.empty() ? OpenElement() : open_.back());
    if (open_.size() == 1) return StartTopology(element);
    if (element == "object") return StartObject();
    if (element == "info") return TakeInfo();
    if (element == "distances2") return StartDistances();
    if (element == "indexes") text_into_ = &indexes_;
    if (element == "u64values") text_into_ = &distances_;
  }

  void End(std::string_view element) {
    open_.pop_back();
    text_into_ = nullptr;
    if (element == "distances2") EndDistances();
  }

  void Text(std::string_view text) {
    if (text_into_ == nullptr || !in_distances_) return;
    if (text_into_->size() + text.size() > kDistanceTextMax) return Fail("too many distances");
    // Long lists come in several elements.
    text_into_->append(text);
  }

  absl::StatusOr<Topology> Finish() {
    for (NetworkDevice& device : topology_.network) {
      const auto rdma = device.pci.empty() ? rdma_.end() : rdma_.find(device.pci.back());
      if (rdma != rdma_.end()) device.rdma = rdma->second;
      const auto near = [&](const TopologyObject& node) {
        return node.number == device.numa_node;
      };
      if (std::none_of(topology_.numa_nodes.begin(), topology_.numa_nodes.end(), near))
        device.numa_node = -1;
    }
    WEFT_RETURN_IF_ERROR(CompleteTopology(&topology_));
    return std::move(topology_);
  }

 private:
  struct OpenElement {
    int numa_node = -1;  // if one is all that is near
    std::vector<std::string> pci;
    size_t device = kNoDevice;  // in topology_.network
    bool machine = false;       // or its package, as info on either is on both
  };

  // "" if there is no such attribute.
  std::string_view Attribute(std::string_view name) const {
    for (const char** at = attributes_; at[0] != nullptr; at += 2) {
      if (name == at[0]) return at[1];
    }
    return "";
  }

  uint64_t Count(const char* name) {
    uint64_t count = 0;
    const std::string_view text = Attribute(name);
    if (!text.empty() && !ReadNumber(text, 10, &count))
      Fail(StrCat("no number in ", name, "=\"", text.substr(0, 64), "\""));
    return count;
  }

  CpuSet Set(const char* name) {
    CpuSet set;
    const std::string_view text = Attribute(name);
    if (!text.empty() && !ReadHwlocSet(text, &set)) {
      Fail(StrCat("no set below ", kCpusMax, " in ", name, "=\"", text.substr(0, 64), "\""));
    }
    return set;
  }

  void StartTopology(std::string_view element) {
    const std::string_view version = Attribute("version");
    if (element != "topology") return Fail(StrCat("no topology, but ", element));
    if (!version.starts_with("2."))
      Fail(StrCat("version \"", version.substr(0, 64), "\" of the format; 2 can be read"));
  }

  void StartObject() {
    OpenElement& open = open_.back();
    const std::string_view type = Attribute("type");
    open.device = kNoDevice;
    open.machine = type == "Machine" || type == "Package";
    if (const CpuSet nodes = Set("nodeset"); !nodes.empty())
      open.numa_node = nodes.count() == 1 ? nodes.first() : -1;
    if (type == "Machine") topology_.cpus = Set("cpuset");
    if (type == "Package") AddObject(&topology_.packages, 0);
    if (type == "NUMANode") AddObject(&topology_.numa_nodes, Count("local_memory"));
    if (type == "L3Cache") AddObject(&topology_.l3_caches, Count("cache_size"));
    if (type == "Core") AddObject(&topology_.cores, 0);
    // The host's own bridge has no address.
    if (const std::string_view address = Attribute("pci_busid"); !address.empty()) {
      open.pci.emplace_back(address.substr(0, kTopologyNameBytesMax));
      if (open.pci.size() > kPciPathMax) Fail("a PCI device behind too many bridges");
    }
    if (type == "OSDev") AddDevice(&open);
  }

  void AddObject(std::vector<TopologyObject>* objects, uint64_t bytes) {
    TopologyObject object{.cpus = Set("cpuset"), .bytes = bytes};
    // hwloc gives none where the system told none.
    const std::string_view index = Attribute("os_index");
    object.number = static_cast<int>(objects->size());
    if (!index.empty()) {
      const uint64_t number = Count("os_index");
      if (number > kObjectNumberMax) return Fail(StrCat("os_index=\"", number, "\""));
      object.number = static_cast<int>(number);
    }
    if (objects->size() == kListedObjectsMax) return Fail("too many objects");
    objects->push_back(std::move(object));
  }

  void AddDevice(OpenElement* open) {
    const std::string_view type = Attribute("osdev_type");
    if (type == kRdmaDevice && !open->pci.empty() && rdma_.size() < kNetworkDevicesMax)
      rdma_.emplace(open->pci.back(), PlainName(Attribute("name")));
    if (type != kNetworkDevice) return;
    if (topology_.network.size() > kNetworkDevicesMax) return Fail("too many network devices");
    open->device = topology_.network.size();
    topology_.network.push_back({.name = PlainName(Attribute("name")),
                                 .kind = "other",
                                 .numa_node = open->numa_node,
                                 .pci = open->pci});
  }

  void TakeInfo() {
    const OpenElement& open = open_.back();
    const std::string_view name = Attribute("name");
    const std::string_view value = Attribute("value");
    if (open.machine && name == "HostName") topology_.host = PlainName(value);
    if (open.machine && name == "CPUModel") topology_.cpu_model = PlainName(value);
    if (open.device == kNoDevice || name != "Address") return;
    // Hardware addresses, in text, have 6 bytes or 20.
    if (value.size() == 17) topology_.network[open.device].kind = "ethernet";
    if (value.size() == 59) topology_.network[open.device].kind = "infiniband";
  }

  void StartDistances() {
    in_distances_ = Attribute("type") == "NUMANode" && (Count("kind") & kLatencies) != 0 &&
                    topology_.numa_distances.empty();
  }

  // Of all nodes in the order of their elements, or none.
  void EndDistances() {
    if (!std::exchange(in_distances_, false)) return;
    const std::string listed = std::exchange(indexes_, "");
    const std::vector<absl::string_view> indexes =
        absl::StrSplit(listed, absl::ByAnyChar(" \n\t"), absl::SkipEmpty());
    const std::string text = std::exchange(distances_, "");
    const std::vector<absl::string_view> values =
        absl::StrSplit(text, absl::ByAnyChar(" \n\t"), absl::SkipEmpty());
    const size_t nodes = topology_.numa_nodes.size();
    for (size_t i = 0; i < std::min(nodes, indexes.size()); ++i) {
      if (indexes[i] != std::to_string(topology_.numa_nodes[i].number)) return;
    }
    if (nodes > kNumaNodesMax || indexes.size() != nodes || values.size() != nodes * nodes) return;
    std::vector<std::vector<int>> rows(nodes, std::vector<int>(nodes));
    for (size_t i = 0; i < values.size(); ++i) {
      if (!ReadNumber(FromAbsl(values[i]), 10, &rows[i / nodes][i % nodes]))
        return Fail(StrCat("the distance ", values[i].substr(0, 64)));
    }
    topology_.numa_distances = std::move(rows);
  }

  const XML_Parser parser_;
  const char** attributes_ = nullptr;
  absl::Status status_;
  Topology topology_;
  std::vector<OpenElement> open_;
  std::map<std::string, std::string> rdma_;  // name by PCI address
  bool in_distances_ = false;
  std::string* text_into_ = nullptr;
  std::string indexes_;
  std::string distances_;
};

void OnLstopoStart(void* reader, const XML_Char* name, const XML_Char** attributes) {
  static_cast<LstopoReader*>(reader)->Start(name, attributes);
}

void OnLstopoEnd(void* reader, const XML_Char* name) {
  static_cast<LstopoReader*>(reader)->End(name);
}

void OnLstopoText(void* reader, const XML_Char* text, int length) {
  static_cast<LstopoReader*>(reader)->Text({text, static_cast<size_t>(length)});
}

// Declared entities can grow without bound. The document type of lstopo declares nothing, and the file that it names is not read.
void OnLstopoDoctype(void* reader, const XML_Char*, const XML_Char*, const XML_Char*,
                     int has_declarations) {
  if (has_declarations != 0)
    static_cast<LstopoReader*>(reader)->Fail("a document type with declarations");
}

struct FreeLstopoParser {
  void operator()(XML_ParserStruct* parser) const { XML_ParserFree(parser); }
};

}  // namespace

absl::StatusOr<Topology> ReadLstopoXml(std::string_view text) {
  const std::unique_ptr<XML_ParserStruct, FreeLstopoParser> parser(XML_ParserCreate(nullptr));
  if (parser == nullptr) return MakeError(WEFT_OUT_OF_MEMORY, "no memory for an XML parser");
  if (text.size() > kLstopoBytesMax) return MakeError(WEFT_CORRUPT, "lstopo's XML is too long");
  LstopoReader reader(parser.get());
  XML_SetUserData(parser.get(), &reader);
  XML_SetElementHandler(parser.get(), OnLstopoStart, OnLstopoEnd);
  XML_SetCharacterDataHandler(parser.get(), OnLstopoText);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnLstopoDoctype);
  const XML_Status parsed =
      XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), /*isFinal=*/XML_TRUE);
  WEFT_RETURN_IF_ERROR(reader.status());
  if (parsed != XML_STATUS_OK) {
    return MakeError(WEFT_CORRUPT,
                     StrCat("line ", XML_GetCurrentLineNumber(parser.get()),
                            " of lstopo's XML: ", XML_ErrorString(XML_GetErrorCode(parser.get()))));
  }
  return reader.Finish();
}

}  // namespace weft
