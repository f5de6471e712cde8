#include "trainer/data/token_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using HeaderWords = std::array<uint32_t, kTokenHeaderWords>;

// Of llm.c's other files, which people keep in the same folders.
const char* OtherFileOf(uint32_t magic) {
  switch (magic) {
    case 20240326:
      return "llm.c's weights of a model";
    case 20240328:
      return "llm.c's tokenizer.bin";
    case 20240522:
      return "llm.c's questions with answers to choose from";
    default:
      return nullptr;
  }
}

const TokenFormat* FormatOf(uint32_t magic) {
  const auto* const found = std::ranges::find(kTokenFormats, magic, &TokenFormat::magic);
  return found == std::end(kTokenFormats) ? nullptr : found;
}

// Without waiting for a FIFO's other end.
int OpenToRead(const char* path) {
  return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

[[noreturn]] void RefuseTokens(const std::string& name, const std::string& sentence) {
  throw BadInput(fmt::format("{}: {}", name, sentence));
}

[[noreturn]] void RefuseMagic(const std::string& name, uint32_t magic) {
  if (FormatOf(__builtin_bswap32(magic)) != nullptr)
    RefuseTokens(name,
                 "its numbers are big-endian, and weft reads little-endian ones; turn the bytes of "
                 "each number round");
  if (const char* const other = OtherFileOf(magic))
    RefuseTokens(name, fmt::format("this is {}, and no file of tokens; leave it out", other));
  RefuseTokens(name, fmt::format("it begins with {} and not with {} or {}, so it is no file of "
                                 "tokens with llm.c's header; weft_train tokenize writes one",
                                 magic, kGpt2Tokens.magic, kLlama3Tokens.magic));
}

}  // namespace

TokenFile::TokenFile(const std::filesystem::path& path) : name_(path.string()) {
  const int fd = OpenToRead(name_.c_str());
  if (fd < 0) RefuseTokens(name_, fmt::format("cannot be opened: {}", std::strerror(errno)));
  try {
    Open(fd);
  } catch (...) {
    close(fd);
    throw;
  }
  close(fd);
}

TokenFile::~TokenFile() {
  munmap(const_cast<char*>(mapped_), mapped_bytes_);
}

void TokenFile::Open(int fd) {
  struct stat status = {};
  if (fstat(fd, &status) != 0) RefuseTokens(name_, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    RefuseTokens(name_, "this is no regular file; name files of tokens, or their folder");
  const auto file_bytes = uint64_t(status.st_size);
  if (file_bytes == 0) RefuseTokens(name_, "the file is empty; write it again");
  HeaderWords header{};
  const ssize_t got = pread(fd, header.data(), kTokenHeaderBytes, 0);
  if (got < 0) RefuseTokens(name_, fmt::format("cannot be read: {}", std::strerror(errno)));
  if (size_t(got) < sizeof(uint32_t) || (format_ = FormatOf(header[0])) == nullptr)
    RefuseMagic(name_, header[0]);
  if (size_t(got) < kTokenHeaderBytes)
    RefuseTokens(name_, fmt::format("{} bytes are less than the header of {}; the file was cut "
                                    "off: copy or write it again",
                                    got, kTokenHeaderBytes));
  if (header[1] != format_->version)
    RefuseTokens(name_, fmt::format("version {} of files that begin with {} is unknown; write it "
                                    "as version {}",
                                    header[1], header[0], format_->version));
  if (header[2] == 0 || header[2] > kFileTokensMax)
    RefuseTokens(name_, fmt::format("the header says that there are {} tokens; whoever wrote the "
                                    "file did not finish it: write it again",
                                    int32_t(header[2])));
  size_ = header[2];
  CheckSize(file_bytes);
  void* const mapped = mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED)
    RefuseTokens(name_, fmt::format("cannot be mapped: {}; ulimit -v or vm.max_map_count may be "
                                    "too small",
                                    std::strerror(errno)));
  mapped_ = static_cast<const char*>(mapped);
  mapped_bytes_ = file_bytes;
  madvise(mapped, mapped_bytes_, MADV_RANDOM);
}

void TokenFile::CheckSize(uint64_t file_bytes) const {
  const uint64_t wanted = kTokenHeaderBytes + size_ * format_->token_bytes;
  if (file_bytes == wanted) return;
  RefuseTokens(name_,
               fmt::format("the header says {} tokens of {} bits, which are {} bytes with it, and "
                           "the file has {}; {}",
                           size_, 8 * format_->token_bytes, wanted, file_bytes,
                           file_bytes < wanted
                               ? "it was cut off: copy or write it again"
                               : "more was put behind them: write it again, in several files if "
                                 "they are many"));
}

void TokenFile::Read(uint64_t offset, std::span<Token> tokens) const {
  if (offset > size_ || tokens.size() > size_ - offset)
    throw std::out_of_range(name_ + ": read beyond its tokens");
  const char* const from = mapped_ + kTokenHeaderBytes + offset * format_->token_bytes;
  if (format_->token_bytes == sizeof(Token)) {
    std::memcpy(tokens.data(), from, tokens.size_bytes());
  } else {
    const auto* const narrow = reinterpret_cast<const uint16_t*>(from);
    std::copy_n(narrow, tokens.size(), tokens.begin());
  }
}

void TokenFile::WillRead(uint64_t offset, uint64_t count) const {
  if (offset >= size_) return;
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const size_t first = kTokenHeaderBytes + offset * format_->token_bytes;
  const size_t begin = first / page * page;
  const size_t end = first + std::min(count, size_ - offset) * format_->token_bytes;
  // Advice: where it is not taken, reading waits for the disk.
  madvise(const_cast<char*>(mapped_) + begin, end - begin, MADV_WILLNEED);
}

// The pages stay in the system's cache, and are the same when they are touched again.
void TokenFile::Release() const {
  madvise(const_cast<char*>(mapped_), mapped_bytes_, MADV_DONTNEED);
}

bool BeginsLikeTokens(const std::filesystem::path& path) {
  const int fd = OpenToRead(path.c_str());
  if (fd < 0) return false;
  uint32_t magic = 0;
  const bool read = pread(fd, &magic, sizeof magic, 0) == ssize_t(sizeof magic);
  close(fd);
  return read && (FormatOf(magic) != nullptr || FormatOf(__builtin_bswap32(magic)) != nullptr);
}

}  // namespace weft::trainer
