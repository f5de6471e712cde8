// The text to learn from: which files, cleaned, cut into a training and a validation stream of
// bytes.
//
//   Corpus corpus = LoadCorpus({"auto"}, program_directory);
//   corpus.train, corpus.validation      // bytes; a byte is a token
//
// "auto" is text that every build machine has: the C++ headers of the compiler and this project's own
// documents and sources. Everything is deterministic: files are ordered by path and a file's side is
// decided by a hash of its path relative to its source, so that no text of a validation file is ever
// trained on. A file whose bytes equal an earlier one's is dropped for the same reason, and a comment
// block at the top of a file that several files share (a licence) is removed.
#ifndef WEFT_TRAINER_CORPUS_H_
#define WEFT_TRAINER_CORPUS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft::trainer {

// What one source of text gave.
struct CorpusSource {
  std::string path;
  size_t file_count = 0;
  size_t bytes = 0;  // as read
};

struct TextFile {
  std::string name;  // relative to its source
  std::string text;
};

struct Corpus {
  std::vector<CorpusSource> sources;
  std::string train;
  std::string validation;
  size_t train_files = 0;
  size_t validation_files = 0;
  size_t duplicate_files = 0;
  size_t licence_bytes = 0;   // removed
  bool split_inside = false;  // one file only: its last tenth is the validation text
};

// The most text that is read: all of it is held in memory, several times for a while.
constexpr size_t kCorpusBytesMax = size_t{4} << 30;

// Reads `paths` (files, directories or "auto"). Throws BadInput with one sentence when something is
// missing, unreadable or empty.
Corpus LoadCorpus(const std::vector<std::string>& paths, const std::string& program_directory);

// Tells texts apart: FNV-1a over both sides, 64 bits.
uint64_t CorpusDigest(const Corpus& corpus);

// The parts of LoadCorpus that are pure, for tests.

// Removes from the top of each file the comment blocks that at least `files_min` files share, apart
// from digits, case and spacing. Returns the bytes removed.
size_t RemoveSharedHeaders(std::vector<TextFile>& files, size_t files_min);
// Whether a file belongs to the validation side; about one in ten does.
bool IsValidationFile(std::string_view name);
// Orders, drops equal files, splits. `corpus` gets everything but sources and licence_bytes.
void SplitFiles(std::vector<TextFile> files, Corpus& corpus);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CORPUS_H_
