#include "trainer/data/token_set.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "trainer/data/token_file_writer.h"
#include "trainer/failure.h"
#include "trainer/run_files.h"
#include "trainer/tokenizer/byte_tokenizer.h"
#include "trainer/tokenizer/read_tokenizer.h"
#include "trainer/tokenizer/vocabulary_file.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenSetFormat = "weft tokens";
constexpr int kTokenSetVersion = 1;

// Reads fields of an object, and says which one is wrong.
class SetReader {
 public:
  SetReader(const nlohmann::json& object, const fs::path& path) : object_(object), path_(path) {}

  uint64_t Number(const char* key) const {
    const nlohmann::json& value = Field(key);
    if (!value.is_number_unsigned()) Refuse(key, "is no whole number");
    return value.get<uint64_t>();
  }

  std::string Text(const char* key) const {
    const nlohmann::json& value = Field(key);
    if (!value.is_string()) Refuse(key, "is no text");
    return value.get<std::string>();
  }

  TokenSide Side(const char* key) const {
    const nlohmann::json& value = Field(key);
    if (!value.is_object()) Refuse(key, "is no object");
    const SetReader side(value, path_);
    TokenSide read{side.Number("tokens"), {}};
    const nlohmann::json& files = side.Field("files");
    if (!files.is_array()) side.Refuse("files", "is no list");
    for (const nlohmann::json& file : files) {
      if (!file.is_string()) side.Refuse("files", "has what is no text");
      read.files.push_back(file.get<std::string>());
    }
    return read;
  }

  bool Has(const char* key) const { return object_.contains(key); }

  [[noreturn]] void Refuse(const std::string& key, const std::string& what) const {
    throw BadInput(fmt::format("{}: {} {}; write the tokens again with weft_train tokenize",
                               path_.string(), key, what));
  }

 private:
  const nlohmann::json& Field(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) Refuse(key, "is missing");
    return *found;
  }

  const nlohmann::json& object_;
  const fs::path& path_;
};

nlohmann::ordered_json SideJson(const TokenSide& side) {
  return {{"tokens", side.tokens}, {"files", side.files}};
}

}  // namespace

void WriteTokenSet(const TokenSet& set) {
  nlohmann::ordered_json json = {{"format", kTokenSetFormat},
                                 {"version", kTokenSetVersion},
                                 {"tokenizer", set.tokenizer},
                                 {"vocabulary", set.vocabulary}};
  if (set.end_of_text) json["end_of_text"] = *set.end_of_text;
  json["documents"] = set.documents;
  json["bytes"] = set.bytes;
  json["train"] = SideJson(set.train);
  json["validation"] = SideJson(set.validation);
  const std::string text =
      json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const fs::path folder = set.path.parent_path();
  WriteRunFile(folder.empty() ? "." : folder.string(), set.path.filename().string(), text,
               kTokenPlace);
}

fs::path PathOfTokenSet(const fs::path& tokens) {
  const std::string whole = tokens.stem().string();
  std::string_view name = whole;
  constexpr size_t kDigits = 6;
  if (name.size() > kDigits && name[name.size() - kDigits - 1] == '_' &&
      std::ranges::all_of(name.substr(name.size() - kDigits),
                          [](char c) { return std::isdigit(uint8_t(c)); })) {
    name.remove_suffix(kDigits + 1);
  }
  for (const std::string_view side : {"_train", "_val"}) {
    if (!name.ends_with(side)) continue;
    name.remove_suffix(side.size());
    break;
  }
  return tokens.parent_path() / (std::string(name) + ".json");
}

std::optional<TokenSet> FindTokenSet(const fs::path& tokens) {
  const fs::path path = PathOfTokenSet(tokens);
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  const nlohmann::json json = ReadVocabularyJson(path);
  if (!json.is_object() || !json.contains("format") || json["format"] != kTokenSetFormat)
    return std::nullopt;
  const SetReader reader(json, path);
  if (const uint64_t version = reader.Number("version"); version != kTokenSetVersion)
    reader.Refuse("version",
                  fmt::format("is {}, and this program knows {}", version, kTokenSetVersion));
  TokenSet set;
  set.path = path;
  set.tokenizer = reader.Text("tokenizer");
  set.vocabulary = reader.Number("vocabulary");
  if (set.vocabulary == 0 || set.vocabulary > std::numeric_limits<Token>::max())
    reader.Refuse("vocabulary", fmt::format("is {}", set.vocabulary));
  if (reader.Has("end_of_text")) {
    const uint64_t token = reader.Number("end_of_text");
    if (token >= set.vocabulary) reader.Refuse("end_of_text", "is outside of the vocabulary");
    set.end_of_text = Token(token);
  }
  set.documents = reader.Number("documents");
  set.bytes = reader.Number("bytes");
  set.train = reader.Side("train");
  set.validation = reader.Side("validation");
  return set;
}

std::unique_ptr<Tokenizer> MakeTokenizer(const TokenSet& set) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (set.tokenizer == kByteTokenizerName) {
    tokenizer = std::make_unique<ByteTokenizer>();
  } else {
    tokenizer = ReadTokenizer(set.path.parent_path() / set.tokenizer);
  }
  if (tokenizer->vocabulary() == set.vocabulary) return tokenizer;
  throw BadInput(
      fmt::format("{}: the tokens are of a vocabulary of {}, and {} has {}; put the "
                  "vocabulary back that they were made with",
                  set.path.string(), set.vocabulary, set.tokenizer, tokenizer->vocabulary()));
}

}  // namespace weft::trainer
