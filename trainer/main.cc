// weft_train: the reference trainer. See docs/trainer.md. Options are read before there is a group,
// but a rank with bad options joins it all the same: only so can rank 0 alone say what is wrong,
// and do the others end instead of waiting.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include <fmt/core.h>

#include "weft/group.h"
#include "weft/interrupt.h"

#include "base/standard_fds.h"
#include "trainer/commit.h"
#include "trainer/configuration/config_file.h"
#include "trainer/configuration/keys_page.h"
#include "trainer/data/tokenize.h"
#include "trainer/dry_run.h"
#include "trainer/failure.h"
#include "trainer/option_table.h"
#include "trainer/options.h"
#include "trainer/parallel.h"
#include "trainer/resolved_config.h"
#include "trainer/run.h"
#include "trainer/stop_signals.h"

namespace weft::trainer {
namespace {

// Every rank has found the same, or heard it of rank 0; one line is enough.
void EndAll(weft_group_t group, const std::exception& error) {
  int rank = 0;  // now: who is first may have changed
  if (group != nullptr) weft_group_rank(group, &rank);
  if (rank == 0) Complain(error.what());
  weft_group_abort(group, error.what());
}

// A rank that was asked to end before it could note that has died, and is waited for in vain by
// those that could: they give up.
weft_result_t Join(weft_group_t* group) {
  constexpr int64_t kLookEveryNs = 100'000'000;
  weft_set_interrupt(AskedLongAgo, nullptr, kLookEveryNs);
  const weft_result_t joined = weft_group_create_from_env(nullptr, group);
  weft_set_interrupt(nullptr, nullptr, 0);
  return joined;
}

// The exit code.
int RunTask(const ProgramConfig& config, weft_group_t group) {
  if (config.task == Task::kEval) return RunEval(config.eval, group);
  if (config.task == Task::kSample) return RunSample(config.sample, group);
  return Run(config, group).ToTheEnd();
}

bool NeedsRanks(Task task) {
  return task == Task::kTrain || task == Task::kEval || task == Task::kSample;
}

// Runs with a group made from the launcher's environment; returns the exit code.
int RunInGroup(const ProgramConfig& config, const std::string& bad_options) {
  weft_group_t group = nullptr;
  const weft_result_t joined = Join(&group);
  const int stop_code = StopCode(PendingRequests());
  if (joined != WEFT_SUCCESS && stop_code != 0) return stop_code;  // nothing has begun
  if (bad_options.empty()) Check(joined, "joining the other ranks");
  int rank = 0;
  if (group != nullptr) weft_group_rank(group, &rank);
  int code = 0;
  try {
    if (!bad_options.empty()) throw BadInput(bad_options);
    code = RunTask(config, group);
  } catch (const BadInput& error) {
    EndAll(group, error);
    code = kExitBadInput;
  } catch (const NotOfThisRun& error) {
    Complain(fmt::format("rank {}: {}", rank, error.what()));
    code = kExitBadInput;
  } catch (const NotWritten& error) {
    EndAll(group, error);
    code = kExitNotWritten;
  } catch (const std::exception& error) {
    Complain(fmt::format("rank {}: {}", rank, error.what()));
    weft_group_abort(group, error.what());
    code = kExitFailure;
  }
  weft_group_destroy(group);
  return code;
}

// What needs no other ranks. Throws BadInput.
std::string TextOf(const ProgramConfig& config) {
  if (config.task == Task::kConfigKeys) return ConfigKeysPage();
  ProgramConfig planned = config;
  planned.train = WithDefaults(config.train, config.planned_ranks);
  CheckConfig(planned.train, config.planned_ranks);
  if (config.task == Task::kDryRun) {
    return DescribeNotes(planned) +
           DescribeDryRun(planned.train, {.ranks = config.planned_ranks,
                                          .price_per_hour = config.price_per_hour,
                                          .ranks_per_machine = config.planned_ranks_per_machine});
  }
  std::fputs(DescribeNotes(planned).c_str(), stderr);
  return ConfigText(ResolvedOptions(planned), config.planned_ranks);
}

// The exit code.
int PrintText(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  Complain(fmt::format("writing the output: {}", std::strerror(errno)));
  return kExitNotWritten;
}

// The exit code, of what needs no other ranks either.
int WriteFiles(const ProgramConfig& config) {
  try {
    if (config.task == Task::kExport) return PrintText(RunExport(config.model_export));
    return RunTokenize(config.tokenize);
  } catch (const BadInput& error) {
    Complain(error.what());
    return kExitBadInput;
  } catch (const NotWritten& error) {
    Complain(error.what());
    return kExitNotWritten;
  } catch (const std::exception& error) {
    Complain(error.what());
    return kExitFailure;
  }
}

int Main(int argc, char** argv) {
  CatchStopSignals();
  ProgramConfig config;
  config.commit = kCommit;
  std::string help, bad_options;
  try {
    if (!ParseOptions(argc, argv, config, help)) return PrintText(help);
    if (config.task == Task::kTokenize || config.task == Task::kExport) return WriteFiles(config);
    if (!NeedsRanks(config.task)) {
      const int printed = PrintText(TextOf(config));
      const int stop_code = StopCode(PendingRequests());
      return stop_code != 0 ? stop_code : printed;
    }
  } catch (const BadInput& error) {
    bad_options = error.what();
  }
  if (!bad_options.empty() && !NeedsRanks(config.task)) {
    Complain(bad_options);
    return kExitBadInput;
  }
  try {
    return RunInGroup(config, bad_options);
  } catch (const std::exception& error) {
    Complain(error.what());
    return kExitFailure;
  }
}

}  // namespace
}  // namespace weft::trainer

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  return weft::trainer::Main(argc, argv);
}
