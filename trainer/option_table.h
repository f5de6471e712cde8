// The options of weft_train: one table, which the command line, comparisons between ranks and with checkpoints, and every written copy of a
// run's configuration are made from.
//
//   AddOptions(app, config);                                    // they fill `config`, whose values are the defaults
//   for (const ResolvedOption& option : ResolvedOptions(config)) ...
//
// Apart from their parsing (options.h): each of both costs the compiler its share. Thread-safety: pure functions.
#ifndef WEFT_TRAINER_OPTION_TABLE_H_
#define WEFT_TRAINER_OPTION_TABLE_H_

#include <string>
#include <vector>

#include "trainer/config.h"
#include "trainer/resolved_config.h"

// NOLINTNEXTLINE(readability-identifier-naming): CLI11's name
namespace CLI {
class App;
}

namespace weft::trainer {

// What the command line leaves to the program, before anything else is said.
void ChooseDefaults(ProgramConfig& config);

// Adds all of them to `app`. Parsing may throw BadInput.
void AddOptions(CLI::App& app, ProgramConfig& config);

// All of them as they are in `config`, in the order of the table.
std::vector<ResolvedOption> ResolvedOptions(const ProgramConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTION_TABLE_H_
