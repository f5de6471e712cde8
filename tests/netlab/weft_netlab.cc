// A Netlab (tests/support/netlab.h) for programs that are no tests: benchmarks, launchers of other libraries, people.
//
//   weft_netlab up [--nodes 2] [--interfaces 1] [--mbit 1000]
//       Says in one line of JSON what there is, and stays until its standard input ends. Each line of input is a request, each is answered
//       by a line of JSON: {"error": "..."} if it has failed.
//           counters             {"nodes": [{"node": 0, "interfaces": [{"name": "eth0", "sent_bytes": 90, "sent_packets": 1, ...}]}]}
//           rate NODE MBIT [INTERFACE]     of its eth0, or another one by number; 0: as fast as the machine is
//           delay NODE MS
//           link NODE up|down [INTERFACE]
//   weft_netlab run [--nodes 2] [--interfaces 1] [--mbit 1000] [--counters FILE] -- COMMAND...
//       Runs the command on node 0, with this standard input and output, and ends with its exit code. FILE gets what `counters` says after it.
//   weft_netlab rsh NODE COMMAND...
//       As ssh: the words of the command, with blanks between, for a shell on the node. NODE is node1, 1 or an address of it. Options of ssh
//       before it are ignored. 255: there is no such node.
//
// rsh finds the network by NETLAB_HOLDERS, which `run` sets and which stands in what `up` says. So Open MPI and MPICH start their daemons by it:
//
//   weft_netlab run -- mpirun --mca plm_rsh_agent "weft_netlab rsh" -H 10.77.0.1,10.77.0.2 PROGRAM
//   weft_netlab run -- mpiexec -launcher rsh -launcher-exec SCRIPT -hosts 10.77.0.1,10.77.0.2 PROGRAM      # SCRIPT: exec weft_netlab rsh "$@"
//
// Exit code 3: this machine, or who asks, cannot have such a network; stderr says why.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <getopt.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "nlohmann/json.hpp"
#include "tests/support/netlab.h"
#include "tests/support/node_namespaces.h"

namespace weft::test {
namespace {

using nlohmann::json;

constexpr const char* kVariable =
    "NETLAB_HOLDERS";  // the processes that hold the nodes: "4711:4712"
constexpr uint64_t kBitsPerMbit = 1'000'000;
constexpr int kBadUsage = 2;
constexpr int kNoNetwork = 3;
constexpr int kCannotRun = 127;
constexpr int kNoNode = 255;

struct Arguments {
  NetlabSettings settings;
  uint64_t mbit = 0;
  std::string counters_file;
  char** command = nullptr;  // ends with nullptr
};

int Complain(int code, std::string_view sentence) {
  std::cerr << "weft_netlab: " << sentence << '\n';
  return code;
}

// Of `word`, which is one and nothing else.
std::optional<uint64_t> NumberIn(const std::string& word) {
  if (word.empty() || word.size() > 9 || word.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::strtoull(word.c_str(), nullptr, 10);
}

std::string Holders(const Netlab& lab) {
  std::string pids;
  for (int node = 0; node < lab.nodes(); ++node)
    pids += StrCat(node == 0 ? "" : ":", lab.Holder(node));
  return pids;
}

json Description(const Netlab& lab) {
  json nodes = json::array();
  for (int node = 0; node < lab.nodes(); ++node) {
    json addresses = json::array();
    for (int interface = 0; interface < lab.settings().interfaces; ++interface)
      addresses.push_back(Netlab::Address(node, interface));
    nodes.push_back(
        {{"name", StrCat("node", node)}, {"addresses", addresses}, {"pid", lab.Holder(node)}});
  }
  return {{"environment", {{kVariable, Holders(lab)}}}, {"nodes", nodes}};
}

json CountersOf(const Netlab& lab) {
  json nodes = json::array();
  for (int node = 0; node < lab.nodes(); ++node) {
    json interfaces = json::array();
    for (int interface = 0; interface < lab.settings().interfaces; ++interface) {
      const absl::StatusOr<NetlabCounters> counters = lab.Counters(node, interface);
      if (!counters.ok()) return {{"error", FromAbsl(counters.status().message())}};
      interfaces.push_back({{"name", StrCat("eth", interface)},
                            {"sent_bytes", counters->sent_bytes},
                            {"sent_packets", counters->sent_packets},
                            {"received_bytes", counters->received_bytes},
                            {"received_packets", counters->received_packets}});
    }
    nodes.push_back({{"node", node}, {"interfaces", interfaces}});
  }
  return {{"nodes", nodes}};
}

json Answer(Netlab* lab, const std::string& request) {
  std::istringstream stream(request);
  std::vector<std::string> words;
  for (std::string word; stream >> word;)
    words.push_back(word);
  if (words.size() == 1 && words[0] == "counters") return CountersOf(*lab);
  if (words.size() == 3) words.emplace_back("0");
  const bool complete = words.size() == 4;
  const std::optional<uint64_t> node = complete ? NumberIn(words[1]) : std::nullopt;
  const std::optional<uint64_t> which = complete ? NumberIn(words[3]) : std::nullopt;
  if (!node || *node >= static_cast<uint64_t>(lab->nodes()) || !which ||
      *which >= static_cast<uint64_t>(lab->settings().interfaces))
    return {{"error", StrCat("no request: ", request)}};
  const std::optional<uint64_t> amount = NumberIn(words[2]);
  const int number = static_cast<int>(*node);
  const int interface = static_cast<int>(*which);
  absl::Status done = absl::InvalidArgumentError(StrCat("no request: ", request));
  if (words[0] == "rate" && amount)
    done = done = lab->SetRate(number, *amount * kBitsPerMbit, interface);
  if (words[0] == "delay" && amount) done = lab->SetDelay(number, static_cast<int>(*amount));
  if (words[0] == "link" && (words[2] == "up" || words[2] == "down"))
    done = lab->SetLinkUp(number, words[2] == "up", interface);
  if (!done.ok()) return {{"error", FromAbsl(done.message())}};
  return json::object();
}

// The command on node 0, by a child, whose exit code it is.
int RunOnFirstNode(const Netlab& lab, char** command) {
  const absl::StatusOr<NodeNamespaces> node = NodeNamespaces::Of(lab.Holder(0));
  if (!node.ok()) return Complain(kNoNetwork, FromAbsl(node.status().message()));
  setenv(kVariable, Holders(lab).c_str(), 1);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    const bool entered = node->Enter();
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // so that a launcher can end what it has started
    if (entered && getppid() == parent) execvp(command[0], command);
    _exit(Complain(kCannotRun, StrCat("cannot run ", command[0], ": ", std::strerror(errno))));
  }
  if (pid < 0) return Complain(kCannotRun, std::strerror(errno));
  signal(SIGINT, SIG_IGN);  // the terminal's goes to the command as well
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int Serve(Netlab* lab) {
  std::cout << Description(*lab).dump() << std::endl;
  for (std::string request; std::getline(std::cin, request);)
    std::cout << Answer(lab, request).dump() << std::endl;
  return 0;
}

bool Parse(int argc, char** argv, Arguments* arguments) {
  const option options[] = {{"nodes", required_argument, nullptr, 'n'},
                            {"interfaces", required_argument, nullptr, 'i'},
                            {"mbit", required_argument, nullptr, 'm'},
                            {"counters", required_argument, nullptr, 'c'},
                            {nullptr, 0, nullptr, 0}};
  for (int name = 0; (name = getopt_long(argc, argv, "+", options, nullptr)) != -1;) {
    if (name == '?') return false;
    if (name == 'c') {
      arguments->counters_file = optarg;
      continue;
    }
    const std::optional<uint64_t> number = NumberIn(optarg);
    if (!number) return false;
    if (name == 'n') arguments->settings.nodes = static_cast<int>(*number);
    if (name == 'i') arguments->settings.interfaces = static_cast<int>(*number);
    if (name == 'm') arguments->mbit = *number;
  }
  arguments->command = argv + optind;
  return true;
}

int UpOrRun(bool run, const Arguments& arguments) {
  const absl::StatusOr<std::unique_ptr<Netlab>> lab = Netlab::Make(arguments.settings);
  if (!lab.ok()) return Complain(kNoNetwork, FromAbsl(lab.status().message()));
  for (int node = 0; arguments.mbit > 0 && node < (*lab)->nodes(); ++node) {
    const absl::Status set = (*lab)->SetRate(node, arguments.mbit * kBitsPerMbit);
    if (!set.ok()) return Complain(kNoNetwork, FromAbsl(set.message()));
  }
  if (!run) return Serve(lab->get());
  const int code = RunOnFirstNode(**lab, arguments.command);
  if (arguments.counters_file.empty()) return code;
  std::ofstream file(arguments.counters_file);
  file << CountersOf(**lab).dump() << std::endl;
  return file ? code : Complain(1, StrCat("cannot write ", arguments.counters_file));
}

// Who holds the node that is called so; -1: there is none.
pid_t HolderOf(const std::string& wanted, const std::string& holders) {
  std::istringstream pids(holders);
  std::string pid;
  for (int node = 0; std::getline(pids, pid, ':'); ++node) {
    bool found = wanted == StrCat(node) || wanted == StrCat("node", node);
    for (int interface = 0; interface < kNetlabInterfacesMax; ++interface)
      found = found || wanted == Netlab::Address(node, interface);
    if (found) return static_cast<pid_t>(NumberIn(pid).value_or(0));
  }
  return -1;
}

int Rsh(int argc, char** argv) {
  int at = 0;
  for (; at < argc && argv[at][0] == '-'; ++at) {
    if (std::strcmp(argv[at], "-l") == 0 || std::strcmp(argv[at], "-o") == 0 ||
        std::strcmp(argv[at], "-p") == 0)
      ++at;  // what it says is the next word
  }
  if (at + 1 >= argc) return Complain(kNoNode, "rsh NODE COMMAND...");
  const char* const holders = std::getenv(kVariable);
  if (holders == nullptr)
    return Complain(kNoNode, StrCat(kVariable, " is not set: there is no network"));
  const pid_t holder = HolderOf(argv[at], holders);
  if (holder <= 0)
    return Complain(kNoNode,
                    StrCat("there is no node ", argv[at], " in ", kVariable, "=", holders));
  std::string command;
  for (int word = at + 1; word < argc; ++word)
    command += StrCat(word == at + 1 ? "" : " ", argv[word]);
  const absl::StatusOr<NodeNamespaces> node = NodeNamespaces::Of(holder);
  if (!node.ok()) return Complain(kNoNode, FromAbsl(node.status().message()));
  if (node->Enter()) execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  return Complain(kNoNode, StrCat("cannot enter ", argv[at], ": ", std::strerror(errno)));
}

int Main(int argc, char** argv) {
  const std::string_view name = argc > 1 ? argv[1] : "";
  if (name == "rsh") return Rsh(argc - 2, argv + 2);
  Arguments arguments;
  if ((name != "up" && name != "run") || !Parse(argc - 1, argv + 1, &arguments) ||
      (name == "run") != (arguments.command[0] != nullptr)) {
    return Complain(kBadUsage,
                    "up|run [--nodes N] [--interfaces N] [--mbit N] [--counters FILE] "
                    "[-- COMMAND...], or rsh NODE COMMAND...");
  }
  return UpOrRun(name == "run", arguments);
}

}  // namespace
}  // namespace weft::test

int main(int argc, char** argv) {
  return weft::test::Main(argc, argv);
}
