// A token's number in its vocabulary: 32 bits in memory, whatever a file of tokens has.
#ifndef WEFT_TRAINER_TOKENIZER_TOKEN_H_
#define WEFT_TRAINER_TOKENIZER_TOKEN_H_

#include <cstdint>

namespace weft::trainer {

using Token = uint32_t;

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_TOKEN_H_
