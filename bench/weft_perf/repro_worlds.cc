#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/version.h"

#include "bench/weft_perf/output.h"
#include "bench/weft_perf/ranks.h"
#include "bench/weft_perf/repro.h"

namespace weft::perf {
namespace {

constexpr char kNodesVariable[] = "WEFT_FAKE_NODES";
constexpr char kTransportVariable[] = "WEFT_TRANSPORT";

bool IsSet(const char* value) {
  return value != nullptr && *value != '\0';
}

// Starts this program once more, its output in *pipe_end.
Outcome StartWorld(const ReproWorld& world, int argc, char** argv, pid_t* pid, int* pipe_end) {
  std::vector<char*> arguments(argv, argv + argc);
  char repro_world[] = "--repro-world";
  char threads_as_ranks[] = "--threads-as-ranks";
  arguments.push_back(repro_world);
  if (world.threads) arguments.push_back(threads_as_ranks);
  arguments.push_back(nullptr);
  // This process itself uses nothing that reads it.
  setenv("WEFT_ISA", world.isa.c_str(), 1);
  if (!world.nodes.empty()) setenv(kNodesVariable, world.nodes.c_str(), 1);
  if (!world.transport.empty()) setenv(kTransportVariable, world.transport.c_str(), 1);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Fail(ExitCode::kInternal, Printf("no pipe for the ranks: %s", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int error =
      posix_spawn(pid, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  *pipe_end = ends[0];
  if (error == 0) return {};
  close(ends[0]);
  return Fail(ExitCode::kInternal, Printf("cannot start the ranks: %s", std::strerror(error)));
}

// Reads the world's lines until it ends; those that are no results go on to stdout if `forward`.
void ReadWorld(int pipe_end, bool forward, const Output& output, ReproSummary* summary) {
  std::FILE* lines = fdopen(pipe_end, "r");
  if (lines == nullptr) {
    close(pipe_end);
    return;
  }
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, lines) >= 0) {
    if (!summary->AddLine(line) && forward) output.Print(line);
  }
  std::free(line);
  std::fclose(lines);
}

Outcome RunWorld(const ReproWorld& world, int argc, char** argv, bool forward, const Output& output,
                 ReproSummary* summary) {
  pid_t pid = -1;
  int pipe_end = -1;
  if (Outcome o = StartWorld(world, argc, argv, &pid, &pipe_end); !o.ok()) return o;
  ReadWorld(pipe_end, forward, output, summary);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  const auto code =
      WIFEXITED(status) ? static_cast<ExitCode>(WEXITSTATUS(status)) : ExitCode::kInternal;
  const std::string nodes = world.nodes.empty()
                                ? ""
                                : Printf(" %s=%s %s=%s", kNodesVariable, world.nodes.c_str(),
                                         kTransportVariable, world.transport.c_str());
  return Fail(code, Printf("%s with WEFT_ISA=%s%s failed", world.threads ? "threads" : "ranks",
                           world.isa.c_str(), nodes.c_str()));
}

// A node for each rank, as WEFT_FAKE_NODES has it.
template <typename NodeOf>
std::string NodesText(int ranks, NodeOf&& node_of) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank)
    text += Printf(rank == 0 ? "%d" : ",%d", node_of(rank));
  return text;
}

// Two nodes, one for each rank, all ranks but one on the first, by turns: those that differ.
std::vector<std::string> NodeShapes(int ranks) {
  std::vector<std::string> shapes;
  if (ranks >= 2) shapes.emplace_back("2");
  if (ranks >= 3) {
    shapes.push_back(Printf("%d", ranks));
    shapes.push_back(NodesText(ranks, [ranks](int rank) { return rank == ranks - 1 ? 1 : 0; }));
    shapes.push_back(NodesText(ranks, [](int rank) { return rank % 2; }));
  }
  return shapes;
}

}  // namespace

std::vector<ReproWorld> ReproWorlds(const Options& options, const std::vector<std::string>& isas,
                                    const std::vector<std::string>& transports,
                                    const ReproChoice& choice) {
  std::vector<std::string> wanted = isas;
  if (IsSet(choice.isa)) wanted = {choice.isa};
  // --threads-as-ranks has no place beside -t and -g.
  const bool both =
      options.processes > 0 && !options.threads_as_ranks && options.ranks_per_process() == 1;
  std::vector<ReproWorld> worlds;
  for (const std::string& isa : wanted) {
    worlds.push_back({false, isa, "", ""});
    if (both) worlds.push_back({true, isa, "", ""});
  }
  if (!both || IsSet(choice.nodes)) return worlds;
  const std::vector<std::string> over =
      IsSet(choice.transport) ? std::vector<std::string>{choice.transport} : transports;
  for (const std::string& transport : over) {
    for (std::string& shape : NodeShapes(options.processes))
      worlds.push_back({false, wanted.back(), std::move(shape), transport});
  }
  return worlds;
}

std::vector<std::string> NodeTransports() {
  std::vector<std::string> transports = {"tcp"};
  Dl_info library;
  if (dladdr(reinterpret_cast<void*>(&weft_version), &library) == 0) return transports;
  const std::filesystem::path folder = std::filesystem::path(library.dli_fname).parent_path();
  // Opened, as it may lack UCX; and for good, as UCX has threads.
  if (dlopen((folder / "libweft_ucx.so").c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr)
    transports.emplace_back("ucx");
  return transports;
}

std::vector<std::string> CpuIsas() {
  std::vector<std::string> isas = {"scalar"};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) isas.emplace_back("avx2");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (avx512) isas.emplace_back("avx512");
#endif
  return isas;
}

ExitCode RunReproWorlds(const Options& options, int argc, char** argv) {
  Output output(options, argc, argv, /*writer=*/true);
  ReproSummary summary;
  Outcome outcome;
  bool first = true;
  for (const ReproWorld& world : ReproWorlds(options, CpuIsas(), NodeTransports(),
                                             {.isa = std::getenv("WEFT_ISA"),
                                             .nodes = std::getenv(kNodesVariable),
                                             .transport = std::getenv(kTransportVariable)})) {
    outcome = RunWorld(world, argc, argv, first, output, &summary);
    if (!outcome.ok()) break;
    first = false;
  }
  output.report().repro = summary;
  if (outcome.ok()) {
    output.Print(summary.Text());
    if (!summary.ok()) {
      outcome = Fail(ExitCode::kWrong, "results that must have the same bits differ");
      output.report().errors.push_back(outcome.message);
    }
  }
  return Tell(options, output.Finish(outcome));
}

}  // namespace weft::perf
