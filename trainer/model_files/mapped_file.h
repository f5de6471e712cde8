// A file's bytes in memory, as the kernel reads them.
//
//   const MappedFile file("gpt2.bin", "safetensors file", 8);
//   file.bytes() ...
//
// Throws BadInput. Thread-safety: constant after construction.
#ifndef WEFT_TRAINER_MODEL_FILES_MAPPED_FILE_H_
#define WEFT_TRAINER_MODEL_FILES_MAPPED_FILE_H_

#include <cstddef>
#include <filesystem>
#include <span>

namespace weft::trainer {

class MappedFile {
 public:
  // `kind`: what it is to be, for the sentence about one that is no regular file, or not longer
  // than `header_bytes`.
  MappedFile(const std::filesystem::path& path, const char* kind, size_t header_bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_MODEL_FILES_MAPPED_FILE_H_
