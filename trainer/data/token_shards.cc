#include "trainer/data/token_shards.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

namespace weft::trainer {

TokenShards::TokenShards(std::string stem, const TokenFormat& format, uint64_t shard_tokens)
    : stem_(std::move(stem)), format_(format), shard_tokens_(shard_tokens) {}

void TokenShards::Write(std::span<const Token> tokens) {
  while (!tokens.empty()) {
    if (files_.empty() || files_.back()->tokens() == shard_tokens_) {
      if (!files_.empty()) files_.back()->Close();
      files_.push_back(std::make_unique<TokenFileWriter>(
          fmt::format("{}_{:06}.bin", stem_, files_.size()), format_));
    }
    const size_t now = std::min<uint64_t>(tokens.size(), shard_tokens_ - files_.back()->tokens());
    files_.back()->Write(tokens.first(now));
    tokens_ += now;
    tokens = tokens.subspan(now);
  }
}

void TokenShards::Close() {
  if (!files_.empty()) files_.back()->Close();
}

void TokenShards::Publish() {
  for (const auto& file : files_)
    file->Publish();
}

std::vector<std::string> TokenShards::Paths() const {
  std::vector<std::string> paths;
  for (const auto& file : files_)
    paths.push_back(file->path());
  return paths;
}

}  // namespace weft::trainer
