#include "trainer/data/token_data.h"

#include <algorithm>
#include <ctime>
#include <numeric>
#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/trainer/data/token_folder.h"
#include "trainer/data/token_file.h"
#include "trainer/random.h"
#include "trainer/sampler.h"

namespace weft::trainer::token_data_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<Token> Numbers(size_t count, Token first = 0) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<Token> AllOf(const TokenText& text) {
  std::vector<Token> tokens(text.size());
  text.Read(0, tokens);
  return tokens;
}

class TokenDataTest : public TokenFolder {
 protected:
  // `tokens` in files of these sizes.
  TokenText Cut(const std::vector<Token>& tokens, const std::vector<size_t>& sizes) const {
    std::vector<std::shared_ptr<const TokenRun>> runs;
    size_t at = 0;
    for (const size_t size : sizes) {
      const std::vector<Token> part(tokens.begin() + long(at), tokens.begin() + long(at + size));
      const bool wide = runs.size() % 2 == 1;
      runs.push_back(std::make_shared<TokenFile>(WriteTokens(
          "cut" + std::to_string(runs.size()) + ".bin", part, wide ? kLlama3Tokens : kGpt2Tokens)));
      at += size;
    }
    EXPECT_EQ(at, tokens.size());
    return TokenText(std::move(runs));
  }

  TokenData Open(const std::vector<std::string>& words) const {
    std::vector<std::string> paths;
    paths.reserve(words.size());
    for (const std::string& word : words)
      paths.push_back(Path(word));
    return OpenTokenData(FindDataFiles(paths));
  }

  void WriteSet(const std::string& name, const std::string& tokenizer, size_t vocabulary) const {
    TokenSet set;
    set.path = Path(name + ".json");
    set.tokenizer = tokenizer;
    set.vocabulary = vocabulary;
    WriteTokenSet(set);
  }
};

TEST_F(TokenDataTest, WhereFilesEndIsNotToBeSeen) {
  const std::vector<Token> tokens = Numbers(5000);
  std::mt19937 random(3);
  for (const std::vector<size_t>& sizes : {std::vector<size_t>{5000},
                                           {1, 4999},
                                           {4999, 1},
                                           {1, 1, 1, 997, 2000, 2000},
                                           std::vector<size_t>(40, 125)}) {
    const TokenText text = Cut(tokens, sizes);
    ASSERT_EQ(text.size(), 5000u);
    EXPECT_EQ(AllOf(text), tokens);
    EXPECT_EQ(text.DigestOfSample(), TokenText(tokens).DigestOfSample());
    EXPECT_EQ(text.LargestOfSample(), 4999u);
    for (int i = 0; i < 200; i++) {
      const uint64_t offset = random() % 5000;
      std::vector<Token> part(random() % (5000 - offset + 1));
      text.WillRead(offset, part.size());
      text.Read(offset, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), tokens.begin() + long(offset)));
    }
    const TokenText part = text.Part(1234, 2000).Part(100, 500);
    EXPECT_EQ(AllOf(part), Numbers(500, 1334));
    std::vector<Token> two(2);
    EXPECT_THROW(part.Read(499, two), std::out_of_range);
    EXPECT_THROW(text.Part(4000, 1001), std::out_of_range);
  }
}

TEST_F(TokenDataTest, NoTokensAreATextTooAndHaveNothing) {
  const TokenText none;
  EXPECT_EQ(none.size(), 0u);
  none.Read(0, {});
  none.WillRead(0, 10);
  EXPECT_EQ(none.LargestOfSample(), 0u);
  EXPECT_EQ(TokenText(std::vector<Token>()).size(), 0u);
  EXPECT_EQ(none.Part(0, 0).size(), 0u);
}

TEST_F(TokenDataTest, ADigestTellsTextsApart) {
  std::set<uint64_t> digests;
  std::vector<Token> tokens = Numbers(1'000'000);
  digests.insert(TokenText(tokens).DigestOfSample());
  tokens.back()++;  // the end is looked at, and so is the beginning
  digests.insert(TokenText(tokens).DigestOfSample());
  tokens.front()++;
  digests.insert(TokenText(tokens).DigestOfSample());
  tokens.push_back(0);
  digests.insert(TokenText(tokens).DigestOfSample());
  EXPECT_EQ(digests.size(), 4u);
}

TEST_F(TokenDataTest, WhatReadingMapsIsGivenBack) {
  constexpr uint32_t kCount = 48 << 20;  // 96 MB
  const TokenText text({std::make_shared<TokenFile>(WriteZeros("a.bin", kCount, kGpt2Tokens))});
  const size_t before = MemoryOf("VmRSS");
  std::vector<Token> tokens(16 << 10);
  for (uint64_t at = 0; at < kCount; at += tokens.size())
    text.Read(at, tokens);
  EXPECT_LT(MemoryOf("VmRSS"), before + (64u << 20));
}

// 512 files of 100 million tokens each, as llm.c's scripts make them of FineWeb.
TEST_F(TokenDataTest, AHundredGigabytesStartAtOnceAndTakeNoMemory) {
  alarm(100);  // instead of a test that hangs
  constexpr uint32_t kFileTokens = 100'000'000;
  constexpr size_t kFiles = 512;
  for (size_t i = 0; i < kFiles; i++) {
    char name[64];
    snprintf(name, sizeof name, "web_%s_%06zu.bin", i == 0 ? "val" : "train", i);
    WriteZeros(name, kFileTokens, kGpt2Tokens);
  }
  const auto now = [](clockid_t clock) {
    timespec time = {};
    clock_gettime(clock, &time);
    return double(time.tv_sec) + 1e-9 * double(time.tv_nsec);
  };
  const double began = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
  TokenData data = Open({""});
  CheckVocabulary(data, 50257);
  const uint64_t digest = data.train.DigestOfSample();
  const double took = now(CLOCK_MONOTONIC) - began;
  const double computed = now(CLOCK_PROCESS_CPUTIME_ID) - used;
  const size_t resident = MemoryOf("VmRSS");
  std::printf("102 GB of tokens: %.3f s, %.3f s of them computing; %.1f MB resident\n", took,
              computed, double(resident) / 1e6);
  EXPECT_LT(computed, 1.0);
  EXPECT_LT(resident, 100e6);
  EXPECT_EQ(data.train.size(), uint64_t{kFileTokens} * (kFiles - 1));
  EXPECT_EQ(data.validation.size(), kFileTokens);
  EXPECT_NE(digest, 0u);
  // Windows of an epoch, from anywhere.
  constexpr size_t kSeq = 1024;
  const WindowSampler sampler(data.train.size(), kSeq, 8, 1);
  std::vector<Token> window(kSeq + 1);
  for (size_t step = 0; step < 100; step++) {
    for (size_t slot = 0; slot < 8; slot++) {
      data.train.WillRead(sampler.Offset(step + 1, slot), window.size());
      data.train.Read(sampler.Offset(step, slot), window);
      ASSERT_TRUE(std::ranges::all_of(window, [](Token token) { return token == 0; }));
    }
  }
  EXPECT_LT(MemoryOf("VmRSS"), 100e6);
  alarm(0);
}

TEST_F(TokenDataTest, TheFilesToValidateWithAreThoseNamedSo) {
  WriteTokens("a_train_000000.bin", Numbers(10));
  WriteTokens("a_train_000001.bin", Numbers(20));
  WriteTokens("a_val_000000.bin", Numbers(5));
  const TokenData data = Open({""});
  EXPECT_EQ(data.train.size(), 30u);
  EXPECT_EQ(AllOf(data.validation), Numbers(5));
  EXPECT_EQ(data.validation_files, 1u);
  EXPECT_EQ(DescribeTokenData(data),
            "data   2 files with 30 tokens to train on, 1 file with 5 to validate\n");
  for (const char* name : {"tiny_shakespeare_val.bin", "val.bin", "x-valid-3.bin", "VAL_000000.bin",
                           "fineweb.validation.bin", "fineweb_val_000000.bin"})
    EXPECT_TRUE(IsValidationName(name)) << name;
  for (const char* name :
       {"interval_000000.bin", "value.bin", "train_000001.bin", "valley_train.bin",
        "val_train_000000.bin", "/val/a_train.bin", "val_set/x.bin"})
    EXPECT_FALSE(IsValidationName(name)) << name;
}

TEST_F(TokenDataTest, WithoutSuchAFileTheEndOfTheTextValidates) {
  WriteTokens("a_000000.bin", Numbers(70));
  WriteTokens("a_000001.bin", Numbers(30, 70));
  WriteTokens("b_000000.bin", Numbers(3, 100));
  const TokenData data = Open({""});
  EXPECT_EQ(AllOf(data.train), Numbers(93));
  EXPECT_EQ(AllOf(data.validation), Numbers(10, 93));
  EXPECT_EQ(DescribeTokenData(data),
            "data   3 files with 93 tokens to train on, and their last 10 to validate\n");
  WriteZeros("z.bin", 300'000'000, kGpt2Tokens);
  EXPECT_EQ(Open({"z.bin"}).validation.size(), kHeldOutTokensMax);
}

TEST_F(TokenDataTest, FilesFoldersAndPatternsAreTheSameFilesInTheSameOrder) {
  for (const char* name : {"d/b_000001.bin", "d/b_000000.bin", "d/sub/a_000000.bin", "e.bin"})
    WriteTokens(name, Numbers(5));
  Write("d/tokenizer.bin", Header({20240328, 2, 10}));
  Write("d/tokenizer.json", "{}");
  Write("d/notes.txt", "notes");
  WriteTokens("d/.hidden.bin", Numbers(5));
  const auto names = [&](const std::vector<std::string>& words) {
    std::vector<std::string> paths, found;
    for (const std::string& word : words)
      paths.push_back(Path(word));
    for (const auto& path : FindDataFiles(paths).train)
      found.push_back(path.lexically_relative(folder_).string());
    return found;
  };
  EXPECT_THAT(names({"d"}), ElementsAre("d/b_000000.bin", "d/b_000001.bin", "d/sub/a_000000.bin"));
  EXPECT_THAT(names({"d/b_*.bin"}), ElementsAre("d/b_000000.bin", "d/b_000001.bin"));
  EXPECT_THAT(names({"d/b_00000[1-9].bin", "e.bin"}), ElementsAre("d/b_000001.bin", "e.bin"));
  EXPECT_THAT(names({"e.bin", "d/b_00000?.bin", "d", "./e.bin"}),
              ElementsAre("d/b_000000.bin", "d/b_000001.bin", "d/sub/a_000000.bin", "e.bin"));
  EXPECT_THAT(names({"?"}), ElementsAre("d/b_000000.bin", "d/b_000001.bin", "d/sub/a_000000.bin"));
  // A name that is there is no pattern.
  WriteTokens("a[1].bin", Numbers(5));
  WriteTokens("a1.bin", Numbers(5));
  EXPECT_THAT(names({"a[1].bin"}), ElementsAre("a[1].bin"));
  EXPECT_THAT(DescribeTokenData(Open({"d"})), HasSubstr("left out: "));
  EXPECT_THAT(DescribeTokenData(Open({"d"})), HasSubstr("d/tokenizer.bin, which has no tokens\n"));
}

TEST_F(TokenDataTest, TextStaysText) {
  Write("t/a.txt", "text");
  Write("t/picture.bin", "no tokens");
  Write("b.md", "text");
  const DataFiles files = FindDataFiles({"auto", Path("t"), Path("*.md")});
  EXPECT_FALSE(files.tokens());
  EXPECT_THAT(files.text, ElementsAre("auto", Path("t"), Path("b.md")));
  // What is not there is said by whoever reads it.
  EXPECT_THAT(FindDataFiles({"absent"}).text, ElementsAre("absent"));
}

TEST_F(TokenDataTest, WhatDoesNotGoTogetherIsRefused) {
  WriteTokens("a_val_000000.bin", Numbers(5));
  EXPECT_EQ(Refusal([&] { Open({""}); }),
            "--data has files to validate with (a_val_000000.bin), and none to train on; name "
            "those, too");
  WriteTokens("a_000000.bin", Numbers(5));
  Write("b.txt", "text");
  EXPECT_EQ(Refusal([&] {
              Open({"b.txt", "a_000000.bin"});
            }),
            "--data names tokens (a_000000.bin) and text (b.txt); give one of them, or make tokens "
            "of the text with weft_train tokenize");
  EXPECT_EQ(Refusal([&] { Open({"c*.bin"}); }),
            "--data c*.bin: no file has such a name; see that the pattern is right, and that the "
            "folder is there");
  EXPECT_THAT(Refusal([&] { Open({"c.bin"}); }), HasSubstr("c.bin: cannot be opened: No such"));
  // A file that is named is one of tokens, whatever it holds; in a folder it is left out.
  Write("d.bin", "no tokens");
  EXPECT_THAT(Refusal([&] { Open({"d.bin"}); }), HasSubstr("d.bin: it begins with"));
  EXPECT_EQ(Open({""}).left.size(), 1u);
  // But not one that begins like tokens, and is not whole.
  Write("e.bin", Header({20240520, 1, 100}));
  EXPECT_THAT(Refusal([&] { Open({""}); }), HasSubstr("e.bin: the header says 100 tokens"));
}

TEST_F(TokenDataTest, AVocabularyThatIsLargerThanTheModelsIsRefused) {
  WriteTokens("a_train_000000.bin", Numbers(1000));
  TokenData data = Open({"a_train_000000.bin"});
  EXPECT_EQ(data.set, std::nullopt);
  CheckVocabulary(data, 1000);
  EXPECT_EQ(Refusal([&] { CheckVocabulary(data, 999); }),
            "the tokens of --data go up to 999 at least, and the model has a vocabulary of 999; "
            "give the model as many as their tokenizer has");
  WriteSet("a", "byte", 2000);
  data = Open({"a_train_000000.bin"});
  ASSERT_TRUE(data.set);
  EXPECT_EQ(data.set->vocabulary, 2000u);
  EXPECT_THAT(DescribeTokenData(data), HasSubstr("       a vocabulary of 2000 (bytes)\n"));
  EXPECT_EQ(
      Refusal([&] { CheckVocabulary(data, 1999); }),
      "the tokens of --data are of a vocabulary of 2000 (a.json), and the model has 1999; give "
      "the model as many");
  CheckVocabulary(data, 2000);
}

// A sample may miss it; whoever reads it must not take it for a token.
TEST_F(TokenDataTest, ATokenOutsideOfTheVocabularyIsNeverRead) {
  std::vector<Token> tokens(10'000'000, 5);
  constexpr uint64_t kHidden = 4'100'003;
  tokens[kHidden] = 60'000;
  WriteTokens("a.bin", tokens);
  TokenData data = Open({"a.bin"});
  ASSERT_EQ(data.train.LargestOfSample(), 5u) << "it is to lie where no sample is taken";
  CheckVocabulary(data, 256);
  std::vector<Token> window(100);
  data.train.Read(kHidden - 100, window);
  data.train.Read(kHidden + 1, window);
  EXPECT_EQ(Refusal<RunFailure>([&] { data.train.Read(kHidden - 50, window); }),
            "a.bin: token 60000 at 4100003 is outside of the model's vocabulary of 256; train a "
            "model with more tokens, or tokenize the text anew");
  EXPECT_EQ(
      Refusal<RunFailure>([&] { data.train.Part(1, kHidden).Read(kHidden - 1, window = {0}); }),
      "a.bin: token 60000 at 4100003 is outside of the model's vocabulary of 256; train a "
      "model with more tokens, or tokenize the text anew");
}

TEST_F(TokenDataTest, AllTokensAreOfOneVocabulary) {
  for (const char* name : {"a/x_train_000000.bin", "a/y_val_000000.bin", "b/z_000000.bin"})
    WriteTokens(name, Numbers(50));
  WriteSet("a/x", "byte", 256);
  WriteSet("a/y", "byte", 256);
  WriteSet("b/z", "byte", 256);
  EXPECT_EQ(Open({"a", "b"}).set->path.filename(), "x.json");
  WriteSet("b/z", "byte", 257);
  EXPECT_EQ(Refusal([&] {
              Open({"a", "b"});
            }),
            "--data names tokens of different vocabularies: those of a/x.json and those of "
            "b/z.json; give one of them, or tokenize both with the same");
  // Copies of one file are the same vocabulary, files that differ are not.
  Write("a/tokenizer.json", "one");
  Write("b/tokenizer.json", "one");
  for (const char* name : {"a/x", "a/y", "b/z"})
    WriteSet(name, "tokenizer.json", 300);
  EXPECT_EQ(Open({"a", "b"}).set->vocabulary, 300u);
  Write("b/tokenizer.json", "two");
  EXPECT_THAT(Refusal([&] { Open({"a", "b"}); }), HasSubstr("tokens of different vocabularies"));
  WriteSet("b/z", "byte", 300);
  EXPECT_THAT(Refusal([&] { Open({"a", "b"}); }), HasSubstr("tokens of different vocabularies"));
}

TEST_F(TokenDataTest, ASetIsReadAsItWasWritten) {
  EXPECT_EQ(PathOfTokenSet("d/wiki_train_000003.bin"), "d/wiki.json");
  EXPECT_EQ(PathOfTokenSet("d/wiki_val_000003.bin"), "d/wiki.json");
  EXPECT_EQ(PathOfTokenSet("wiki_000003.bin"), "wiki.json");
  EXPECT_EQ(PathOfTokenSet("wiki_train.bin"), "wiki.json");
  EXPECT_EQ(PathOfTokenSet("wiki_00003.bin"), "wiki_00003.json");
  TokenSet set;
  set.path = Path("wiki.json");
  set.tokenizer = "tokenizer.json";
  set.vocabulary = 50257;
  set.end_of_text = 50256;
  set.documents = 3;
  set.bytes = 1 << 20;
  set.train = {400, {"wiki_train_000000.bin", "wiki_train_000001.bin"}};
  set.validation = {40, {"wiki_val_000000.bin"}};
  WriteTokenSet(set);
  const std::optional<TokenSet> read = FindTokenSet(Path("wiki_train_000001.bin"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->path, set.path);
  EXPECT_EQ(read->tokenizer, set.tokenizer);
  EXPECT_EQ(read->vocabulary, set.vocabulary);
  EXPECT_EQ(read->end_of_text, set.end_of_text);
  EXPECT_EQ(read->documents, 3u);
  EXPECT_EQ(read->bytes, uint64_t{1} << 20);
  EXPECT_EQ(read->train.tokens, 400u);
  EXPECT_EQ(read->train.files, set.train.files);
  EXPECT_EQ(read->validation.files, set.validation.files);
  EXPECT_EQ(FindTokenSet(Path("other_000000.bin")), std::nullopt);
}

TEST_F(TokenDataTest, ASetThatIsBrokenIsRefusedAndAnotherFileIsNone) {
  const auto refusal = [&](const std::string& json) {
    Write("a.json", json);
    return Refusal([&] { FindTokenSet(Path("a_000000.bin")); });
  };
  const auto with = [](const std::string& fields) {
    return R"({"format": "weft tokens", "version": 1)" + fields + "}";
  };
  const std::string good =
      R"(, "tokenizer": "byte", "vocabulary": 256, "documents": 1, "bytes": 1, "train": {"tokens": 1, "files": []}, "validation": {"tokens": 1, "files": []})";
  EXPECT_EQ(refusal(with(good)), "taken");
  EXPECT_EQ(refusal(R"({"anything": 1})"), "taken");
  EXPECT_EQ(FindTokenSet(Path("a_000000.bin")), std::nullopt);
  EXPECT_THAT(refusal("no JSON"), HasSubstr("a.json: this is no JSON"));
  EXPECT_EQ(
      refusal(R"({"format": "weft tokens", "version": 2})"),
      "a.json: version is 2, and this program knows 1; write the tokens again with weft_train "
      "tokenize");
  EXPECT_THAT(refusal(with("")), HasSubstr("a.json: tokenizer is missing; write"));
  EXPECT_THAT(refusal(with(R"(, "tokenizer": 5)")), HasSubstr("tokenizer is no text"));
  EXPECT_THAT(refusal(with(R"(, "tokenizer": "byte", "vocabulary": -1)")),
              HasSubstr("vocabulary is no whole number"));
  EXPECT_THAT(refusal(with(R"(, "tokenizer": "byte", "vocabulary": 0)")),
              HasSubstr("vocabulary is 0"));
  EXPECT_THAT(refusal(with(R"(, "end_of_text": 256)" + good)),
              HasSubstr("end_of_text is outside of the vocabulary"));
  // The vocabulary beside it is another one.
  Write(
      "a.json",
      with(
          R"(, "tokenizer": "byte", "vocabulary": 300, "documents": 1, "bytes": 1, "train": {"tokens": 1, "files": []}, "validation": {"tokens": 1, "files": []})"));
  const std::optional<TokenSet> set = FindTokenSet(Path("a_000000.bin"));
  EXPECT_EQ(Refusal([&] { MakeTokenizer(*set); }),
            "a.json: the tokens are of a vocabulary of 300, and byte has 256; put the vocabulary "
            "back that they were made with");
}

}  // namespace
}  // namespace weft::trainer::token_data_test
