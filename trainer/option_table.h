// The options of weft_train, apart from their parsing: each costs the compiler its share.
#ifndef WEFT_TRAINER_OPTION_TABLE_H_
#define WEFT_TRAINER_OPTION_TABLE_H_

#include <string>

#include "trainer/config.h"

// NOLINTNEXTLINE(readability-identifier-naming): CLI11's name
namespace CLI {
class App;
}

namespace weft::trainer {

// Options whose text is read after the parsing, with their defaults.
struct OptionTexts {
  std::string dtype = "auto";
  std::string strategy = "ddp";
  std::string accumulation = "local";
  std::string reduce_dtype = "fp32";
  std::string memory_budget = "0";
  std::string views = "move";
  std::string optimizer = "adamw";
};

// Adds all of them to `app`: they fill `config` and `texts`, whose values are the defaults.
void AddOptions(CLI::App& app, ProgramConfig& config, OptionTexts& texts);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTION_TABLE_H_
