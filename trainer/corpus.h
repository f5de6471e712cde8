// The text to learn from: which files, cleaned, cut into a training and a validation stream of
// bytes.
//
//   Corpus corpus = LoadCorpus({"auto"}, program_directory);
//   corpus.train, corpus.validation      // bytes; a byte is a token
//
// "auto" is text that every build machine has: the C++ headers of the compiler and this project's own documents and sources.
//
// No byte of a file is on both sides. Of a large file the last tenth validates, a small one validates or trains as a whole, as a
// hash of its name says, and 2 to 15 % of all bytes validate, whatever the files are. A file whose bytes equal an earlier one's is
// dropped, so that nothing that validates was trained on, and a comment block at the top of a file that several files share (a
// licence) is removed. All of it depends on names and texts alone, not on the order in which files are found.
#ifndef WEFT_TRAINER_CORPUS_H_
#define WEFT_TRAINER_CORPUS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/text_files.h"

namespace weft::trainer {

// What one source of text gave.
struct CorpusSource {
  std::string path;
  size_t file_count = 0;
  size_t bytes = 0;  // as read
  PassedOverBy passed_over = {};
};

struct Corpus {
  std::vector<CorpusSource> sources;
  std::string train;
  std::string validation;
  size_t train_files = 0;  // as a whole
  size_t validation_files = 0;
  size_t cut_files = 0;  // their last tenths validate, the rest of them trains
  size_t duplicate_files = 0;
  size_t blank_files = 0;    // or nothing but a licence
  size_t licence_bytes = 0;  // removed
};

// Reads `paths` (files, directories or "auto"). Throws BadInput with one sentence when something is
// missing, unreadable or empty.
Corpus LoadCorpus(const std::vector<std::string>& paths, const std::string& program_directory);

// Tells texts apart: FNV-1a over both sides, 64 bits.
uint64_t CorpusDigest(const Corpus& corpus);

// The parts of LoadCorpus that are pure, for tests.

// Removes from the top of each file the comment blocks that at least `files_min` files share, apart
// from digits, case, spacing and punctuation. Returns the bytes removed.
size_t RemoveSharedHeaders(std::vector<TextFile>& files, size_t files_min);
// Orders, drops equal files, splits. Fills both texts and the counts of both sides and of equal files. From ten bytes on both
// sides have some.
void SplitFiles(std::vector<TextFile> files, Corpus& corpus);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CORPUS_H_
