// A file of tokens (token_format.h), mapped and not read: opening it reads its header, whatever its
// size.
//
//   const TokenFile file("fineweb_train_000001.bin");     // throws BadInput
//   std::vector<Token> tokens(1024);
//   file.Read(offset, tokens);                            // of 16 or 32 bits, widened
//
// The size is compared with the header once, here. A file that becomes shorter while it is mapped
// ends the process with SIGBUS where the missing part is read, as with every program that maps
// files: replace a file by renaming another one to its name, as TokenFileWriter does, and never
// write into it. The mapping keeps the file that was opened, also when its name is gone.
//
// Windows are read in any order, so the system is told not to read ahead of them (MADV_RANDOM);
// WillRead() fetches what comes next. Keeps no descriptor. Thread-safety: constant after
// construction.
#ifndef WEFT_TRAINER_DATA_TOKEN_FILE_H_
#define WEFT_TRAINER_DATA_TOKEN_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "trainer/data/token_format.h"
#include "trainer/data/token_run.h"

namespace weft::trainer {

class TokenFile : public TokenRun {
 public:
  // BadInput for what is no such file, or not all of one.
  explicit TokenFile(const std::filesystem::path& path);
  ~TokenFile() override;
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& name() const override { return name_; }

  const TokenFormat& format() const { return *format_; }

  uint64_t size() const override { return size_; }

  void Read(uint64_t offset, std::span<Token> tokens) const override;

  void WillRead(uint64_t offset, uint64_t count) const override;

  void Release() const override;

 private:
  void Open(int fd);
  void CheckSize(uint64_t file_bytes) const;

  const std::string name_;
  const TokenFormat* format_ = nullptr;
  uint64_t size_ = 0;
  const char* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
};

// Whether a regular file begins with the magic number of a format; false for what cannot be read.
bool BeginsLikeTokens(const std::filesystem::path& path);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_FILE_H_
