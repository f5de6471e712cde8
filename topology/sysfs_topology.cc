#include "topology/sysfs_topology.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/host.h"
#include "base/new_fd.h"
#include "base/quantity.h"
#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr char kCpuFolder[] = "/sys/devices/system/cpu/";
constexpr char kNodeFolder[] = "/sys/devices/system/node/";
constexpr char kNetworkFolder[] = "/sys/class/net/";
constexpr int kCacheIndexMax = 16;
constexpr size_t kFolderEntriesMax = 4096;

// Empty if the file is not there or is no list.
CpuSet ReadCpuList(const std::string& path) {
  return CpuSet::FromList(ReadFirstLine(path)).value_or(CpuSet());
}

// -1 if the file is not there or is no number from 0 to `most`.
int64_t ReadCount(const std::string& path, int64_t most) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(ReadFirstLine(path), &value) || value < 0 || value > most) return -1;
  return value;
}

// Names of a folder's entries in order; none if it is not there.
std::vector<std::string> EntriesOf(const std::string& folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseFolder> entries = OpenFolder(folder);
  if (entries == nullptr) return names;
  while (names.size() < kFolderEntriesMax) {
    // Not shared between threads, so readdir is safe.
    const dirent* const entry = readdir(entries.get());  // NOLINT(concurrency-mt-unsafe)
    if (entry == nullptr) break;
    if (entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Text from firmware and drivers, as CompleteTopology wants it.
std::string Plain(std::string text) {
  text.resize(std::min(text.size(), kTopologyNameBytesMax));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, '?');
  return text;
}

// The CPUs of a core or cache that has `cpu`, without those that another one has already.
CpuSet OthersWith(int cpu, const CpuSet& listed, const Topology& topology, const CpuSet& taken) {
  CpuSet cpus = (listed & topology.cpus) - taken;
  cpus.Add(cpu);
  return cpus;
}

void ReadCoresAndPackages(const std::string& root, Topology* topology) {
  CpuSet taken;
  std::map<int, CpuSet> packages;
  for (const int cpu : topology->cpus.Members()) {
    if (taken.Has(cpu)) continue;
    const std::string folder = StrCat(root, kCpuFolder, "cpu", cpu, "/topology/");
    CpuSet threads = ReadCpuList(folder + "core_cpus_list");
    if (threads.empty()) threads = ReadCpuList(folder + "thread_siblings_list");  // before 5.3
    const CpuSet core = OthersWith(cpu, threads, *topology, taken);
    taken = taken | core;
    topology->cores.push_back({.cpus = core});
    // -1 on machines that have no such thing.
    const int64_t package = ReadCount(folder + "physical_package_id", kObjectNumberMax);
    if (package < 0) continue;
    CpuSet& cpus = packages[static_cast<int>(package)];
    cpus = cpus | core;
  }
  for (auto& [number, cpus] : packages)
    topology->packages.push_back({.number = number, .cpus = std::move(cpus)});
}

// The folder of the L3 cache of a CPU; "" if it has none.
std::string L3Folder(const std::string& root, int cpu) {
  for (int index = 0; index < kCacheIndexMax; ++index) {
    std::string folder = StrCat(root, kCpuFolder, "cpu", cpu, "/cache/index", index, "/");
    const std::string level = ReadFirstLine(folder + "level");
    if (level.empty()) break;
    if (level == "3") return folder;
  }
  return "";
}

void ReadL3Caches(const std::string& root, Topology* topology) {
  CpuSet taken;
  for (const int cpu : topology->cpus.Members()) {
    if (taken.Has(cpu)) continue;
    const std::string folder = L3Folder(root, cpu);
    if (folder.empty()) continue;
    TopologyObject cache{
        .cpus = OthersWith(cpu, ReadCpuList(folder + "shared_cpu_list"), *topology, taken)};
    int64_t bytes = 0;
    if (ParseBytes(ReadFirstLine(folder + "size"), &bytes) && bytes > 0)
      cache.bytes = static_cast<uint64_t>(bytes);
    taken = taken | cache.cpus;
    topology->l3_caches.push_back(std::move(cache));
  }
}

std::vector<int> ReadDistances(const std::string& path) {
  std::vector<int> distances;
  for (const absl::string_view word : absl::StrSplit(ReadFirstLine(path), ' ', absl::SkipEmpty())) {
    int distance = 0;
    if (!absl::SimpleAtoi(word, &distance)) return {};
    distances.push_back(distance);
  }
  return distances;
}

uint64_t ReadNodeMemory(const std::string& folder, int node) {
  // "Node 0 MemTotal:       13461720 kB"
  const std::string total =
      FieldOf(ReadFileStart(folder + "meminfo"), StrCat("Node ", node, " MemTotal"));
  uint64_t kib = 0;
  if (!absl::SimpleAtoi(ToAbsl(total.substr(0, total.find(' '))), &kib) || kib >> 50 != 0) return 0;
  return kib << 10;
}

void ReadNumaNodes(const std::string& root, Topology* topology) {
  CpuSet taken;
  // The list of nodes has the form of one of CPUs.
  for (const int node : ReadCpuList(StrCat(root, kNodeFolder, "online")).Members()) {
    if (topology->numa_nodes.size() == kNumaNodesMax) break;
    const std::string folder = StrCat(root, kNodeFolder, "node", node, "/");
    TopologyObject found{.number = node,
                         .cpus = (ReadCpuList(folder + "cpulist") & topology->cpus) - taken,
                         .bytes = ReadNodeMemory(folder, node)};
    taken = taken | found.cpus;
    topology->numa_nodes.push_back(std::move(found));
    topology->numa_distances.push_back(ReadDistances(folder + "distance"));
  }
  const size_t nodes = topology->numa_nodes.size();
  if (nodes == 1) topology->numa_distances.clear();  // of one node it says nothing
  for (const std::vector<int>& row : topology->numa_distances) {
    if (row.size() == nodes) continue;
    topology->numa_distances.clear();
    return;
  }
}

// Where a link leads; "" if nowhere.
std::string Resolved(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), &std::free);
  return real == nullptr ? "" : real.get();
}

// The PCI devices on the way to a device's folder, and in *folder that of the last of them.
std::vector<std::string> PciPath(const std::string& device, std::string* folder) {
  std::vector<std::string> path;
  std::string so_far;
  for (const absl::string_view part : absl::StrSplit(device, '/', absl::SkipEmpty())) {
    so_far += StrCat("/", FromAbsl(part));
    if (!IsPciAddress(FromAbsl(part)) || path.size() == kPciPathMax) continue;
    path.emplace_back(part);
    *folder = so_far;
  }
  return path;
}

// "100 Gb/sec (4X EDR)" in Mbit/s; 0 if it is something else.
int64_t ReadInfinibandRate(const std::string& path) {
  const std::string text = ReadFirstLine(path);
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  double gigabits = 0;
  if (words.size() < 2 || words[1] != "Gb/sec" || !absl::SimpleAtod(words[0], &gigabits)) return 0;
  return gigabits > 0 && gigabits < 1e5 ? static_cast<int64_t>(gigabits * 1000) : 0;
}

std::string KindOf(const std::string& folder) {
  constexpr char kEthernet[] = "1";  // ARPHRD_ETHER, ARPHRD_INFINIBAND
  constexpr char kInfiniband[] = "32";
  const std::string type = ReadFirstLine(folder + "type");
  return type == kEthernet ? "ethernet" : type == kInfiniband ? "infiniband" : "other";
}

void ReadNetwork(const std::string& root, Topology* topology) {
  for (const std::string& name : EntriesOf(root + kNetworkFolder)) {
    const std::string folder = StrCat(root, kNetworkFolder, name, "/");
    const std::string hardware = Resolved(folder + "device");
    if (hardware.empty()) continue;  // loopback, bridges, tunnels
    if (topology->network.size() == kNetworkDevicesMax) return;
    NetworkDevice device{.name = Plain(name), .kind = KindOf(folder)};
    std::string bus_folder = hardware;
    device.pci = PciPath(hardware, &bus_folder);
    const int64_t node = ReadCount(bus_folder + "/numa_node", kObjectNumberMax);
    const bool known = std::any_of(topology->numa_nodes.begin(), topology->numa_nodes.end(),
                                   [&](const auto& one) { return one.number == node; });
    if (known) device.numa_node = static_cast<int>(node);
    // Where there is one node, firmware often says nothing.
    if (topology->numa_nodes.size() == 1) device.numa_node = topology->numa_nodes.front().number;
    const std::vector<std::string> rdma = EntriesOf(hardware + "/infiniband");
    if (!rdma.empty()) device.rdma = Plain(rdma.front());
    // Some drivers say 2^32 - 1 for "not known".
    device.speed_mbit_s = std::max<int64_t>(ReadCount(folder + "speed", 1 << 30), 0);
    if (device.speed_mbit_s == 0 && !rdma.empty()) {
      const int64_t port = std::max<int64_t>(ReadCount(folder + "dev_port", 255), 0) + 1;
      device.speed_mbit_s = ReadInfinibandRate(
          StrCat(hardware, "/infiniband/", rdma.front(), "/ports/", port, "/rate"));
    }
    topology->network.push_back(std::move(device));
  }
}

}  // namespace

absl::StatusOr<Topology> ReadSysfsTopology(const std::string& root) {
  Topology topology;
  topology.source = "sysfs";
  topology.cpus = ReadCpuList(StrCat(root, kCpuFolder, "online"));
  if (topology.cpus.empty()) {
    return MakeError(WEFT_UNSUPPORTED,
                     StrCat("looking at the machine's topology: ", kCpuFolder,
                            "online is not there or no list of CPUs; mount /sys, or describe the "
                            "machine in a file and set WEFT_TOPOLOGY_FILE to its path"));
  }
  const HostFacts host = ReadHostFacts(root, topology.cpus.count());
  topology.cpu_model = Plain(host.cpu_model);
  topology.hypervisor = host.hypervisor;
  topology.host = Plain(ReadFirstLine(root + "/proc/sys/kernel/hostname"));
  ReadCoresAndPackages(root, &topology);
  ReadL3Caches(root, &topology);
  ReadNumaNodes(root, &topology);
  ReadNetwork(root, &topology);
  WEFT_RETURN_IF_ERROR(Annotate(CompleteTopology(&topology),
                                "what /sys says of this machine contradicts itself, so describe it "
                                "in a file and set WEFT_TOPOLOGY_FILE to its path: "));
  return topology;
}

}  // namespace weft
