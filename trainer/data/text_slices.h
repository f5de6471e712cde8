// Reads a file in slices that are encoded one by one: each ends where a cut changes no token
// (Tokenizer::NextCut), and together they are the file.
//
//   TextSlices slices(path, {.find = ..., .lookahead = tokenizer->cut_lookahead()});
//   for (std::string_view slice; !(slice = slices.Next(1 << 20)).empty();) ...
//
// Holds one slice and little more. Throws BadInput for a file that cannot be read, or that goes on
// for kSliceBytesMax without a cut. Thread-safety: one thread.
#ifndef WEFT_TRAINER_DATA_TEXT_SLICES_H_
#define WEFT_TRAINER_DATA_TEXT_SLICES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

namespace weft::trainer {

// Encoding takes some 30 bytes of memory for each byte of a piece that is not cut.
constexpr size_t kSliceBytesMax = size_t{16} << 20;

struct TextCuts {
  // The first cut of a text at or after `from`, as Tokenizer::NextCut.
  std::function<size_t(std::string_view text, size_t from)> find;
  size_t lookahead;
};

class TextSlices {
 public:
  TextSlices(const std::filesystem::path& path, TextCuts cuts);

  // The next bytes, `wanted` of them (1 to kSliceBytesMax) and on to the next cut; empty at the end.
  // Valid until the next call.
  std::string_view Next(size_t wanted);

  // Bytes of the slices so far.
  uint64_t position() const { return position_; }

 private:
  // Reads until so many bytes are there, or no more come.
  void Fill(size_t bytes);

  const std::filesystem::path path_;
  const TextCuts cuts_;
  std::ifstream file_;
  std::string text_;
  size_t given_ = 0;  // of text_: the slice that Next() returned last
  uint64_t position_ = 0;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TEXT_SLICES_H_
