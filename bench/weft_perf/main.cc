// weft_perf: measures weft's collectives with the options, the protocol and the output of nccl-
// tests. README.md says what is where, docs/weft_perf.md how to use it.
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <sys/prctl.h>

#include "base/standard_fds.h"
#include "bench/weft_perf/launcher.h"
#include "bench/weft_perf/options.h"
#include "bench/weft_perf/ranks.h"
#include "bench/weft_perf/repro.h"
#include "bench/weft_perf/run.h"

namespace weft::perf {
namespace {

ExitCode Main(int argc, char** argv) {
  const CommandLine line = ParseCommandLine(argc, argv);
  if (!line.run) {
    std::fputs(line.text.c_str(), line.code == ExitCode::kOk ? stdout : stderr);
    return line.code;
  }
  const Options& options = line.options;
  const std::vector<LauncherSize> sizes = LauncherSizes(std::getenv);
  if (const Outcome o = CheckLauncher(sizes, options); !o.ok()) return Tell(options, o);
  // A reader of the table that goes away must not look like a lost rank to the others.
  std::signal(SIGPIPE, SIG_IGN);
  if (options.repro_world) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (options.repro && !options.repro_world && sizes.empty()) {
    return RunReproWorlds(options, argc, argv);
  }
  const RankBody body = [&](weft_group_t group) {
    return RunRank(options, argc, argv, group);
  };
  if (options.threads_as_ranks) {
    const int ranks = options.processes > 0 ? options.processes : options.ranks_per_process();
    return RunLocally(options, ranks, body);
  }
  if (options.processes > 0) return RunProcesses(options, body);
  if (!sizes.empty()) return RunFromEnvironment(options, body);
  return RunLocally(options, options.ranks_per_process(), body);
}

}  // namespace
}  // namespace weft::perf

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  return static_cast<int>(weft::perf::Main(argc, argv));
}
