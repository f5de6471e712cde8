// Files of tokens, and tokens in memory, as one sequence; where files begin and end is not to be
// seen in it.
//
//   TokenText text({std::make_shared<TokenFile>("a_000000.bin"), ...});
//   text.Read(offset, tokens);                  // from any place, across files too
//   const TokenText last = text.Part(text.size() - 1000, 1000);
//
// A window may begin in one file and end in the next, where llm.c leaves out what is left of a file:
// so every token is used, no file is too short, and the same tokens give the same run whatever the
// files that they are cut into.
//
// Parts and copies share the files. What reading maps is given back now and then, so that it stays
// about 32 MB of the process, whatever is read. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_DATA_TOKEN_TEXT_H_
#define WEFT_TRAINER_DATA_TOKEN_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "trainer/data/token_run.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class TokenText {
 public:
  TokenText() = default;  // no tokens
  explicit TokenText(std::vector<std::shared_ptr<const TokenRun>> runs);
  explicit TokenText(std::vector<Token> tokens);

  uint64_t size() const { return size_; }

  // All of the tokens must be there.
  void Read(uint64_t offset, std::span<Token> tokens) const;

  // They will be read soon, by this process: a disk may fetch them meanwhile.
  void WillRead(uint64_t offset, uint64_t count) const;

  TokenText Part(uint64_t first, uint64_t count) const;

  // Read() throws RunFailure, which names the file, for a token that is not below `vocabulary`: a
  // model would take it for weights that it does not have.
  void LimitTo(uint64_t vocabulary) { vocabulary_ = vocabulary; }

  // Of some tokens of all parts of the text, a few hundred kilobytes; of a short text, all.
  Token LargestOfSample() const;
  // Tells texts apart: of these tokens, their places, and how many there are in all.
  uint64_t DigestOfSample() const;

 private:
  struct Runs;

  // Calls take(offset, tokens) for each part of the sample.
  template <typename Take>
  void ForSample(const Take& take) const;

  std::shared_ptr<const Runs> runs_;
  uint64_t first_ = 0;  // of the tokens of all runs
  uint64_t size_ = 0;
  uint64_t vocabulary_ = UINT64_MAX;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_TEXT_H_
