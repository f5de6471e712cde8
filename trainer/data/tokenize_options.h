// The command line of weft_train tokenize.
#ifndef WEFT_TRAINER_DATA_TOKENIZE_OPTIONS_H_
#define WEFT_TRAINER_DATA_TOKENIZE_OPTIONS_H_

#include <string>

#include "trainer/data/tokenize.h"

namespace weft::trainer {

// Fills `config` from the words behind the first one. Returns the text to print instead, after
// --help, or "". Throws BadInput with one sentence for anything it does not understand.
std::string ParseTokenizeOptions(int argc, char** argv, TokenizeConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKENIZE_OPTIONS_H_
