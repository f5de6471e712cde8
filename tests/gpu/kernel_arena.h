// The memory of one launch of a kernel, laid out alike wherever it lies: pieces at offsets of their own, and bytes around them
// that nobody may write. So what a kernel made on a device and what its twin made on the host can be compared whole.
//
//   Arena arena;
//   const size_t source = arena.Add(bytes, 3);         // begins 3 bytes after a multiple of 128
//   const std::vector<char> image = arena.image();     // to be copied to a multiple of 256
//   void* const at = arena.At(base, source);
//
// Thread-safety: a value.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::test {

constexpr size_t kArenaAlignment = 256;

class Arena {
 public:
  Arena();

  // Returns the piece's number.
  size_t Add(const std::vector<char>& contents, size_t shift);

  char* At(char* base, size_t piece) const { return base + offsets_[piece]; }

  const std::vector<char>& image() const { return image_; }

  size_t piece_count() const { return offsets_.size(); }

  // The piece that has a byte, for messages; the number of pieces if none has.
  size_t PieceOf(size_t byte) const;

  size_t OffsetIn(size_t piece, size_t byte) const { return byte - offsets_[piece]; }

 private:
  std::vector<char> image_;
  std::vector<size_t> offsets_;
  std::vector<size_t> sizes_;
};

// Host memory that begins at a multiple of kArenaAlignment.
class AlignedBytes {
 public:
  explicit AlignedBytes(const std::vector<char>& contents);

  char* at() { return storage_.data() + skipped_; }

  const char* at() const { return storage_.data() + skipped_; }

 private:
  std::vector<char> storage_;
  size_t skipped_;
};

}  // namespace weft::test
