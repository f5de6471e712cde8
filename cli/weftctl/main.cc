// weftctl: looks at what weft knows. One subcommand per file; each adds itself in Run().
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "cli/weftctl/dump_command.h"
#include "cli/weftctl/options_command.h"
#include "cli/weftctl/tune_command.h"

namespace {

constexpr int kUsageError = 2;  // also: a file that is missing or not what it should be
constexpr int kSystemError = 1;

void AddOptions(CLI::App& app, std::string* output) {
  CLI::App* command = app.add_subcommand("options", "the settings, their defaults and meaning");
  auto* markdown = command->add_flag("--markdown")->description("as a table for docs/options.md");
  auto* json = command->add_flag("--json")->description("for programs")->excludes(markdown);
  command->callback([=] {
    *output = weft::FormatOptions(*json       ? weft::OptionsFormat::kJson
                                  : *markdown ? weft::OptionsFormat::kMarkdown
                                              : weft::OptionsFormat::kText);
  });
}

struct DumpArguments {
  std::vector<std::string> files;
  std::vector<std::string> problems;
};

void AddDump(CLI::App& app, std::string* output, DumpArguments* arguments) {
  CLI::App* command = app.add_subcommand("dump", "what ranks had called when a group failed");
  auto* json = command->add_flag("--json")->description("everything, for programs");
  command->add_option("FILE", arguments->files, "weft-*.wfr, from WEFT_DUMP_DIR")->required();
  command->callback([=] {
    weft::DumpOutput dumps = weft::FormatDumps(arguments->files, bool(*json));
    *output = std::move(dumps.text);
    arguments->problems = std::move(dumps.problems);
  });
}

void AddTune(CLI::App& app, std::string* output) {
  CLI::App* command =
      app.add_subcommand("tune", "what this machine costs, and what follows from it");
  auto* measure = command->add_flag("--measure")->description("measure now, and keep it");
  auto* json = command->add_flag("--json")->description("for programs");
  command->callback([=] { *output = weft::FormatTune(bool(*measure), bool(*json)); });
}

int Run(int argc, char** argv) {
  CLI::App app("Looks at what weft knows.", "weftctl");
  app.require_subcommand(1);
  std::string output;
  DumpArguments dump;
  AddOptions(app, &output);
  AddDump(app, &output, &dump);
  AddTune(app, &output);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    output = app.get_subcommands().empty() ? app.help() : app.get_subcommands().front()->help();
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "weftctl: %s; weftctl --help lists the commands\n", error.what());
    return kUsageError;
  }
  const bool written = std::fwrite(output.data(), 1, output.size(), stdout) == output.size();
  if (!written || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "weftctl: writing the output failed\n");
    return kSystemError;
  }
  for (const std::string& problem : dump.problems)
    std::fprintf(stderr, "weftctl: %s\n", problem.c_str());
  return dump.problems.empty() ? 0 : kUsageError;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {  // of the libraries, when memory runs out
    std::fprintf(stderr, "weftctl: %s\n", error.what());
    return kSystemError;
  }
}
