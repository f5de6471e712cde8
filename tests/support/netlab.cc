// A namespace is entered by descriptor, in a child that then becomes the program: so nothing here needs names of namespaces, nor
// does this process ever leave its own. The holder of the switch's namespaces starts those of the nodes, since in a user
// namespace only its own processes may move a cable's end from one network to another.
#include "tests/support/netlab.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"

namespace weft::test {
namespace {

constexpr int64_t kSetUpNs = 20'000'000'000;
constexpr int64_t kEndNs = 5'000'000'000;
constexpr int kNoSuchProgram = 127;

// What a holder says of itself.
struct Report {
  int place = 0;
  pid_t pid = 0;
  int error = 0;
};

void WriteText(const char* path, const std::string& text) {
  const UniqueFd fd(open(path, O_WRONLY | O_CLOEXEC));
  // Who may not will see what follows from it: the namespace refuses the next thing.
  if (fd.valid()) (void)!write(fd.get(), text.data(), text.size());
}

// Errno, or 0. A user namespace of one user comes with the network where it cannot be had without.
int EnterNewNamespaces() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0) return 0;
  if (errno != EPERM) return errno;
  if (unshare(CLONE_NEWUSER) != 0) return errno;
  WriteText("/proc/self/setgroups", "deny");
  WriteText("/proc/self/uid_map", StrCat("0 ", uid, " 1"));
  WriteText("/proc/self/gid_map", StrCat("0 ", gid, " 1"));
  return unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 ? 0 : errno;
}

// Until the other end of `alive` is closed.
void Hold(int alive) {
  char byte;
  while (read(alive, &byte, 1) < 0 && errno == EINTR) {
  }
}

// After the namespaces have changed: that forgets it.
void EndWithParent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void HoldNode(int node, int alive, int reports) {
  Report report{.place = node + 1, .pid = getpid()};
  if (unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0) report.error = errno;
  EndWithParent();
  const std::string name = StrCat("node", node);
  (void)!sethostname(name.data(), name.size());
  (void)!write(reports, &report, sizeof report);
  Hold(alive);
}

[[noreturn]] void HoldSwitch(int nodes, int alive, int reports) {
  Report report{.pid = getpid()};
  report.error = EnterNewNamespaces();
  EndWithParent();
  (void)!write(reports, &report, sizeof report);
  for (int node = 0; report.error == 0 && node < nodes; ++node) {
    const pid_t pid = fork();
    if (pid == 0) {
      HoldNode(node, alive, reports);
      _exit(0);
    }
    if (pid < 0) {
      const Report failed{.place = node + 1, .error = errno};
      (void)!write(reports, &failed, sizeof failed);
    }
  }
  Hold(alive);
  while (waitpid(-1, nullptr, 0) > 0 || errno == EINTR) {
  }
  _exit(0);
}

std::vector<std::string> EnvironmentWith(const Netlab::Environment& variables) {
  std::vector<std::string> lines;
  for (char** line = environ; line != nullptr && *line != nullptr; ++line) {
    const std::string_view text(*line);
    const std::string_view name = text.substr(0, text.find('='));
    const bool replaced = std::any_of(variables.begin(), variables.end(),
                                      [&](const auto& item) { return item.first == name; });
    if (!replaced) lines.emplace_back(text);
  }
  for (const auto& [name, value] : variables)
    lines.push_back(StrCat(name, "=", value));
  return lines;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (const std::string& word : words)
    pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// A moment between two looks at something that nobody tells of.
void Nap() {
  poll(nullptr, 0, 5);
}

absl::Status Unsupported(std::string_view sentence) {
  return MakeError(WEFT_UNSUPPORTED, sentence);
}

std::string Port(int node, int interface) {
  return StrCat("port", node, "i", interface);
}

}  // namespace

NetlabProcess::~NetlabProcess() {
  if (code_.has_value()) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string NetlabProcess::Output() const {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t count =
        pread(output_.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer, static_cast<size_t>(count));
  }
}

int NetlabProcess::Wait(int64_t deadline_ns) {
  while (!code_.has_value()) {
    int status = 0;
    const pid_t ended = waitpid(pid_, &status, WNOHANG);
    if (ended == pid_) {
      code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    } else if (MonotonicNs() >= deadline_ns) {
      return -1;
    } else {
      Nap();
    }
  }
  return *code_;
}

bool NetlabProcess::WaitForOutput(const std::string& text, int64_t deadline_ns) {
  while (true) {
    const bool ended = Wait(0) >= 0;  // looked at first: nothing is written afterwards
    if (Output().find(text) != std::string::npos) return true;
    if (ended || MonotonicNs() >= deadline_ns) return false;
    Nap();
  }
}

void NetlabProcess::Kill(int signal) {
  if (Wait(0) < 0) kill(pid_, signal);
}

Netlab::Netlab(const NetlabSettings& settings)
    : settings_(settings),
      shapes_(static_cast<size_t>(settings.nodes * settings.interfaces)),
      faulty_(static_cast<size_t>(settings.nodes)) {}

absl::StatusOr<std::unique_ptr<Netlab>> Netlab::Make(const NetlabSettings& settings) {
  if (settings.nodes < 1 || settings.nodes > kNetlabNodesMax || settings.interfaces < 1 ||
      settings.interfaces > kNetlabInterfacesMax) {
    return MakeError(WEFT_INVALID_ARGUMENT, "so many nodes or interfaces cannot be made");
  }
  std::unique_ptr<Netlab> lab(new Netlab(settings));
  WEFT_RETURN_IF_ERROR(lab->StartHolders());
  WEFT_RETURN_IF_ERROR(lab->OpenPlaces());
  WEFT_RETURN_IF_ERROR(lab->Connect());
  return lab;
}

Netlab::~Netlab() {
  faulty_.clear();
  alive_.Reset();
  if (places_.empty() || places_[0].holder <= 0) return;
  // The holder of the switch waits for the others.
  const pid_t holder = places_[0].holder;
  for (const int64_t deadline_ns = MonotonicNs() + kEndNs; MonotonicNs() < deadline_ns; Nap()) {
    if (waitpid(holder, nullptr, WNOHANG) != 0) return;
  }
  kill(holder, SIGKILL);
  while (waitpid(holder, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string Netlab::Address(int node, int interface) {
  return StrCat("10.", 77 + interface, ".0.", node + 1);
}

absl::Status Netlab::StartHolders() {
  int alive[2];
  int reports[2];
  if (pipe2(alive, O_CLOEXEC) != 0) return SystemError(errno, "making a pipe");
  const UniqueFd alive_end(alive[0]);
  alive_ = UniqueFd(alive[1]);
  if (pipe2(reports, O_CLOEXEC) != 0) return SystemError(errno, "making a pipe");
  const UniqueFd report_end(reports[0]);
  UniqueFd reporting_end(reports[1]);
  std::fflush(nullptr);
  places_.resize(static_cast<size_t>(settings_.nodes) + 1);
  const pid_t pid = fork();
  if (pid < 0) return SystemError(errno, "starting a process");
  if (pid == 0) {
    close(alive[1]);
    HoldSwitch(settings_.nodes, alive[0], reports[1]);
  }
  places_[0].holder = pid;
  reporting_end.Reset();
  const int64_t deadline_ns = MonotonicNs() + kSetUpNs;
  for (size_t heard = 0; heard < places_.size(); ++heard) {
    pollfd item = {report_end.get(), POLLIN, 0};
    const int64_t left_ms = std::max<int64_t>(0, (deadline_ns - MonotonicNs()) / 1'000'000);
    Report report;
    if (poll(&item, 1, static_cast<int>(left_ms)) <= 0 ||
        read(report_end.get(), &report, sizeof report) != sizeof report) {
      return Unsupported("the processes that hold the namespaces did not come up");
    }
    if (report.error != 0) {
      return Unsupported(
          StrCat("network namespaces cannot be made here: ", std::strerror(report.error)));
    }
    places_[static_cast<size_t>(report.place)].holder = report.pid;
  }
  return absl::OkStatus();
}

absl::Status Netlab::OpenPlaces() {
  for (Place& place : places_) {
    WEFT_ASSIGN_OR_RETURN(place.namespaces, NodeNamespaces::Of(place.holder));
  }
  return absl::OkStatus();
}

absl::Status Netlab::Connect() {
  std::string at_switch;
  for (int interface = 0; interface < settings_.interfaces; ++interface) {
    at_switch +=
        StrCat("link add switch", interface, " type bridge\nlink set switch", interface, " up\n");
    for (int node = 0; node < settings_.nodes; ++node) {
      const std::string port = Port(node, interface);
      at_switch +=
          StrCat("link add ", port, " type veth peer name eth", interface, " netns ",
                 place(node).holder, "\nlink set ", port, " master switch", interface, " up\n");
    }
  }
  const std::vector<std::string> batch = {"ip", "-batch", "-"};
  WEFT_RETURN_IF_ERROR(Run(places_[0], batch, at_switch));
  for (int node = 0; node < settings_.nodes; ++node) {
    std::string at_node = "link set lo up\n";
    for (int interface = 0; interface < settings_.interfaces; ++interface) {
      at_node += StrCat("addr add ", Address(node, interface), "/24 dev eth", interface,
                        "\nlink set eth", interface, " up\n");
    }
    WEFT_RETURN_IF_ERROR(Run(place(node), batch, at_node));
  }
  return absl::OkStatus();
}

std::unique_ptr<NetlabProcess> Netlab::Spawn(int node, const std::vector<std::string>& arguments,
                                             const Environment& variables) const {
  return SpawnAt(place(node), arguments, variables, -1);
}

std::unique_ptr<NetlabProcess> Netlab::SpawnAt(const Place& place,
                                               const std::vector<std::string>& arguments,
                                               const Environment& variables, int input_fd) const {
  UniqueFd output(memfd_create("netlab output", MFD_CLOEXEC));
  const UniqueFd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const std::vector<std::string> environment = EnvironmentWith(variables);
  const std::vector<char*> words = Pointers(arguments);
  const std::vector<char*> lines = Pointers(environment);
  const pid_t parent = getpid();
  std::fflush(nullptr);
  const pid_t pid = fork();
  if (pid != 0) {
    if (pid > 0) setpgid(pid, pid);
    return std::make_unique<NetlabProcess>(pid, std::move(output));
  }
  setpgid(0, 0);
  dup2(input_fd >= 0 ? input_fd : nothing.get(), STDIN_FILENO);
  dup2(output.get(), STDOUT_FILENO);
  dup2(output.get(), STDERR_FILENO);
  const bool entered = place.namespaces.Enter();
  EndWithParent();
  environ = const_cast<char**>(lines.data());  // also by what the program is looked for
  if (entered && getppid() == parent) execvp(words[0], words.data());
  std::fprintf(stderr, "cannot run %s: %s\n", words[0], std::strerror(errno));
  std::fflush(stderr);
  _exit(kNoSuchProgram);
}

absl::Status Netlab::Run(const Place& place, const std::vector<std::string>& arguments,
                         const std::string& input) const {
  const UniqueFd given(memfd_create("netlab input", MFD_CLOEXEC));
  if (pwrite(given.get(), input.data(), input.size(), 0) != static_cast<ssize_t>(input.size())) {
    return SystemError(errno, "writing a file in memory");
  }
  // Where iproute2 lies on systems that keep it from users' paths.
  const char* path = std::getenv("PATH");
  const Environment variables = {
      {"PATH", StrCat(path == nullptr ? "" : path, ":/usr/sbin:/sbin:/usr/bin:/bin")}};
  const std::unique_ptr<NetlabProcess> process = SpawnAt(place, arguments, variables, given.get());
  const int code = process->Wait(MonotonicNs() + kSetUpNs);
  if (code == 0) return absl::OkStatus();
  std::string command;
  for (const std::string& word : arguments)
    command += (command.empty() ? "" : " ") + word;
  return Unsupported(StrCat(command, " (iproute2) ended with ", code, ": ", process->Output()));
}

absl::Status Netlab::ApplyShape(int node, int interface) {
  const Shape& shape = ShapeOf(node, interface);
  // A bucket that holds what the largest packet before segmentation, 64 KiB, may take, and 10 ms of the rate.
  const uint64_t burst_bytes =
      std::max<uint64_t>(128 << 10, shape.bits_per_second / CHAR_BIT / 100);
  const std::string rate = StrCat(shape.bits_per_second, "bit");
  const auto replace = [](const std::string& device, std::vector<std::string> discipline) {
    std::vector<std::string> words = {"tc", "qdisc", "replace", "dev", device, "root"};
    words.insert(words.end(), discipline.begin(), discipline.end());
    return words;
  };
  std::vector<std::string> paced = {"pfifo", "limit", "1000"};
  if (shape.bits_per_second > 0) {
    paced = {"tbf", "rate", rate, "burst", StrCat(burst_bytes), "latency", "50ms"};
  }
  WEFT_RETURN_IF_ERROR(Run(places_[0], replace(Port(node, interface), paced)));
  const std::string device = StrCat("eth", interface);
  if (shape.delay_ms == 0) return Run(place(node), replace(device, paced));
  std::vector<std::string> delayed = {"netem", "delay", StrCat(shape.delay_ms, "ms"), "limit",
                                      "100000"};
  if (shape.bits_per_second > 0) delayed.insert(delayed.end(), {"rate", rate});
  return Run(place(node), replace(device, delayed));
}

absl::Status Netlab::SetRate(int node, uint64_t bits_per_second, int interface) {
  ShapeOf(node, interface).bits_per_second = bits_per_second;
  return ApplyShape(node, interface);
}

absl::Status Netlab::SetDelay(int node, int milliseconds) {
  ShapeOf(node, 0).delay_ms = milliseconds;
  absl::Status set = ApplyShape(node, 0);
  if (!set.ok()) ShapeOf(node, 0).delay_ms = 0;
  return set;
}

absl::Status Netlab::SetLinkUp(int node, bool up, int interface) {
  return Run(places_[0], {"ip", "link", "set", Port(node, interface), up ? "up" : "down"});
}

// node's eth0 = port (out of the switch now) - forwarder - wire = plug, in the switch
absl::Status Netlab::SetFaults(int node, const FrameFaults& faults) {
  std::unique_ptr<Faulty>& faulty = faulty_[static_cast<size_t>(node)];
  if (faulty != nullptr) return MakeError(WEFT_BAD_STATE, "the node's cable is faulty already");
  const std::string port = Port(node, 0);
  const std::string wire = StrCat("wire", node);
  const std::string plug = StrCat("plug", node);
  WEFT_RETURN_IF_ERROR(Run(places_[0], {"ip", "-batch", "-"},
                           StrCat("link add ", wire, " type veth peer name ", plug, "\nlink set ",
                                  port, " nomaster\nlink set ", plug, " master switch0\nlink set ",
                                  plug, " up\nlink set ", wire, " up\n")));
  const auto without_offloads = [this](const Place& place, const std::string& interface) {
    const auto process = SpawnFunction(place, [&] { return TurnOffOffloads(interface); });
    const int code = process->Wait(MonotonicNs() + kSetUpNs);
    return code == 0 ? absl::OkStatus() : Unsupported(process->Output());
  };
  WEFT_RETURN_IF_ERROR(without_offloads(place(node), "eth0"));
  WEFT_RETURN_IF_ERROR(without_offloads(places_[0], plug));
  faulty = std::make_unique<Faulty>();
  FrameCounts* const counts = faulty->counts.operator->();
  faulty->process =
      SpawnFunction(places_[0], [&] { return ForwardFrames(port, wire, faults, counts); });
  return absl::OkStatus();
}

const FrameCounts& Netlab::Faults(int node) const {
  return *faulty_[static_cast<size_t>(node)]->counts.operator->();
}

void Netlab::SetLongestFrame(int node, uint64_t bytes) {
  faulty_[static_cast<size_t>(node)]->counts->longest.store(bytes);
}

std::unique_ptr<NetlabProcess> Netlab::SpawnFunction(
    const Place& place, const std::function<absl::Status()>& body) const {
  UniqueFd output(memfd_create("netlab output", MFD_CLOEXEC));
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return std::make_unique<NetlabProcess>(pid, std::move(output));
  const bool entered = place.namespaces.Enter();
  EndWithParent();
  if (!entered || getppid() != parent) _exit(kNoSuchProgram);
  const absl::Status done = body();
  const std::string said(done.message());
  (void)!write(output.get(), said.data(), said.size());
  _exit(done.ok() ? 0 : 1);
}

absl::StatusOr<NetlabCounters> Netlab::Counters(int node, int interface) const {
  const std::string text = ReadFileStart(StrCat("/proc/", place(node).holder, "/net/dev"));
  const std::string name = StrCat("eth", interface, ":");
  const size_t found = text.find(name);
  if (found == std::string::npos) return Unsupported(StrCat("no ", name, " in ", text));
  std::istringstream words(text.substr(found + name.size()));
  NetlabCounters counters;
  uint64_t other = 0;
  words >> counters.received_bytes >> counters.received_packets;
  for (int word = 0; word < 6; ++word)
    words >> other;
  words >> counters.sent_bytes >> counters.sent_packets;
  if (!words) return Unsupported(StrCat("counters that make no sense: ", text));
  return counters;
}

}  // namespace weft::test
