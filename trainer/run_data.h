// What --data of a run leads to: text, whose bytes are the tokens, or files of tokens (data/).
//
//   RunData data(config.data, program_directory);
//   data.CheckVocabulary(config.train.model.vocabulary);
//   Trainer trainer(config.train, data.text(), group);
//   fmt::print("{}", data.Decode(trainer.Generate(prompt, 400, 0.8, 40)));
//
// Throws BadInput with one sentence. Thread-safety: constant after construction, but for
// CheckVocabulary.
#ifndef WEFT_TRAINER_RUN_DATA_H_
#define WEFT_TRAINER_RUN_DATA_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/corpus.h"
#include "trainer/data/token_data.h"
#include "trainer/tokenizer/token.h"
#include "trainer/tokenizer/tokenizer.h"
#include "trainer/training_text.h"

namespace weft::trainer {

// Where this program lies, which `auto` text is looked for by.
std::string ProgramDirectory();

class RunData {
 public:
  RunData(const std::vector<std::string>& data, const std::string& program_directory);
  RunData(const RunData&) = delete;
  RunData& operator=(const RunData&) = delete;

  const TrainingText& text() const { return text_; }

  // The text itself, if the tokens are its bytes; else nullptr.
  const Corpus* corpus() const { return corpus_.get(); }

  // How many tokens there are, as far as that is known; 0: it is not.
  size_t vocabulary() const;

  // That a model of so many can read them.
  void CheckVocabulary(size_t model_vocabulary);

  // "byte", or "token": what losses are per.
  const char* unit() const { return corpus_ ? "byte" : "token"; }

  // The lines for the beginning of a run.
  std::string Describe() const;

  // Which data it is: sizes and a digest, of a sample where there are files of tokens.
  std::string Identity() const;

  // How many bytes of text tokens are; nothing where no tokenizer is known. The mark between
  // documents is none.
  std::optional<size_t> BytesOf(std::span<const Token> tokens) const;

  // Text of tokens; their numbers where no tokenizer is known.
  std::string Decode(std::span<const Token> tokens) const;

 private:
  std::unique_ptr<const Corpus> corpus_;  // where ByteTokens finds it
  std::optional<TokenData> files_;
  TrainingText text_;
  std::unique_ptr<Tokenizer> tokenizer_;  // of the files, if it is known
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RUN_DATA_H_
