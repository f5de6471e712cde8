// The options of weft_train, apart from their parsing: each costs the compiler its share.
#ifndef WEFT_TRAINER_OPTION_TABLE_H_
#define WEFT_TRAINER_OPTION_TABLE_H_

#include <string>

#include "trainer/config.h"

namespace CLI {
class App;
}

namespace weft::trainer {

// Adds all of them to `app`: they fill `config` and the name of the type, whose value is the default.
void AddOptions(CLI::App& app, ProgramConfig& config, std::string& dtype);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTION_TABLE_H_
