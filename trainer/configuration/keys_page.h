// docs/config.md, made from the tables of keys and options.
#ifndef WEFT_TRAINER_CONFIGURATION_KEYS_PAGE_H_
#define WEFT_TRAINER_CONFIGURATION_KEYS_PAGE_H_

#include <string>

namespace weft::trainer {

std::string ConfigKeysPage();

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CONFIGURATION_KEYS_PAGE_H_
