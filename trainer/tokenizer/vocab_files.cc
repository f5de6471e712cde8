#include "trainer/tokenizer/vocab_files.h"

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "trainer/tokenizer/byte_chars.h"
#include "trainer/tokenizer/vocabulary_file.h"
#include "trainer/tokenizer/vocabulary_text.h"

namespace weft::trainer {
namespace {

constexpr std::string_view kVersion = "#version";

}  // namespace

BpeModel ReadVocabFiles(const std::filesystem::path& folder, SplitPattern split) {
  VocabularyText vocabulary(folder / kVocabJson);
  vocabulary.AddTokens(ReadVocabularyJson(folder / kVocabJson));
  const std::string merges = ReadVocabularyFile(folder / kMergesTxt);
  vocabulary.SetFile(folder / kMergesTxt);
  std::string_view rest = merges;
  while (!rest.empty()) {
    const size_t end = rest.find('\n');
    std::string_view line = rest.substr(0, end);
    const bool is_first = rest.size() == merges.size();
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!(is_first && line.starts_with(kVersion)) && !line.empty()) vocabulary.AddMergeLine(line);
  }
  vocabulary.SetFile(folder / kVocabJson);
  vocabulary.MakeUnreachableTokensSpecial();
  BpeModel model = vocabulary.Finish();
  model.split = split;
  return model;
}

void WriteVocabFiles(const BpeModel& model, const std::filesystem::path& folder) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::object();
  // Appended one by one: operator[] would look for each key in all that are there.
  auto& entries = tokens.get_ref<nlohmann::ordered_json::object_t&>();
  for (Token token = 0; token < model.tokens.size(); token++) {
    const BpeToken& written = model.tokens[token];
    entries.push_back({written.mergeable ? SpellBytes(written.bytes) : written.bytes, token});
  }
  std::string merges = std::string(kVersion) + ": 0.2\n";
  for (const Merge& merge : model.merges)
    merges += SpellBytes(model.tokens[merge.left].bytes) + " " +
              SpellBytes(model.tokens[merge.right].bytes) + "\n";
  WriteVocabularyJson(folder / kVocabJson, tokens);
  WriteVocabularyFile(folder / kMergesTxt, merges);
}

}  // namespace weft::trainer
