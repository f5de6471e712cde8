#include "trainer/options.h"

#include <climits>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "trainer/configuration/config_file.h"
#include "trainer/configuration/document.h"
#include "trainer/data/tokenize_options.h"
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

void CheckPairs(const ProgramConfig& config) {
  if (config.init_partial && config.init.empty())
    throw BadInput("--init-partial needs --init, the values to begin with");
  if (!(config.price_per_hour >= 0 && config.price_per_hour < 1e9))
    throw BadInput("--price-per-hour is no amount of money");
}

// The first word, if it is no option.
Task TaskOf(int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return Task::kTrain;
  constexpr std::pair<std::string_view, Task> kTasks[] = {{"config", Task::kConfig},
                                                          {"tokenize", Task::kTokenize},
                                                          {"export", Task::kExport},
                                                          {"eval", Task::kEval},
                                                          {"sample", Task::kSample}};
  for (const auto& [word, task] : kTasks) {
    if (argv[1] == word) return task;
  }
  throw BadInput(std::string(argv[1]) +
                 " is unknown; use config, tokenize, export, eval, sample, or options alone");
}

// Options that are about this call, and no matter of a run.
void AddCallOptions(CLI::App& app, ProgramConfig& config, bool& dry, bool& keys) {
  const std::string group = "Without a run";
  app.add_flag("--dry-run", dry, "say what the run would take of memory and time, and end")
      ->group(group);
  app.add_option("--ranks", config.planned_ranks, "of --dry-run and config: ranks of the run")
      ->capture_default_str()
      ->check(CLI::Range(size_t{1}, kRanksMax))
      ->group(group);
  app.add_option("--ranks-per-machine", config.planned_ranks_per_machine,
                 "of --dry-run: how many of them share a machine like this one; 0: all")
      ->check(CLI::Range(size_t{0}, kRanksMax))
      ->group(group);
  app.add_option("--price-per-hour", config.price_per_hour,
                 "of --dry-run and reports: what a rank's device costs")
      ->group(group);
  app.add_flag("--keys", keys, "of config: print the keys that files may have, as Markdown")
      ->group(group);
}

// Words that are no options may be keys of configuration files: --KEY VALUE or --KEY=VALUE.
void TakeKeys(const std::vector<std::string>& words, ConfigFile& file) {
  for (size_t i = 0; i < words.size(); i++) {
    const std::string& word = words[i];
    if (word.rfind("--", 0) != 0) throw BadInput(word + " is no option; see weft_train --help");
    const size_t equals = word.find('=');
    const std::string key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (equals == std::string::npos && i + 1 == words.size() && FindConfigKey(key) != nullptr)
      throw BadInput(word + " needs a value");
    const bool next = equals == std::string::npos && i + 1 < words.size();
    file.Override(key, equals != std::string::npos ? word.substr(equals + 1)
                       : next                      ? words[++i]
                                                   : "");
  }
}

// Whatever stands on the command line has the last word, so it is read twice: first for help, the
// file and keys. Returns the text of --help or --version.
std::string ParseAll(int argc, char** argv, ProgramConfig& config, bool& dry, bool& keys) {
  ProgramConfig seen = config;
  CLI::App first{
      "Trains a small GPT on bytes of text over the ranks of the launcher. weft_train config "
      "prints the configuration that the same options would train with; weft_train tokenize "
      "makes files of tokens of text; weft_train eval judges, sample tries and export writes for "
      "other programs a model that was saved.",
      "weft_train"};
  AddOptions(first, seen);
  AddCallOptions(first, seen, dry, keys);
  first.set_version_flag("--version", "weft_train 0.1.0");
  first.allow_extras();
  try {
    first.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return first.help();
  } catch (const CLI::CallForVersion&) {
    return first.version() + "\n";
  } catch (const CLI::ParseError& error) {
    throw BadInput(std::string(error.what()) + "; see weft_train --help");
  }
  ConfigFile file(config);
  if (!seen.config_file.empty()) file.Take(ReadConfigDocument(seen.config_file));
  TakeKeys(first.remaining(), file);
  file.Apply();
  CLI::App second{"", "weft_train"};
  AddOptions(second, config);
  AddCallOptions(second, config, dry, keys);
  second.allow_extras();
  second.parse(argc, argv);  // which has been read without an error
  return "";
}

}  // namespace

void ParseWords(const std::vector<std::string>& words, ProgramConfig& config) {
  if (words.empty()) return;
  CLI::App app{"", "weft_train"};
  AddOptions(app, config);
  std::vector<std::string> backwards(words.rbegin(), words.rend());  // as the parser wants them
  try {
    app.parse(backwards);
  } catch (const CLI::ParseError& error) {
    throw BadInput(error.what());
  }
}

bool ParseOptions(int argc, char** argv, ProgramConfig& config, std::string& help) {
  ChooseDefaults(config);
  config.task = TaskOf(argc, argv);
  if (config.task != Task::kTrain) {
    --argc;
    ++argv;
  }
  if (config.task == Task::kTokenize) {
    help = ParseTokenizeOptions(argc, argv, config.tokenize);
    return help.empty();
  }
  if (config.task == Task::kExport) {
    help = ParseExportOptions(argc, argv, config.model_export);
    return help.empty();
  }
  if (config.task == Task::kEval) {
    help = ParseEvalOptions(argc, argv, config.eval);
    return help.empty();
  }
  if (config.task == Task::kSample) {
    help = ParseSampleOptions(argc, argv, config.sample);
    return help.empty();
  }
  bool dry = false, keys = false;
  help = ParseAll(argc, argv, config, dry, keys);
  if (!help.empty()) return false;
  if (config.task == Task::kTrain && dry) config.task = Task::kDryRun;
  if (config.task == Task::kConfig && keys) config.task = Task::kConfigKeys;
  CheckRunName(config.name);
  CheckBeginning(config);
  CheckChanged(config);
  CheckPairs(config);
  return true;
}

}  // namespace weft::trainer
