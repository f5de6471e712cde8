// weftrun: starts the ranks of a job on this node. docs/launch.md tells users about it.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>

#include <unistd.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/standard_fds.h"
#include "base/status.h"
#include "base/text.h"
#include "base/wait.h"
#include "cli/weftrun/agents.h"
#include "cli/weftrun/job.h"
#include "cli/weftrun/run_options.h"
#include "cli/weftrun/signals.h"
#include "cli/weftrun/stop_requests.h"

namespace weft {
namespace {

constexpr int kUsageError = 2;
constexpr int kSystemError = 1;

int Complain(const absl::Status& status, int exit_code) {
  std::fprintf(stderr, "weftrun: %s\n", std::string(status.message()).c_str());
  return exit_code;
}

int ExitCodeOfStartError(const absl::Status& status) {
  if (ResultOf(status) == WEFT_INVALID_ARGUMENT) return kUsageError;
  const int exit_code = FieldsOf(status).exit_code;
  return exit_code >= 0 ? exit_code : kSystemError;
}

// What goes on while the name of the master is waited for, before there is a job with a loop.
struct NameWait {
  Signals& signals;
  StopRequests& stop;
  OutputSink& err;
};

// Of base/interrupt.h: whether weftrun was asked to end.
int LookAround(void* user) {
  const NameWait& wait = *static_cast<NameWait*>(user);
  wait.err.Flush();
  while (const int signal = wait.signals.Next()) {
    if (signal == SIGTSTP) raise(SIGSTOP);
    if (signal == SIGINT || signal == SIGTERM || signal == SIGHUP)
      wait.stop.Note(signal, MonotonicNs());
  }
  return wait.stop.count() > 0 ? 1 : 0;
}

absl::StatusOr<JobPlan> PlanAttentively(const RunOptions& options, int restart,
                                        const std::string& job_name, NameWait wait) {
  constexpr int64_t kLookNs = 50'000'000;
  SetInterrupt({.check = LookAround, .user = &wait, .every_ns = kLookNs});
  absl::StatusOr<JobPlan> plan = PlanJob(options, restart, job_name);
  SetInterrupt({});
  wait.err.Flush();
  if (ResultOf(plan.status()) != WEFT_INTERRUPTED) return plan;
  const int signal = wait.stop.signal();
  return MakeError(WEFT_ABORTED, {.exit_code = 128 + signal},
                   StrCat(SignalName(signal), " while waiting for the name ", options.master_host,
                          " to be known"));
}

int Run(const RunOptions& options) {
  absl::StatusOr<Signals> signals = Signals::Block();
  if (!signals.ok()) return Complain(signals.status(), kSystemError);
  absl::StatusOr<ProcessGuard> guard = ProcessGuard::Start();
  if (!guard.ok()) return Complain(guard.status(), kSystemError);
  OutputSink out(STDOUT_FILENO);
  OutputSink err(STDERR_FILENO);
  // Warnings of the store go where the ranks' lines go, so that they do not break one apart.
  SetLogCallback(
      [](weft_log_level_t, const char* message, void* sink) {
        static_cast<OutputSink*>(sink)->Append("weftrun: ", StrCat(message, "\n"));
      },
      &err);
  JobResult result;
  StopRequests stop;
  std::string job_name;
  std::optional<Agents> agents;
  for (int restart = 0; restart <= options.job_restarts_max(); ++restart) {
    absl::StatusOr<JobPlan> plan =
        PlanAttentively(options, restart, job_name, {*signals, stop, err});
    if (!plan.ok()) return Complain(plan.status(), ExitCodeOfStartError(plan.status()));
    job_name = plan->job_name;
    if (options.node_count > 1 && !agents.has_value()) {
      agents.emplace(options, *plan);
      const absl::Status opened = agents->Open();
      if (!opened.ok()) return Complain(opened, kSystemError);
    }
    Job job(options, *std::move(plan), &*signals, &stop, &*guard, {&out, &err},
            agents.has_value() ? &*agents : nullptr);
    const absl::Status started = job.Start();
    if (!started.ok()) return Complain(started, ExitCodeOfStartError(started));
    result = job.Run();
    if (!result.restart) break;
  }
  SetLogCallback(nullptr, nullptr);
  return result.exit_code;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  const absl::StatusOr<weft::RunOptions> options = weft::ParseRunOptions(argc, argv);
  if (!options.ok()) return weft::Complain(options.status(), weft::kUsageError);
  if (!options->help.empty()) {
    const bool put = std::fputs(options->help.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    return put ? 0
               : weft::Complain(weft::SystemError(errno, "writing the help"), weft::kSystemError);
  }
  return weft::Run(*options);
}
