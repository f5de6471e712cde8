// What the words of --data lead to: text, or files of tokens; which of these train, and which
// validate.
//
//   const DataFiles files = FindDataFiles(config.data);
//   if (files.tokens()) ... OpenTokenData(files) ... else ... LoadCorpus(files.text, ...)
//
// A word is a file, a folder, or a pattern of the shell (glob(3)) that names no file as it stands;
// what a pattern matches is taken as if it had been named. A file whose name ends with .bin is one
// of tokens. A folder is one of tokens if a .bin of it begins as these do; then all such files of it
// are taken, and the others are left: vocabularies and what describes the files lie beside them.
// Any other file or folder, and "auto", is text.
//
// Files are in the order of their paths, each once. Those that have `val`, `valid` or `validation`
// as a word of their names, and no `train` behind it, validate (fineweb_val_000000.bin); without one
// OpenTokenData holds out the end of the text.
//
// Throws BadInput with one sentence. Thread-safety: pure but for reading folders.
#ifndef WEFT_TRAINER_DATA_DATA_FILES_H_
#define WEFT_TRAINER_DATA_DATA_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

namespace weft::trainer {

struct DataFiles {
  std::vector<std::string> text;  // names, as LoadCorpus takes them
  std::vector<std::filesystem::path> train, validation;
  std::vector<std::filesystem::path> left;  // .bin files of folders that are none of tokens

  bool tokens() const { return !train.empty(); }
};

DataFiles FindDataFiles(const std::vector<std::string>& data);

// Whether files of that name validate.
bool IsValidationName(const std::filesystem::path& path);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_DATA_FILES_H_
