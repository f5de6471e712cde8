// Writes one file of tokens (token_format.h) as the tokens come; nobody sees it before it is whole.
//
//   TokenFileWriter writer("a.bin", FormatFor(tokenizer->vocabulary()));
//   writer.Write(tokens);
//   writer.Close();        // the header, and all of it on the disk, as a.bin.new
//   writer.Publish();      // a.bin
//
// Both in turn, so that a set of files can be published together. A writer that goes without it
// leaves nothing. Throws NotWritten where there is no room, BadInput for a place that will not do.
// Thread-safety: one thread.
#ifndef WEFT_TRAINER_DATA_TOKEN_FILE_WRITER_H_
#define WEFT_TRAINER_DATA_TOKEN_FILE_WRITER_H_

#include <cstdint>
#include <span>
#include <string>

#include "trainer/data/token_format.h"
#include "trainer/run_files.h"
#include "trainer/tokenizer/token.h"

namespace weft::trainer {

// What the option is called that says where tokens are written.
inline constexpr OtherPlace kTokenPlace{"--out", "--out"};

class TokenFileWriter {
 public:
  // `tokens_max`: more are refused.
  TokenFileWriter(std::string path, const TokenFormat& format,
                  uint64_t tokens_max = kFileTokensMax);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  void Write(std::span<const Token> tokens);

  void Close();

  // After Close(). Replaces a file that has the name.
  void Publish();

  const std::string& path() const { return path_; }

  uint64_t tokens() const { return tokens_; }

 private:
  void Flush();

  const std::string path_;
  const std::string begun_;  // the name until it is published
  const TokenFormat& format_;
  const uint64_t tokens_max_;
  int fd_ = -1;
  bool published_ = false;
  uint64_t tokens_ = 0;
  std::string waiting_;  // bytes
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DATA_TOKEN_FILE_WRITER_H_
