#include "trainer/data/text_slices.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "trainer/failure.h"

namespace weft::trainer {

TextSlices::TextSlices(const std::filesystem::path& path, TextCuts cuts)
    : path_(path), cuts_(std::move(cuts)), file_(path, std::ios::binary) {
  if (!file_)
    throw BadInput(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
}

void TextSlices::Fill(size_t bytes) {
  const size_t had = text_.size();
  if (had >= bytes || file_.eof()) return;
  text_.resize(bytes);
  file_.read(text_.data() + had, std::streamsize(bytes - had));
  text_.resize(had + size_t(file_.gcount()));
  if (!file_ && !file_.eof())
    throw BadInput(fmt::format("{}: cannot be read: {}", path_.string(), std::strerror(errno)));
}

std::string_view TextSlices::Next(size_t wanted) {
  text_.erase(0, given_);
  given_ = 0;
  constexpr size_t kFirstLook = 64 << 10;  // for a cut: words are shorter
  for (size_t look = kFirstLook;; look *= 2) {
    Fill(wanted + look + cuts_.lookahead);
    const size_t from = std::min(wanted, text_.size());
    const size_t cut = cuts_.find(text_, from);
    if (file_.eof() || cut + cuts_.lookahead <= text_.size()) {
      given_ = cut;
      position_ += cut;
      return std::string_view(text_).substr(0, cut);
    }
    if (look >= kSliceBytesMax) {
      throw BadInput(
          fmt::format("{}: from byte {} on there are {} bytes without an end of a word; "
                      "leave it out, or tokenize it with --tokenizer byte",
                      path_.string(), position_, text_.size()));
    }
  }
}

}  // namespace weft::trainer
