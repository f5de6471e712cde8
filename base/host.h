// What the machine is, and how much of it this process may use.
//
//   const HostFacts host = ReadHostFacts();
//   if (ranks > host.cores) ...          // 1.5: two CPUs, and a cgroup's quota of 1.5
//
// Everything is read from files of /proc and /sys, but for the CPUs that the process may run on. Files
// are read up to a bound; what is missing or makes no sense keeps the default below, and nothing fails:
// these are facts to choose by, no facts to depend on.
// Thread-safety: pure functions over the file system.
#pragma once

#include <cstdint>
#include <string>

namespace weft {

struct HostFacts {
  std::string cpu_model = "unknown";       // "AMD EPYC", as /proc/cpuinfo has it
  std::string kernel_release = "unknown";  // "6.1.0-18-amd64"
  bool hypervisor = false;                 // a virtual machine, whose other tenants are not seen
  int cpus = 1;                            // that this process may run on
  double cores = 1;              // that many at a time: `cpus`, or less by a cgroup's quota
  uint64_t l1_bytes = 32 << 10;  // data cache of a core
  uint64_t l2_bytes = 1 << 20;   // of a core, as a rule
  uint64_t l3_bytes = 16 << 20;  // shared; in a virtual machine with tenants not seen
  uint64_t memory_bytes = 0;     // of the machine, or a cgroup's limit; 0: not known
};

// The facts as this process sees them now.
HostFacts ReadHostFacts();

// As ReadHostFacts(), from the files below `root` ("" is the machine's own) for a process that may run on `cpus`
// CPUs; for tests, which bring their own machines.
HostFacts ReadHostFacts(const std::string& root, int cpus);

}  // namespace weft
