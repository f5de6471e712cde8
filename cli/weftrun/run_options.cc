#include "cli/weftrun/run_options.h"

#include <memory>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <unistd.h>

#include "base/host.h"
#include "base/options.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftrun/torchrun_variables.h"
#include "topology/binding.h"

namespace weft {
namespace {

constexpr std::string_view kBindNone = "none";
constexpr int kRestartsMax = 1'000'000;
constexpr int kStopGraceMax = 86'400;

// CLI11 does not know of the program that follows the options.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    (void)app;
    return StrCat("Usage: ", name, " -n RANKS [OPTIONS] PROGRAM [ARGUMENTS...]\n");
  }
};

absl::Status Refuse(std::string_view what) {
  return MakeError(WEFT_INVALID_ARGUMENT, what);
}

// The program begins at the first word that is no option; CLI11 leaves it and all behind it.
absl::Status TakeProgram(std::vector<std::string> rest, RunOptions* options) {
  if (!rest.empty() && rest.front() == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest.front().size() > 1 && rest.front().front() == '-') {
    return Refuse(StrCat("unknown option ", rest.front(),
                         "; options of weftrun stand before the "
                         "program, weftrun --help lists them"));
  }
  if (rest.empty() || rest.front().empty()) {
    return Refuse("no program to start; usage: weftrun -n RANKS PROGRAM [ARGUMENTS...]");
  }
  options->program = std::move(rest);
  return absl::OkStatus();
}

CountedMachine ThisMachine() {
  const bool devices = access("/dev/nvidia0", F_OK) == 0 || access("/dev/kfd", F_OK) == 0;
  return {.cpus = ReadHostFacts().cpus, .devices = devices};
}

absl::Status TakeShape(JobShape shape, RunOptions* options) {
  WEFT_RETURN_IF_ERROR(FillFromTorchrunVariables(EnvironmentValue, ThisMachine(), &shape));
  options->node_count = shape.node_count.value_or(1);
  options->master_host = shape.master_host.value_or("");
  options->master_port = shape.master_port.value_or(0);
  if (!shape.ranks_per_node.has_value()) {
    return Refuse("-n is missing: the number of ranks on this node");
  }
  options->ranks_per_node = *shape.ranks_per_node;
  if (options->node_count > 1 && !shape.node_rank.has_value()) {
    return Refuse(
        "--node-rank is missing: with --nnodes (or PET_NNODES) each node has its own, from 0");
  }
  options->node_rank = shape.node_rank.value_or(0);
  return absl::OkStatus();
}

// What ranges alone do not say.
absl::Status CheckNumbers(const RunOptions& options) {
  if (options.node_rank >= options.node_count) {
    return Refuse(StrCat("--node-rank ", options.node_rank, ": must be from 0 to ",
                         options.node_count - 1, " for --nnodes ", options.node_count));
  }
  if (options.elastic && options.node_count > 1) {
    return Refuse("--elastic is for the ranks of one node; leave out --nnodes (or PET_NNODES)");
  }
  if (options.ranks_min > options.ranks_per_node) {
    return Refuse(
        StrCat("--min-ranks ", options.ranks_min, ": must be at most -n ", options.ranks_per_node));
  }
  if (options.ranks_min > 1 && !options.elastic) {
    return Refuse("--min-ranks is of --elastic only: without it the ranks end together");
  }
  return absl::OkStatus();
}

// mpirun's -np is no option that CLI11 knows: one dash has one letter there. Only up to the program, which may have such an option,
// too.
std::vector<const char*> OptionWords(const CLI::App& app, int argc, const char* const* argv) {
  std::vector<const char*> words(argv, argv + argc);
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word.size() < 2 || word.front() != '-' || word == "--") break;
    if (word == "-np") words[i] = "--np";
    const CLI::Option* const option = app.get_option_no_throw(words[i]);
    if (option != nullptr && option->get_items_expected() > 0) ++i;
  }
  return words;
}

absl::Status TakeBinding(const std::string& name, RunOptions* options) {
  if (name == kBindNone) return absl::OkStatus();
  const absl::StatusOr<ObjectKind> kind = ReadBindingName(name);
  if (!kind.ok()) return Refuse(StrCat("--bind: ", FromAbsl(kind.status().message()), ", or none"));
  options->bind = *kind;
  return absl::OkStatus();
}

absl::Status CheckSeveralNodes(const RunOptions& options) {
  if (options.node_count == 1) return absl::OkStatus();
  if (options.master_host.empty() || options.master_port == 0) {
    return Refuse(
        "--master-addr and --master-port are needed with --nnodes: an address of node 0 "
        "and a port that is free there, as is the one above it (or PET_MASTER_ADDR and "
        "PET_MASTER_PORT, or PET_RDZV_ENDPOINT)");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunOptions> ParseRunOptions(int argc, const char* const* argv) {
  RunOptions options;
  JobShape shape;
  std::string bind(kBindNone);
  CLI::App app(
      "Starts the ranks of a job on this node, relays their output and ends them together.",
      "weftrun");
  app.formatter(std::make_shared<HelpFormatter>());
  const auto number = [&app](const char* names, auto& value, int least, int most,
                             const char* meaning) {
    app.add_option(names, value, meaning)->check(CLI::Range(least, most));
  };
  number("-n,--np,--nproc-per-node", shape.ranks_per_node, 1, kRanksPerNodeMax,
         "ranks to start on this node; other nodes may have more or fewer");
  number("--nnodes", shape.node_count, 1, kNodesMax, "nodes of the job; run weftrun once on each");
  number("--node-rank", shape.node_rank, 0, kNodesMax - 1, "which of them this is, from 0");
  app.add_option("--master-addr", shape.master_host, "address of node 0");
  number("--master-port", shape.master_port, 1, kMasterPortMax,
         "MASTER_PORT of the ranks; weft's store listens on the next port");
  number("--max-restarts", options.restarts_max, 0, kRestartsMax,
         "how often all ranks are started again after a failure; with --elastic: how often a lost "
         "rank is started again alone, all of them together (0)");
  app.add_flag("--elastic", options.elastic,
               "a rank that fails does not end the others, while --min-ranks are left");
  number("--min-ranks", options.ranks_min, 1, kRanksPerNodeMax,
         "with --elastic: the job ends when fewer are left (1)");
  number("--stop-grace", options.stop_grace_s, 0, kStopGraceMax,
         "seconds that ranks have to end when weftrun or one of them is asked to (120)");
  app.add_option("--bind", bind,
                 "binds each rank to CPUs of a core, l3 (cache), numa (node) or package; "
                 "none: the system moves ranks freely (none)");
  app.add_option("--log-dir", options.log_dir,
                 "directory that gets the unprefixed output of each rank in files");
  app.prefix_command();
  try {
    const std::vector<const char*> words = OptionWords(app, argc, argv);
    app.parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::CallForHelp&) {
    options.help = app.help();
    return options;
  } catch (const CLI::ParseError& error) {
    return Refuse(error.what());
  }
  WEFT_RETURN_IF_ERROR(TakeShape(std::move(shape), &options));
  WEFT_RETURN_IF_ERROR(CheckNumbers(options));
  WEFT_RETURN_IF_ERROR(CheckSeveralNodes(options));
  WEFT_RETURN_IF_ERROR(TakeBinding(bind, &options));
  WEFT_RETURN_IF_ERROR(TakeProgram(app.remaining(), &options));
  return options;
}

}  // namespace weft
