#include "trainer/data/token_file.h"

#include <algorithm>
#include <csignal>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/trainer/data/token_folder.h"
#include "trainer/data/token_shards.h"

namespace weft::trainer::token_file_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Token> AllOf(const TokenFile& file) {
  std::vector<Token> tokens(file.size());
  file.Read(0, tokens);
  return tokens;
}

using TokenFileTest = TokenFolder;

TEST_F(TokenFileTest, WhatIsWrittenIsReadInBothFormats) {
  std::mt19937 random(1);
  for (const TokenFormat& format : kTokenFormats) {
    const bool narrow = format.token_bytes == 2;
    // Counts up to, at and beyond what is written to the disk at once.
    const size_t flush = (size_t{1} << 20) / format.token_bytes;
    for (const size_t count : {size_t{1}, size_t{997}, flush - 512, flush + 1, 2 * flush + 7}) {
      std::vector<Token> tokens(count);
      for (Token& token : tokens)
        token = narrow ? random() & 0xffff : random();
      tokens.back() = narrow ? 0xffff : 0xffffffff;
      {
        TokenFileWriter writer(Path("a.bin"), format);
        for (size_t at = 0; at < count; at += 1 + at)  // pieces of many sizes, and an empty one
          writer.Write(std::span(tokens).subspan(at, std::min(1 + at, count - at)));
        writer.Write({});
        EXPECT_EQ(writer.tokens(), count);
        writer.Close();
        EXPECT_THAT(Names(), testing::Contains("a.bin.new"));
        writer.Publish();
      }
      EXPECT_THAT(Names(), ElementsAre("a.bin"));
      const TokenFile file(Path("a.bin"));
      EXPECT_EQ(file.format().magic, format.magic);
      ASSERT_EQ(file.size(), count);
      EXPECT_EQ(AllOf(file), tokens);
      EXPECT_EQ(std::filesystem::file_size(Path("a.bin")), 1024 + count * format.token_bytes);
      for (int i = 0; i < 50; i++) {
        const uint64_t offset = random() % count;
        std::vector<Token> part(random() % (count - offset + 1));
        file.WillRead(offset, part.size());
        file.Read(offset, part);
        if (i % 10 == 0) file.Release();  // what is read again is the same
        ASSERT_TRUE(std::equal(part.begin(), part.end(), tokens.begin() + long(offset)));
      }
      file.WillRead(count - 1, 1 << 30);
      file.WillRead(count, 1);
    }
  }
}

// Byte by byte what llm.c's dev/data/data_common.py writes.
TEST_F(TokenFileTest, TheBytesAreThoseOfLlmC) {
  WriteTokens("gpt2.bin", {1, 0x1234, 50256}, kGpt2Tokens);
  WriteTokens("llama3.bin", {1, 128000}, kLlama3Tokens);
  const auto read = [&](const char* name) {
    std::ifstream in(Path(name), std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  using namespace std::string_literals;
  EXPECT_EQ(read("gpt2.bin"), "\x88\xd8\x34\x01\x01\x00\x00\x00\x03\x00\x00\x00"s +
                                  std::string(1012, '\0') + "\x01\x00\x34\x12\x50\xc4"s);
  EXPECT_EQ(read("llama3.bin"), "\xa1\xd9\x34\x01\x07\x00\x00\x00\x02\x00\x00\x00"s +
                                    std::string(1012, '\0') + "\x01\x00\x00\x00\x00\xf4\x01\x00"s);
}

TEST_F(TokenFileTest, WhatIsNoFileOfTokensIsRefusedByName) {
  const auto refusal = [&](const std::string& name) {
    return Refusal([&] { TokenFile file(Path(name)); });
  };
  EXPECT_EQ(refusal("absent.bin"), "absent.bin: cannot be opened: No such file or directory");
  std::filesystem::create_directory(Path("folder.bin"));
  EXPECT_EQ(refusal("folder.bin"),
            "folder.bin: this is no regular file; name files of tokens, or their folder");
  ASSERT_EQ(mkfifo(Path("fifo.bin").c_str(), 0600), 0);
  EXPECT_THAT(refusal("fifo.bin"), HasSubstr("fifo.bin: this is no regular file"));
  Write("empty.bin", "");
  EXPECT_EQ(refusal("empty.bin"), "empty.bin: the file is empty; write it again");
  Write("text.bin", "It was the best of times");
  EXPECT_THAT(refusal("text.bin"),
              HasSubstr("text.bin: it begins with 1998615625 and not with 20240520 or 20240801, so "
                        "it is no file of tokens with llm.c's header; weft_train tokenize"));
  Write("three.bin", "abc");
  EXPECT_THAT(refusal("three.bin"), HasSubstr("three.bin: it begins with 6513249 and not with"));
  Write("questions.bin", Header({20240522, 1, 10}));
  EXPECT_EQ(refusal("questions.bin"),
            "questions.bin: this is llm.c's questions with answers to choose from, and no file of "
            "tokens; leave it out");
  Write("vocabulary.bin", Header({20240328, 2, 10}));
  EXPECT_THAT(refusal("vocabulary.bin"), HasSubstr("this is llm.c's tokenizer.bin, and no file"));
  Write("model.bin", Header({20240326, 3, 10}));
  EXPECT_THAT(refusal("model.bin"), HasSubstr("this is llm.c's weights of a model, and no file"));
  Write("turned.bin", Header({__builtin_bswap32(20240520), __builtin_bswap32(1)}));
  EXPECT_EQ(refusal("turned.bin"),
            "turned.bin: its numbers are big-endian, and weft reads little-endian ones; turn the "
            "bytes of each number round");
}

TEST_F(TokenFileTest, AFileThatIsNotWholeIsRefusedByName) {
  const auto refusal = [&](const std::string& bytes) {
    const std::string path = Write("a.bin", bytes);
    return Refusal([&] { TokenFile file(path); });
  };
  const std::string good = Header({20240520, 1, 3}) + std::string(6, 'x');
  EXPECT_EQ(refusal(good), "taken");
  EXPECT_EQ(refusal(good.substr(0, 1023)),
            "a.bin: 1023 bytes are less than the header of 1024; the file was cut off: copy or "
            "write it again");
  EXPECT_EQ(
      refusal(good.substr(0, 1029)),
      "a.bin: the header says 3 tokens of 16 bits, which are 1030 bytes with it, and the file "
      "has 1029; it was cut off: copy or write it again");
  EXPECT_EQ(
      refusal(good + "x"),
      "a.bin: the header says 3 tokens of 16 bits, which are 1030 bytes with it, and the file "
      "has 1031; more was put behind them: write it again, in several files if they are "
      "many");
  EXPECT_THAT(refusal(Header({20240801, 7, 3}) + std::string(6, 'x')),
              HasSubstr("the header says 3 tokens of 32 bits, which are 1036 bytes with it"));
  EXPECT_EQ(refusal(Header({20240520, 7, 3}) + std::string(6, 'x')),
            "a.bin: version 7 of files that begin with 20240520 is unknown; write it as version 1");
  EXPECT_THAT(refusal(Header({20240801, 1, 3})), HasSubstr("version 1 of files that begin with "
                                                           "20240801 is unknown"));
  EXPECT_EQ(refusal(Header({20240520, 1, 0})),
            "a.bin: the header says that there are 0 tokens; whoever wrote the file did not finish "
            "it: write it again");
  EXPECT_THAT(refusal(Header({20240520, 1, 0x80000001})),
              HasSubstr("the header says that there are -2147483647 tokens"));
}

TEST_F(TokenFileTest, ReadingBeyondTheEndIsNoRead) {
  WriteTokens("a.bin", {1, 2, 3});
  const TokenFile file(Path("a.bin"));
  std::vector<Token> two(2), none;
  EXPECT_THROW(file.Read(2, two), std::out_of_range);
  EXPECT_THROW(file.Read(UINT64_MAX, two), std::out_of_range);
  file.Read(3, none);
}

TEST_F(TokenFileTest, AnUnfinishedFileIsSeenByNobody) {
  Write("a.bin", "what was there");
  {
    TokenFileWriter writer(Path("a.bin"), kGpt2Tokens);
    writer.Write(std::vector<Token>{1, 2, 3});
    EXPECT_THAT(Names(), ElementsAre("a.bin", "a.bin.new"));
  }
  {
    TokenFileWriter writer(Path("a.bin"), kGpt2Tokens);
    writer.Write(std::vector<Token>{1, 2, 3});
    writer.Close();
  }
  EXPECT_THAT(Names(), ElementsAre("a.bin"));
  std::ifstream in(Path("a.bin"));
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "what was there");
}

TEST_F(TokenFileTest, WhatDoesNotFitIntoAFileIsRefused) {
  EXPECT_EQ(kFileTokensMax, 2147483647u);
  TokenFileWriter writer(Path("a.bin"), kGpt2Tokens, 3);
  writer.Write(std::vector<Token>{1, 2});
  EXPECT_EQ(Refusal([&] {
              writer.Write(std::vector<Token>{3, 4});
            }),
            "a.bin: more than 3 tokens do not fit into one file; write several");
  EXPECT_EQ(Refusal([&] { writer.Write(std::vector<Token>{65536}); }),
            "a.bin: token 65536 does not fit into 16 bits");
  writer.Write(std::vector<Token>{3});
  EXPECT_EQ(writer.tokens(), 3u);
}

TEST_F(TokenFileTest, AFullDiskIsNamedAndNothingIsLeft) {
  const auto before = signal(SIGXFSZ, SIG_IGN);
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small = {100'000, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string refusal = Refusal<NotWritten>([&] {
    TokenShards shards(Path("a"), kGpt2Tokens, 30'000);
    const std::vector<Token> tokens(30'000, 7);
    shards.Write(tokens);  // 61 kB, and a second file
    shards.Write(std::vector<Token>(20'000, 7));
    TokenShards large(Path("b"), kGpt2Tokens, 100'000);
    large.Write(std::vector<Token>(60'000, 7));
    large.Close();
  });
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, before);
  EXPECT_EQ(refusal,
            "cannot write to b_000000.bin.new: File too large; make room, or choose another --out");
  EXPECT_THAT(Names(), ElementsAre());
}

TEST_F(TokenFileTest, AFolderThatIsNotThereIsNamed) {
  EXPECT_EQ(Refusal([&] { TokenFileWriter writer(Path("no/a.bin"), kGpt2Tokens); }),
            "cannot write to no/a.bin.new: No such file or directory; choose another --out");
}

TEST_F(TokenFileTest, ShardsAreFullAndHaveAllTokensInOrder) {
  std::vector<Token> tokens(1000);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (const uint64_t shard_tokens : {70, 250, 999, 1000, 1001}) {
    TokenShards shards(Path("s_train"), kGpt2Tokens, shard_tokens);
    for (size_t at = 0; at < tokens.size(); at += 100)
      shards.Write(std::span(tokens).subspan(at, 100));
    shards.Close();
    shards.Publish();
    EXPECT_EQ(shards.tokens(), 1000u);
    std::vector<Token> read;
    for (const std::string& path : shards.Paths()) {
      const TokenFile file(path);
      if (path != shards.Paths().back()) {
        EXPECT_EQ(file.size(), shard_tokens);
      }
      const std::vector<Token> part = AllOf(file);
      read.insert(read.end(), part.begin(), part.end());
    }
    EXPECT_EQ(read, tokens);
    EXPECT_EQ(shards.Paths().size(), (999 + shard_tokens) / shard_tokens);
    EXPECT_EQ(shards.Paths().front(), Path("s_train_000000.bin"));
    for (const std::string& path : shards.Paths())
      std::filesystem::remove(path);
  }
  TokenShards none(Path("none"), kGpt2Tokens, 10);
  none.Close();
  none.Publish();
  EXPECT_THAT(Names(), ElementsAre());
}

TEST(TokenFormat, IsTheSmallestThatHasRoomForTheVocabulary) {
  EXPECT_EQ(FormatFor(256).token_bytes, 2u);
  EXPECT_EQ(FormatFor(50257).magic, 20240520u);
  EXPECT_EQ(FormatFor(65536).token_bytes, 2u);
  EXPECT_EQ(FormatFor(65537).token_bytes, 4u);
  EXPECT_EQ(FormatFor(128256).version, 7u);
}

}  // namespace
}  // namespace weft::trainer::token_file_test
