#include "trainer/tokenizer/bpe_model.h"

#include <array>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/tokenizer/byte_chars.h"

namespace weft::trainer {
namespace {

constexpr std::array<std::string_view, 3> kEndsOfText = {"<|endoftext|>", "<|end_of_text|>",
                                                         "</s>"};
constexpr size_t kNamedBytes = 40;

// Throws what the sentences have in common.
class Checker {
 public:
  Checker(const BpeModel& model, const std::string& source) : model_(model), source_(source) {}

  void Check() {
    if (model_.tokens.size() >= std::numeric_limits<Token>::max())
      Refuse(fmt::format("{} tokens are more than their numbers can say", model_.tokens.size()));
    CheckTokens();
    CheckMerges();
    CheckAdded();
  }

 private:
  [[noreturn]] void Refuse(const std::string& sentence) const {
    throw BadInput(fmt::format("{}: {}", source_, sentence));
  }

  void CheckTokens() {
    for (Token token = 0; token < model_.tokens.size(); token++) {
      const BpeToken& found = model_.tokens[token];
      if (found.bytes.empty()) Refuse(fmt::format("token {} has no text", token));
      if (!found.mergeable) continue;
      const auto [same, is_new] = by_bytes_.emplace(found.bytes, token);
      if (!is_new)
        Refuse(
            fmt::format("tokens {} and {} have the same text", same->second, Named(model_, token)));
    }
    for (int byte = 0; byte < 256; byte++) {
      const char text = char(byte);
      if (!by_bytes_.contains(std::string_view(&text, 1)))
        Refuse(fmt::format("no token is byte 0x{:02x} (\"{}\"), so some text has no tokens", byte,
                           SpellBytes({&text, 1})));
    }
  }

  void CheckMerges() const {
    std::unordered_set<uint64_t> pairs;
    for (size_t rank = 0; rank < model_.merges.size(); rank++) {
      const Merge& merge = model_.merges[rank];
      for (const Token token : {merge.left, merge.right, merge.product}) {
        if (token >= model_.tokens.size())
          Refuse(
              fmt::format("merge {} names token {} of {}", rank + 1, token, model_.tokens.size()));
      }
      const std::string whole = model_.tokens[merge.left].bytes + model_.tokens[merge.right].bytes;
      const auto product = by_bytes_.find(whole);
      if (product == by_bytes_.end() || product->second != merge.product)
        Refuse(fmt::format("merge {} of {} and {} does not make token {}", rank + 1,
                           Named(model_, merge.left), Named(model_, merge.right),
                           Named(model_, merge.product)));
      if (!pairs.insert(uint64_t{merge.left} << 32 | merge.right).second)
        Refuse(fmt::format("merge {} of {} and {} is there twice", rank + 1,
                           Named(model_, merge.left), Named(model_, merge.right)));
    }
  }

  void CheckAdded() const {
    std::unordered_set<std::string_view> texts;
    for (const AddedToken& added : model_.added) {
      if (added.id >= model_.tokens.size())
        Refuse(fmt::format("added token {} is outside of the vocabulary of {}", added.id,
                           model_.tokens.size()));
      if (model_.tokens[added.id].bytes != added.text)
        Refuse(fmt::format("added token \"{}\" has the number of {}", added.text,
                           Named(model_, added.id)));
      if (!texts.insert(added.text).second)
        Refuse(fmt::format("added token \"{}\" is there twice", added.text));
    }
  }

  const BpeModel& model_;
  const std::string& source_;
  std::unordered_map<std::string_view, Token> by_bytes_;  // of mergeable tokens
};

}  // namespace

void CheckBpeModel(const BpeModel& model, const std::string& source) {
  Checker(model, source).Check();
}

std::string Named(const BpeModel& model, Token token) {
  const std::string_view bytes = model.tokens[token].bytes;
  return fmt::format("{} (\"{}{}\")", token, SpellBytes(bytes.substr(0, kNamedBytes)),
                     bytes.size() > kNamedBytes ? "..." : "");
}

std::optional<Token> FindEndOfText(const std::vector<AddedToken>& added) {
  for (const std::string_view name : kEndsOfText) {
    for (const AddedToken& token : added) {
      if (token.special && token.text == name) return token.id;
    }
  }
  return std::nullopt;
}

}  // namespace weft::trainer
