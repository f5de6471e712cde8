#include "trainer/options.h"

#include <climits>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "trainer/failure.h"
#include "trainer/option_table.h"

namespace weft::trainer {
namespace {

// A run's name is one folder below --run-dir, wherever it comes from.
void CheckRunName(const std::string& name) {
  const bool one_folder = name.find('/') == std::string::npos && name != "." && name != "..";
  if (one_folder && name.size() <= NAME_MAX) return;
  throw BadInput("--name " + name +
                 " is no name of a folder below --run-dir; use one without slashes, and --run-dir "
                 "for where it lies");
}

// A job that is started again goes on from what it has saved itself.
void CheckBeginning(const ProgramConfig& config) {
  const std::string& resume = config.resume;
  if (config.overwrite && resume == "auto") {
    throw BadInput(
        "--overwrite begins a run anew and --resume auto goes on with it; give one of them");
  }
  if (config.init.empty() || resume.empty() || resume == "auto" || resume == "none") return;
  throw BadInput("--init " + config.init + " begins a new run and --resume " + resume +
                 " goes on with one; give one of them");
}

// Only what the checkpoint is compared by, and what would not make it another model.
void CheckChanged(const ProgramConfig& config) {
  for (const std::string& key : config.changed) {
    if (MayChange(key)) continue;
    throw BadInput("--changed " + key +
                   ": no run can go on with another one; use heads, seed, text or several of them, "
                   "with commas");
  }
}

}  // namespace

bool ParseOptions(int argc, char** argv, ProgramConfig& config, std::string& help) {
  CLI::App app{"Trains a small GPT on bytes of text over the ranks of the launcher.", "weft_train"};
  AddOptions(app, config);
  app.set_version_flag("--version", "weft_train 0.1.0");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return false;
  } catch (const CLI::CallForVersion&) {
    help = app.version() + "\n";
    return false;
  } catch (const CLI::ParseError& error) {
    throw BadInput(std::string(error.what()) + "; see weft_train --help");
  }
  CheckRunName(config.name);
  CheckBeginning(config);
  CheckChanged(config);
  return true;
}

}  // namespace weft::trainer
