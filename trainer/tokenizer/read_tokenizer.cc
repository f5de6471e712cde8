#include "trainer/tokenizer/read_tokenizer.h"

#include <string>
#include <system_error>

#include <fmt/core.h>

#include "trainer/failure.h"
#include "trainer/tokenizer/bpe_tokenizer.h"
#include "trainer/tokenizer/tokenizer_bin.h"
#include "trainer/tokenizer/tokenizer_json.h"
#include "trainer/tokenizer/vocab_files.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

bool IsThere(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

BpeModel ReadFolder(const fs::path& folder, SplitPattern split) {
  if (IsThere(folder / kTokenizerJson)) return ReadTokenizerJson(folder / kTokenizerJson);
  if (IsThere(folder / kVocabJson)) return ReadVocabFiles(folder, split);
  if (IsThere(folder / kTokenizerBin)) return ReadTokenizerBin(folder / kTokenizerBin, split);
  if (IsThere(folder / "tokenizer.model"))
    throw BadInput(
        fmt::format("{}: tokenizer.model is SentencePiece's, with byte fallback; weft reads "
                    "byte-level BPE only",
                    folder.string()));
  throw BadInput(fmt::format("{}: there is no {}, no {} with {}, and no {}", folder.string(),
                             kTokenizerJson, kVocabJson, kMergesTxt, kTokenizerBin));
}

}  // namespace

BpeModel ReadBpeModel(const fs::path& path, SplitPattern split_of_old_files) {
  std::error_code error;
  if (fs::is_directory(path, error)) return ReadFolder(path, split_of_old_files);
  const std::string name = path.filename().string();
  if (name == kVocabJson || name == kMergesTxt)
    return ReadVocabFiles(path.parent_path(), split_of_old_files);
  if (name.ends_with(".bin")) return ReadTokenizerBin(path, split_of_old_files);
  if (name.ends_with(".json")) return ReadTokenizerJson(path);
  throw BadInput(fmt::format("{}: {}", path.string(),
                             IsThere(path) ? "a vocabulary is a folder, a .json or a .bin"
                                           : "there is no such file or folder"));
}

std::unique_ptr<Tokenizer> ReadTokenizer(const fs::path& path, SplitPattern split_of_old_files) {
  return std::make_unique<BpeTokenizer>(ReadBpeModel(path, split_of_old_files), path.string());
}

}  // namespace weft::trainer
