#include "trainer/data/token_file_writer.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "trainer/failure.h"
#include "trainer/run_files.h"

namespace weft::trainer {
namespace {

constexpr size_t kFlushBytes = 1 << 20;

template <typename Word>
void AppendWords(std::span<const Token> tokens, std::string& bytes) {
  for (const Token token : tokens) {
    const Word word = Word(token);
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::string path, const TokenFormat& format, uint64_t tokens_max)
    : path_(std::move(path)), begun_(path_ + ".new"), format_(format), tokens_max_(tokens_max) {
  fd_ = open(begun_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd_ < 0) ThrowUnwritable(begun_, errno, kTokenPlace);
  // The header has its numbers when all tokens are there: until then no reader takes the file.
  waiting_.assign(kTokenHeaderBytes, '\0');
}

TokenFileWriter::~TokenFileWriter() {
  if (fd_ >= 0) close(fd_);
  if (!published_) std::remove(begun_.c_str());
}

void TokenFileWriter::Write(std::span<const Token> tokens) {
  if (tokens.size() > tokens_max_ - tokens_)
    throw BadInput(fmt::format("{}: more than {} tokens do not fit into one file; write several",
                               path_, tokens_max_));
  if (format_.token_bytes == sizeof(Token)) {
    AppendWords<Token>(tokens, waiting_);
  } else {
    for (const Token token : tokens) {
      if (token > UINT16_MAX)
        throw BadInput(fmt::format("{}: token {} does not fit into 16 bits", path_, token));
    }
    AppendWords<uint16_t>(tokens, waiting_);
  }
  tokens_ += tokens.size();
  if (waiting_.size() >= kFlushBytes) Flush();
}

void TokenFileWriter::Flush() {
  std::string_view rest = waiting_;
  if (const int error = WriteAll(fd_, rest)) ThrowUnwritable(begun_, error, kTokenPlace);
  waiting_.clear();
}

void TokenFileWriter::Close() {
  Flush();
  std::array<uint32_t, kTokenHeaderWords> header{format_.magic, format_.version, uint32_t(tokens_)};
  std::string_view bytes(reinterpret_cast<const char*>(header.data()), kTokenHeaderBytes);
  int error = lseek(fd_, 0, SEEK_SET) == 0 ? WriteAll(fd_, bytes) : errno;
  if (error == 0) error = SyncFile(fd_);
  if (close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  if (error != 0) ThrowUnwritable(begun_, error, kTokenPlace);
}

void TokenFileWriter::Publish() {
  if (std::rename(begun_.c_str(), path_.c_str()) != 0) ThrowUnwritable(path_, errno, kTokenPlace);
  published_ = true;
}

}  // namespace weft::trainer
