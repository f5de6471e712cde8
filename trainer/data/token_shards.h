// Writes tokens into files of equal size, NAME_000000.bin, NAME_000001.bin and so on, as llm.c's
// scripts do. A document may begin in one and end in the next.
//
//   TokenShards shards("data/wiki_train", FormatFor(vocabulary), 100'000'000);
//   shards.Write(tokens);
//   shards.Close();
//   shards.Publish();     // all of them, or what could not be renamed is said
//
// Without tokens there is no file. Throws, and leaves nothing, as TokenFileWriter does.
// Thread-safety: one thread.
#ifndef WEFT_TRAINER_DATA_TOKEN_SHARDS_H_
#define WEFT_TRAINER_DATA_TOKEN_SHARDS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trainer/data/token_file_writer.h"
#include "trainer/data/token_format.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

class TokenShards {
 public:
  // `shard_tokens`: 1 to kFileTokensMax.
  TokenShards(std::string stem, const TokenFormat& format, uint64_t shard_tokens);

  void Write(std::span<const Token> tokens);

  void Close();

  void Publish();

  // Of all files, in their order.
  std::vector<std::string> Paths() const;

  uint64_t tokens() const { return tokens_; }

 private:
  const std::string stem_;
  const TokenFormat& format_;
  const uint64_t shard_tokens_;
  uint64_t tokens_ = 0;
  std::vector<std::unique_ptr<TokenFileWriter>> files_;  // all but the last one are closed
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_SHARDS_H_
