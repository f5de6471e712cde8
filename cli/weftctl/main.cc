// weftctl: looks at what weft knows.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "base/standard_fds.h"
#include "cli/weftctl/commands.h"

namespace {

constexpr int kUsageError = 2;  // also: a file that is missing or not what it should be
constexpr int kSystemError = 1;
constexpr int kDifferent = 1;  // as diff has it

int Run(int argc, char** argv) {
  CLI::App app("Looks at what weft knows.", "weftctl");
  app.require_subcommand(1);
  weft::CommandLine line;
  weft::AddCommands(app, &line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.output.text =
        app.get_subcommands().empty() ? app.help() : app.get_subcommands().front()->help();
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "weftctl: %s; weftctl --help lists the commands\n", error.what());
    return kUsageError;
  }
  const weft::CommandOutput& output = line.output;
  const bool written =
      std::fwrite(output.text.data(), 1, output.text.size(), stdout) == output.text.size();
  if (!written || std::fflush(stdout) != 0) {
    std::fprintf(stderr, "weftctl: writing the output failed: %s\n", std::strerror(errno));
    return kSystemError;
  }
  for (const std::string& problem : output.problems)
    std::fprintf(stderr, "weftctl: %s\n", problem.c_str());
  if (!output.problems.empty()) return kUsageError;
  return output.differs ? kDifferent : 0;
}

}  // namespace

int main(int argc, char** argv) {
  weft::HoldStandardFds();
  try {
    return Run(argc, argv);
  } catch (const std::exception& error) {  // of the libraries, when memory runs out
    std::fprintf(stderr, "weftctl: %s\n", error.what());
    return kSystemError;
  }
}
