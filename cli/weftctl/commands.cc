#include "cli/weftctl/commands.h"

#include <CLI/App.hpp>

namespace weft {
namespace {

void AddOptions(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand("options", "the settings, their defaults and meaning");
  auto* markdown = command->add_flag("--markdown")->description("as a table for docs/options.md");
  auto* json = command->add_flag("--json")->description("for programs")->excludes(markdown);
  command->callback([=] {
    line->output = PrintOptions(*json       ? OptionsFormat::kJson
                                : *markdown ? OptionsFormat::kMarkdown
                                            : OptionsFormat::kText);
  });
}

void AddDump(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand("dump", "what ranks had called when a group failed");
  auto* json = command->add_flag("--json")->description("everything, for programs");
  command->add_option("FILE", line->files, "weft-*.wfr, from WEFT_DUMP_DIR")->required();
  command->callback([=] { line->output = PrintDumps(line->files, bool(*json)); });
}

void AddExplain(CLI::App& app, CommandLine* line) {
  CLI::App* command =
      app.add_subcommand("explain", "what weft does for a call on this machine, and why");
  command->add_option("OP", line->explain.operation, "all_reduce, all_gather...")->required();
  command->add_option("BYTES", line->explain.bytes, "its count in bytes: 4096, 64K")->required();
  command->add_option("--ranks", line->explain.ranks, "of one node")->capture_default_str();
  command->add_option("--dtype", line->explain.dtype, "of the elements")->capture_default_str();
  command->add_flag("--symmetric", line->explain.symmetric, "all buffers are of weft_mem_alloc");
  auto* json = command->add_flag("--json")->description("for programs");
  command->callback([=] { line->output = PrintExplanation(line->explain, bool(*json)); });
}

void AddTune(CLI::App& app, CommandLine* line) {
  CLI::App* command =
      app.add_subcommand("tune", "what this machine costs, and what follows from it");
  auto* measure = command->add_flag("--measure")->description("measure now, and keep it");
  auto* json = command->add_flag("--json")->description("for programs");
  command->callback([=] { line->output = PrintTuning(bool(*measure), bool(*json)); });
}

void AddModelOptions(CLI::App* command, PlanArguments* plan) {
  command->add_option("--params", plan->params, "of the model: 7e9, 350M, 7B (powers of 1000)")
      ->required();
  command->add_option("--ranks", plan->ranks, "that share it")->required();
  command
      ->add_option("--mix", plan->mix,
                   "fp32, fp16 or bf16; or bytes per param of params, main copy, gradients and "
                   "optimizer: 2,4,4,8")
      ->capture_default_str();
  auto* units = command->add_option("--units", plan->units, "equal ones")->capture_default_str();
  command->add_option("--largest-unit", plan->largest_unit, "its params, as --params")
      ->excludes(units);
}

void AddPlan(CLI::App& app, CommandLine* line) {
  CLI::App* command =
      app.add_subcommand("plan", "what each strategy costs per rank: memory and traffic");
  PlanArguments* const plan = &line->plan;
  AddModelOptions(command, plan);
  command->add_option("--microbatches", plan->micro_batches, "per step")->capture_default_str();
  command
      ->add_option(
          "--accumulation", plan->accumulation,
          "reduce gradients: local, with the last micro-batch; every, with each; inner, inside "
          "shard groups with each, across with the last")
      ->capture_default_str();
  command->add_option("--shard-group", plan->shard_group, "ranks of one, for hybrid and hpz");
  command->add_option("--budget", plan->budget, "of a rank: 40GB (10^9 bytes), 36GiB (2^30)");
  command
      ->add_option(
          "--views", plan->views,
          "addresses of params that are gathered: move; stable, the same in all steps; apart, "
          "with a place for each unit")
      ->capture_default_str();
  auto* json = command->add_flag("--json")->description("for programs");
  command->callback([=] { line->output = PrintPlan(*plan, bool(*json)); });
}

}  // namespace

void AddCommands(CLI::App& app, CommandLine* line) {
  AddOptions(app, line);
  AddDump(app, line);
  AddExplain(app, line);
  AddTune(app, line);
  AddPlan(app, line);
}

}  // namespace weft
