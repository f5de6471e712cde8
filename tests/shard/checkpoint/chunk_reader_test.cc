// Ranges of a file of several chunks: each gets its bytes, wherever they begin and end, and whichever others are read with it.
#include "shard/checkpoint/chunk_reader.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/text.h"
#include "gtest/gtest.h"
#include "shard/checkpoint/manifest.h"
#include "tests/sim/sim_files.h"

namespace weft::test::chunk_reader_test {
namespace {

constexpr const char* kFile = "/f";
constexpr size_t kBytes = 2 * kCheckpointChunkBytes + 1001;

std::vector<uint32_t> Checksums(const std::string& text) {
  std::vector<uint32_t> checksums;
  for (size_t begin = 0; begin < text.size(); begin += kCheckpointChunkBytes) {
    const size_t bytes = std::min(kCheckpointChunkBytes, text.size() - begin);
    checksums.push_back(Crc32c(0, text.data() + begin, bytes));
  }
  return checksums;
}

class ChunkReaderTest : public testing::Test {
 protected:
  ChunkReaderTest() {
    text_.resize(kBytes);
    for (char& byte : text_)
      byte = static_cast<char>(random_());
    checksums_ = Checksums(text_);
    auto file = files_.Create(kFile, 0);
    EXPECT_TRUE((*file)->Write(text_.data(), text_.size()).ok());
    EXPECT_TRUE((*file)->Close().ok());
    file_ = *files_.Open(kFile);
  }

  // Often at a border of chunks, or beside it.
  size_t SomePlace() {
    const auto any = static_cast<size_t>(random_() % (kBytes + 1));
    if (random_() % 2 == 0) return any;
    const size_t border = (any + kCheckpointChunkBytes / 2) / kCheckpointChunkBytes;
    const size_t near = border * kCheckpointChunkBytes + static_cast<size_t>(random_() % 5);
    return near < 2 ? 0 : std::min(near - 2, kBytes);
  }

  const uint64_t seed_ = std::random_device()();
  std::mt19937_64 random_{seed_};
  std::string text_;
  std::vector<uint32_t> checksums_;
  SimFiles files_;
  std::unique_ptr<ReadableFile> file_;
};

TEST_F(ChunkReaderTest, AnyRangesGetTheirBytes) {
  SCOPED_TRACE(StrCat("seed ", seed_));
  constexpr int kReads = 40;
  constexpr size_t kRangesMax = 6;
  for (int i = 0; i < kReads; ++i) {
    std::vector<std::string> got(1 + static_cast<size_t>(random_() % kRangesMax));
    std::vector<std::string> expected;
    std::vector<FileRange> ranges;
    for (std::string& to : got) {
      const size_t one = SomePlace();
      const size_t other = SomePlace();
      const size_t begin = std::min(one, other);
      expected.push_back(text_.substr(begin, std::max(one, other) - begin));
      to.resize(expected.back().size());
      ranges.push_back({.begin = begin, .bytes = to.size(), .to = to.data()});
    }
    const absl::Status read = ChunkReader(*file_, "f", kBytes, checksums_).Read(ranges);
    ASSERT_TRUE(read.ok()) << read;
    for (size_t range = 0; range < got.size(); ++range) {
      ASSERT_TRUE(got[range] == expected[range])
          << "read " << i << ": " << got[range].size() << " bytes at " << ranges[range].begin;
    }
  }
}

TEST_F(ChunkReaderTest, ADamagedChunkIsFoundByWhateverTouchesItAndNothingElse) {
  files_.Corrupt(kFile, kCheckpointChunkBytes + 17, 1);
  file_ = *files_.Open(kFile);
  std::string to(2, '\0');
  const auto read = [&](size_t begin) {
    return ChunkReader(*file_, "f", kBytes, checksums_)
        .Read({{.begin = begin, .bytes = to.size(), .to = to.data()}})
        .ok();
  };
  EXPECT_TRUE(read(kCheckpointChunkBytes - 2));
  EXPECT_FALSE(read(kCheckpointChunkBytes - 1));
  EXPECT_FALSE(read(2 * kCheckpointChunkBytes - 1));
  EXPECT_TRUE(read(2 * kCheckpointChunkBytes));
}

}  // namespace
}  // namespace weft::test::chunk_reader_test
