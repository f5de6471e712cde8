// The command line of weft_train.
#ifndef WEFT_TRAINER_OPTIONS_H_
#define WEFT_TRAINER_OPTIONS_H_

#include <string>
#include <vector>

#include "trainer/config.h"

namespace weft::trainer {

// Fills `config`. Returns false after --help or --version, with the text to print in `help`. Throws
// BadInput with one sentence for anything it does not understand.
bool ParseOptions(int argc, char** argv, ProgramConfig& config, std::string& help);

// Fills `config` with what words of a command line say, without the name of the program. Throws BadInput.
void ParseWords(const std::vector<std::string>& words, ProgramConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTIONS_H_
