// Reads the files of vocabularies, which may be anybody's: bounded in size, in depth and in what
// they hold.
//
// Throws BadInput with one sentence that begins with the file. Thread-safety: pure but for reading
// files.
#ifndef WEFT_TRAINER_TOKENIZER_VOCABULARY_FILE_H_
#define WEFT_TRAINER_TOKENIZER_VOCABULARY_FILE_H_

#include <cstddef>
#include <filesystem>
#include <string>

#include <nlohmann/json.hpp>

#include "trainer/tokenizer/token.h"

namespace weft::trainer {

// The largest vocabularies that people use have a quarter of a million tokens and 35 MB.
constexpr size_t kVocabularyBytesMax = size_t{128} << 20;
constexpr size_t kJsonDepthMax = 32;
constexpr size_t kJsonValuesMax = size_t{4} << 20;

// All of a regular file.
std::string ReadVocabularyFile(const std::filesystem::path& path);

// JSON in which no object has a key twice.
nlohmann::json ReadVocabularyJson(const std::filesystem::path& path);

// A token's number; `what` is what the sentence calls it.
Token TokenOf(const nlohmann::json& number, const std::filesystem::path& path,
              const std::string& what);

// Creates or replaces a file. Throws NotWritten.
void WriteVocabularyFile(const std::filesystem::path& path, const std::string& text);

// BadInput for text that is no UTF-8.
void WriteVocabularyJson(const std::filesystem::path& path, const nlohmann::ordered_json& json);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_TOKENIZER_VOCABULARY_FILE_H_
