#include <string>

#include <nlohmann/json.hpp>

#include "trainer/tokenizer/byte_chars.h"
#include "trainer/tokenizer/tokenizer_json.h"
#include "trainer/tokenizer/vocabulary_file.h"

namespace weft::trainer {
namespace {

using WrittenJson = nlohmann::ordered_json;

std::string Spelled(const BpeToken& token) {
  return token.mergeable ? SpellBytes(token.bytes) : token.bytes;
}

WrittenJson ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

WrittenJson PreTokenizer(SplitPattern split) {
  if (split == SplitPattern::kGpt2) return ByteLevel(true);
  const WrittenJson cut = {{"type", "Split"},
                           {"pattern", {{"Regex", RegexOf(split)}}},
                           {"behavior", "Isolated"},
                           {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", WrittenJson::array({cut, ByteLevel(false)})}};
}

WrittenJson AddedTokensJson(const BpeModel& model) {
  WrittenJson list = WrittenJson::array();
  for (const AddedToken& token : model.added) {
    list.push_back({{"id", token.id},
                    {"content", token.text},
                    {"single_word", false},
                    {"lstrip", false},
                    {"rstrip", false},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

WrittenJson ModelJson(const BpeModel& model) {
  WrittenJson::object_t
      vocabulary;  // appended one by one: operator[] would look for each key in all that are there
  for (Token token = 0; token < model.tokens.size(); token++)
    vocabulary.push_back({Spelled(model.tokens[token]), token});
  WrittenJson merges = WrittenJson::array();
  for (const Merge& merge : model.merges)
    merges.push_back(WrittenJson::array(
        {Spelled(model.tokens[merge.left]), Spelled(model.tokens[merge.right])}));
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", nullptr},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", false},
          {"byte_fallback", false},
          {"ignore_merges", model.whole_pieces_first},
          {"vocab", vocabulary},
          {"merges", merges}};
}

}  // namespace

void WriteTokenizerJson(const BpeModel& model, const std::filesystem::path& file) {
  const WrittenJson root = {
      {"version", "1.0"},          {"truncation", nullptr},
      {"padding", nullptr},        {"added_tokens", AddedTokensJson(model)},
      {"normalizer", nullptr},     {"pre_tokenizer", PreTokenizer(model.split)},
      {"post_processor", nullptr}, {"decoder", ByteLevel(true)},
      {"model", ModelJson(model)}};
  WriteVocabularyJson(file, root);
}

}  // namespace weft::trainer
