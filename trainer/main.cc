// weft_train: the reference trainer. See docs/trainer.md. Options are read before there is a group, but a rank with bad options
// joins it all the same: only so can rank 0 alone say what is wrong, and do the others end instead of waiting.
#include <exception>
#include <string>

#include <fmt/core.h>

#include "weft/group.h"

#include "trainer/failure.h"
#include "trainer/options.h"
#include "trainer/parallel.h"
#include "trainer/run.h"
#include "trainer/stop_signals.h"

namespace weft::trainer {
namespace {

// Runs with a group made from the launcher's environment; returns the exit code.
int RunInGroup(const ProgramConfig& config, const std::string& bad_options) {
  weft_group_t group = nullptr;
  if (bad_options.empty()) {
    Check(weft_group_create_from_env(nullptr, &group), "joining the other ranks");
  } else if (weft_group_create_from_env(nullptr, &group) != WEFT_SUCCESS) {
    group = nullptr;
  }
  int rank = 0;
  if (group != nullptr) weft_group_rank(group, &rank);
  int code = 0;
  try {
    if (!bad_options.empty()) throw BadInput(bad_options);
    code = Run(config, group).ToTheEnd();
  } catch (const BadInput& error) {
    // Every rank finds the same fault; one line is enough. Who is first may have changed.
    int rank_now = rank;
    if (group != nullptr) weft_group_rank(group, &rank_now);
    if (rank_now == 0) fmt::print(stderr, "weft_train: {}\n", error.what());
    weft_group_abort(group, error.what());
    code = 2;
  } catch (const NotOfThisRun& error) {
    fmt::print(stderr, "weft_train: rank {}: {}\n", rank, error.what());
    code = 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft_train: rank {}: {}\n", rank, error.what());
    weft_group_abort(group, error.what());
    code = 1;
  }
  weft_group_destroy(group);
  return code;
}

int Main(int argc, char** argv) {
  CatchStopSignals();
  ProgramConfig config;
  std::string help, bad_options;
  try {
    if (!ParseOptions(argc, argv, config, help)) {
      fmt::print("{}", help);
      return 0;
    }
  } catch (const BadInput& error) {
    bad_options = error.what();
  }
  try {
    return RunInGroup(config, bad_options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "weft_train: {}\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace weft::trainer

int main(int argc, char** argv) {
  return weft::trainer::Main(argc, argv);
}
