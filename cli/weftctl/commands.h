// The subcommands of weftctl and their options, apart from parsing: each costs the compiler its share.
//
//   CLI::App app;
//   CommandLine line;
//   AddCommands(app, &line);
//   app.parse(argc, argv);   // runs the command that it finds
//   fputs(line.output.c_str(), stdout);
//
// Thread-safety: one thread.
#pragma once

#include <string>
#include <vector>

#include "cli/weftctl/explain_command.h"
#include "cli/weftctl/plan_command.h"

namespace CLI {
class App;
}

namespace weft {

// What a command line says, and what its command says to it.
struct CommandLine {
  std::vector<std::string> files;  // of dump
  ExplainArguments explain;
  PlanArguments plan;
  std::string output;
  std::vector<std::string> problems;  // one sentence each
};

// Adds all subcommands to `app`; `line` outlives it.
void AddCommands(CLI::App& app, CommandLine* line);

}  // namespace weft
