#include "cli/weftctl/commands.h"

#include <utility>

#include <CLI/App.hpp>

#include "cli/weftctl/dump_command.h"
#include "cli/weftctl/options_command.h"
#include "cli/weftctl/tune_command.h"

namespace weft {
namespace {

void AddOptions(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand("options", "the settings, their defaults and meaning");
  auto* markdown = command->add_flag("--markdown")->description("as a table for docs/options.md");
  auto* json = command->add_flag("--json")->description("for programs")->excludes(markdown);
  command->callback([=] {
    line->output = FormatOptions(*json       ? OptionsFormat::kJson
                                 : *markdown ? OptionsFormat::kMarkdown
                                             : OptionsFormat::kText);
  });
}

void AddDump(CLI::App& app, CommandLine* line) {
  CLI::App* command = app.add_subcommand("dump", "what ranks had called when a group failed");
  auto* json = command->add_flag("--json")->description("everything, for programs");
  command->add_option("FILE", line->files, "weft-*.wfr, from WEFT_DUMP_DIR")->required();
  command->callback([=] {
    DumpOutput dumps = FormatDumps(line->files, bool(*json));
    line->output = std::move(dumps.text);
    line->problems = std::move(dumps.problems);
  });
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
  command->callback([=] {
    ExplainOutput explained = FormatExplain(line->explain, bool(*json));
    line->output = std::move(explained.text);
    if (!explained.problem.empty()) line->problems.push_back(std::move(explained.problem));
  });
}

void AddTune(CLI::App& app, CommandLine* line) {
  CLI::App* command =
      app.add_subcommand("tune", "what this machine costs, and what follows from it");
  auto* measure = command->add_flag("--measure")->description("measure now, and keep it");
  auto* json = command->add_flag("--json")->description("for programs");
  command->callback([=] { line->output = FormatTune(bool(*measure), bool(*json)); });
}

}  // namespace

void AddCommands(CLI::App& app, CommandLine* line) {
  AddOptions(app, line);
  AddDump(app, line);
  AddExplain(app, line);
  AddTune(app, line);
}

}  // namespace weft
