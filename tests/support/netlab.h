// A network of its own for tests: nodes that share nothing but a switch, on one machine, with or without root.
//
//   absl::StatusOr<std::unique_ptr<Netlab>> lab = Netlab::Make({.nodes = 2});
//   if (!lab.ok()) GTEST_SKIP() << lab.status().message();
//   std::unique_ptr<NetlabProcess> run = (*lab)->Spawn(1, {"/path/to/weftrun", ...}, {{"WEFT_LOG", "info"}});
//   (*lab)->SetRate(1, 100'000'000);
//   EXPECT_TRUE(run->WaitForOutput("step 3", deadline_ns));
//   EXPECT_EQ(run->Wait(deadline_ns), 0);
//
// A node is a network namespace and a host name, "node1": lo, and interfaces eth0, eth1, ... (veth), each to a switch (a bridge)
// of a namespace that is no node's. Node k has 10.77.0.<k+1> on eth0, 10.78.0.<k+1> on eth1. Files, pids and users are the machine's.
// Where the caller may not make network namespaces, a user namespace is around all of them, in which processes have uid 0.
// A namespace lives as long as a process holds it. These get SIGKILL when the test's process ends, however it does; so
// nothing stays behind: there are no named namespaces, and no interface of the machine is touched.
//
// Thread-safety: one thread, and Make() from a process that has no other. Owns its processes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/fd.h"
#include "tests/support/frame_forwarder.h"
#include "tests/support/node_namespaces.h"
#include "tests/support/shared_value.h"

namespace weft::test {

constexpr int kNetlabNodesMax = 200;
constexpr int kNetlabInterfacesMax = 8;

struct NetlabSettings {
  int nodes = 2;
  int interfaces = 1;  // of each node
};

// Packets are those of the kernel, which may be as long as many frames.
struct NetlabCounters {
  uint64_t sent_bytes = 0;
  uint64_t sent_packets = 0;
  uint64_t received_bytes = 0;
  uint64_t received_packets = 0;
};

// A process on a node. Its standard input is empty; stdout and stderr are kept, in the order in which they were written.
class NetlabProcess {
 public:
  NetlabProcess(pid_t pid, UniqueFd output) : pid_(pid), output_(std::move(output)) {}

  NetlabProcess(const NetlabProcess&) = delete;
  NetlabProcess& operator=(const NetlabProcess&) = delete;
  // Kills what still runs of its process group.
  ~NetlabProcess();

  pid_t pid() const { return pid_; }

  // What it has written so far.
  std::string Output() const;

  // The exit code, 128 and the signal if one killed it; -1 if it still runs at the deadline.
  int Wait(int64_t deadline_ns);

  // Whether it has written `text` by the deadline. Ends early if the process does.
  bool WaitForOutput(const std::string& text, int64_t deadline_ns);

  // Nothing once it has ended.
  void Kill(int signal);

 private:
  pid_t pid_;
  UniqueFd output_;  // a file in memory
  std::optional<int> code_;
};

class Netlab {
 public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  // UNSUPPORTED, with the reason, if this machine, or who runs the test, cannot have one.
  static absl::StatusOr<std::unique_ptr<Netlab>> Make(const NetlabSettings& settings);

  Netlab(const Netlab&) = delete;
  Netlab& operator=(const Netlab&) = delete;
  // Processes on the nodes must have been destroyed.
  ~Netlab();

  const NetlabSettings& settings() const { return settings_; }

  int nodes() const { return static_cast<int>(places_.size()) - 1; }

  // The process whose namespaces are the node's, by which programs that are no children of this one enter it (NodeNamespaces).
  pid_t Holder(int node) const { return place(node).holder; }

  // "10.77.0.1"
  static std::string Address(int node, int interface = 0);

  // `variables` come on top of this process's environment. A program that cannot be run ends with code 127.
  std::unique_ptr<NetlabProcess> Spawn(int node, const std::vector<std::string>& arguments,
                                       const Environment& variables = {}) const;

  // Of one interface, as a token bucket in both directions; 0: as fast as the machine is.
  absl::Status SetRate(int node, uint64_t bits_per_second, int interface = 0);

  // Delays what leaves the node's eth0. UNSUPPORTED where the kernel has no netem. 0: not at all.
  absl::Status SetDelay(int node, int milliseconds);

  // The cable of an interface, pulled out at the switch: nothing arrives any more, and nobody is told.
  absl::Status SetLinkUp(int node, bool up, int interface = 0);

  // Puts a process into the cable of eth0 that loses frames, doubles them and lets some come late; once for each node. Rates and pulled
  // cables are as before.
  absl::Status SetFaults(int node, const FrameFaults& faults);

  // What that has done.
  const FrameCounts& Faults(int node) const;

  // In a cable with SetFaults() longer frames are lost from now on, and nobody is told; 0: none.
  void SetLongestFrame(int node, uint64_t bytes);

  // Since the beginning, with headers.
  absl::StatusOr<NetlabCounters> Counters(int node, int interface = 0) const;

 private:
  // The switch's namespaces are those of place 0, node k's of place k + 1.
  struct Place {
    pid_t holder = -1;
    NodeNamespaces namespaces;
  };

  // What shapes an interface.
  struct Shape {
    uint64_t bits_per_second = 0;
    int delay_ms = 0;
  };

  explicit Netlab(const NetlabSettings& settings);

  absl::Status StartHolders();
  absl::Status OpenPlaces();
  absl::Status Connect();

  Shape& ShapeOf(int node, int interface) {
    return shapes_[static_cast<size_t>(node * settings_.interfaces + interface)];
  }

  absl::Status ApplyShape(int node, int interface);
  std::unique_ptr<NetlabProcess> SpawnAt(const Place& place,
                                         const std::vector<std::string>& arguments,
                                         const Environment& variables, int input_fd) const;
  absl::Status Run(const Place& place, const std::vector<std::string>& arguments,
                   const std::string& input = "") const;

  const Place& place(int node) const { return places_[static_cast<size_t>(node) + 1]; }

  // A child on that node, or at the switch, which does something and ends if it returns.
  std::unique_ptr<NetlabProcess> SpawnFunction(const Place& place,
                                               const std::function<absl::Status()>& body) const;

  // What is in a node's cable.
  struct Faulty {
    SharedValue<FrameCounts> counts;
    std::unique_ptr<NetlabProcess> process;
  };

  const NetlabSettings settings_;
  UniqueFd alive_;  // closed: the holders end
  std::vector<Place> places_;
  std::vector<Shape> shapes_;
  std::vector<std::unique_ptr<Faulty>> faulty_;
};

}  // namespace weft::test
