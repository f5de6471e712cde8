// Tokens that lie in one place, a file or memory; TokenText (token_text.h) strings several of them
// together.
//
// Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_DATA_TOKEN_RUN_H_
#define WEFT_TRAINER_DATA_TOKEN_RUN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class TokenRun {
 public:
  virtual ~TokenRun() = default;

  // How sentences call it.
  virtual const std::string& name() const = 0;

  virtual uint64_t size() const = 0;

  // `tokens.size()` tokens from `offset` on; all of them must be there.
  virtual void Read(uint64_t offset, std::span<Token> tokens) const = 0;

  // These tokens will be read soon: a disk may begin to fetch them.
  virtual void WillRead(uint64_t offset, uint64_t count) const = 0;

  // Gives back what reading has taken of memory, as far as it can be had again.
  virtual void Release() const = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_RUN_H_
