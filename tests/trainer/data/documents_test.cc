#include "trainer/data/documents.h"

#include <algorithm>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/data/token_folder.h"
#include "trainer/data/held_out.h"
#include "trainer/data/text_slices.h"
#include "trainer/data/tokenizer_choice.h"
#include "trainer/tokenizer/bpe_tokenizer.h"
#include "trainer/tokenizer/bpe_trainer.h"
#include "trainer/tokenizer/byte_tokenizer.h"

namespace weft::trainer::documents_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kSmall = 64 << 10;

double PartOf(const std::vector<SizedText>& texts, const std::vector<uint64_t>& held_out) {
  double all = 0, part = 0;
  for (size_t i = 0; i < texts.size(); i++) {
    EXPECT_LE(held_out[i], texts[i].bytes);
    all += double(texts[i].bytes);
    part += double(held_out[i]);
  }
  return part / all;
}

TEST(BytesToValidate, AreTheirPartOfLargeTextsAndWholeSmallOnes) {
  std::mt19937 random(1);
  for (const double part : {0.001, 0.05, 0.1, 0.5, 0.9}) {
    std::vector<SizedText> texts;
    for (size_t i = 0; i < 500; i++)
      texts.push_back({"small" + std::to_string(i), 1 + random() % kSmall});
    for (size_t i = 0; i < 5; i++)
      texts.push_back({"large" + std::to_string(i), 1'000'000 + random() % 1'000'000});
    const std::vector<uint64_t> held_out = BytesToValidate(texts, part);
    EXPECT_NEAR(PartOf(texts, held_out), part, 0.1 * part) << part;
    double all = 0;
    for (const SizedText& text : texts)
      all += double(text.bytes);
    for (size_t i = 0; i < texts.size(); i++) {
      if (double(texts[i].bytes) <= std::min(double(kSmall), part * all)) {
        EXPECT_TRUE(held_out[i] == 0 || held_out[i] == texts[i].bytes) << i;
      } else {
        EXPECT_EQ(held_out[i], uint64_t(part * double(texts[i].bytes))) << i;
      }
    }
  }
}

// The order in which texts are found changes nothing.
TEST(BytesToValidate, DependOnNamesAndSizesAlone) {
  std::mt19937 random(2);
  std::vector<SizedText> texts;
  for (size_t i = 0; i < 200; i++)
    texts.push_back({"text" + std::to_string(i), 1 + random() % kSmall});
  std::map<std::string, uint64_t> first;
  for (int round = 0; round < 5; round++) {
    const std::vector<uint64_t> held_out = BytesToValidate(texts, 0.1);
    for (size_t i = 0; i < texts.size(); i++) {
      const auto [known, is_new] = first.emplace(texts[i].name, held_out[i]);
      ASSERT_EQ(known->second, held_out[i]);
    }
    std::shuffle(texts.begin(), texts.end(), random);
  }
}

TEST(BytesToValidate, SomeDoWhateverTheTextsAre) {
  EXPECT_THAT(BytesToValidate({}, 0.1), ElementsAre());
  EXPECT_THAT(BytesToValidate({{"a", 100}}, 0.1), ElementsAre(10));
  EXPECT_THAT(BytesToValidate({{"a", 100}}, 0), ElementsAre(0));
  EXPECT_THAT(BytesToValidate({{"a", 5}}, 0.1), ElementsAre(0));  // less than a byte
  for (const size_t count : {2, 9, 10, 11, 20, 1000}) {
    std::vector<SizedText> texts;
    for (size_t i = 0; i < count; i++)
      texts.push_back({"text" + std::to_string(i), 300});
    for (const double part : {0.01, 0.1, 0.3}) {
      const double held_out = PartOf(texts, BytesToValidate(texts, part));
      EXPECT_GT(held_out, 0) << count << " " << part;
      EXPECT_LE(held_out, part + 1e-9) << count << " " << part;
    }
  }
}

class DocumentsTest : public TokenFolder {
 protected:
  std::vector<std::string> PathsOf(const Documents& documents) const {
    std::vector<std::string> paths;
    for (const Document& document : documents.list)
      paths.push_back(document.path.lexically_relative(folder_).string());
    return paths;
  }
};

TEST_F(DocumentsTest, AreInTheOrderOfTheirPathsEachOnce) {
  Write("d/b.txt", "two");
  Write("d/a/z.txt", "one");
  Write("d/.hidden", "hidden");
  Write("d/empty", "");
  Write("d/picture", std::string("P\0", 2));
  Write("c.txt", "three");
  const Documents documents =
      FindDocuments({Path("d/"), Path("c.txt"), Path("d/./b.txt"), Path("d/a")}, 0);
  EXPECT_THAT(PathsOf(documents), ElementsAre("c.txt", "d/a/z.txt", "d/b.txt"));
  EXPECT_EQ(documents.bytes, 11u);
  EXPECT_EQ(documents.empty_files, 1u);
  EXPECT_THAT(DescribePassedOver(documents.passed_over),
              ElementsAre("1 file with NUL bytes, which is no text (picture)",
                          "1 hidden file or folder (.hidden)"));
}

TEST_F(DocumentsTest, NoTextIsRefusedWithWhatWasThere) {
  Write("d/empty", "");
  Write("d/picture", std::string("P\0", 2));
  EXPECT_EQ(Refusal([&] { FindDocuments({Path("d")}, 0.1); }),
            "tokenize d: found no text but 1 file with NUL bytes, which is no text (picture), 1 "
            "empty file; name files or folders of text");
  EXPECT_EQ(Refusal([&] { FindDocuments({Path("absent")}, 0.1); }),
            "tokenize absent: No such file or directory");
  EXPECT_THAT(Refusal([&] { FindDocuments({"/dev/zero"}, 0.1); }),
              HasSubstr("tokenize /dev/zero is neither a regular file nor a directory"));
}

// Encodes a file in slices of `wanted` bytes.
std::vector<Token> InSlices(const std::string& path, Tokenizer& tokenizer, size_t wanted,
                            std::string* text) {
  TextSlices slices(path, CutsOf(tokenizer));
  std::vector<Token> tokens;
  for (;;) {
    const std::string_view slice = slices.Next(wanted);
    if (slice.empty()) break;
    text->append(slice);
    EXPECT_EQ(slices.position(), text->size());
    tokenizer.Encode(slice, &tokens, SpecialText::kAsText);
  }
  EXPECT_TRUE(slices.Next(wanted).empty());
  return tokens;
}

TEST_F(DocumentsTest, SlicesGiveTheTokensOfTheWhole) {
  std::mt19937 random(4);
  const std::vector<std::string> pieces = {"the ",  "cat's ", "été ",     "1234", "   ",
                                           "\n\n",  "\xff",   "日本",     "--",   "<|endoftext|>",
                                           "<|end", "x",      "\xe2\x82", "😀 ",   "Q"};
  std::string text;
  while (text.size() < 300'000)
    text += pieces[random() % pieces.size()];
  BpeTrainer trainer(SplitPattern::kGpt2);
  trainer.Add(text);
  BpeTokenizer bpe(trainer.Train({.vocabulary = 400, .special = {"<|endoftext|>"}}));
  ByteTokenizer byte;
  const std::string path = Write("text", text);
  for (Tokenizer* const tokenizer :
       {static_cast<Tokenizer*>(&bpe), static_cast<Tokenizer*>(&byte)}) {
    std::vector<Token> whole;
    tokenizer->Encode(text, &whole, SpecialText::kAsText);
    for (const size_t wanted :
         {size_t{1}, size_t{100}, size_t{4097}, text.size(), size_t{1} << 20}) {
      if (wanted == 1 && tokenizer == &byte) continue;  // 300,000 slices
      std::string read;
      ASSERT_EQ(InSlices(path, *tokenizer, wanted, &read), whole) << wanted;
      ASSERT_EQ(read, text);
    }
  }
}

TEST_F(DocumentsTest, ATextWithoutWordsIsRefusedBeforeItFillsTheMemory) {
  const std::string path = Write("text", "one two " + std::string(40 << 20, 'x'));
  BpeTrainer trainer(SplitPattern::kGpt2);
  BpeTokenizer bpe(trainer.Train({.vocabulary = 256}));
  TextSlices slices(path, CutsOf(bpe));
  EXPECT_EQ(slices.Next(4), "one two");
  EXPECT_THAT(Refusal([&] { slices.Next(4); }),
              HasSubstr("text: from byte 7 on there are 16777224 bytes without an end of a "));
  ByteTokenizer byte;
  TextSlices bytes(path, CutsOf(byte));
  EXPECT_EQ(bytes.Next(4), "one ");
  EXPECT_EQ(bytes.Next(1 << 20).size(), 1u << 20);
}

TEST_F(DocumentsTest, AVocabularyIsTrainedOnWhatDoesNotValidate) {
  Write("a.txt", "aaaa bbbb cccc");
  for (int i = 0; i < 2000; i++)
    std::ofstream(Path("a.txt"), std::ios::app) << " aaaa bbbb";
  std::string last = " yyyy";  // the word at the cut may train
  for (int i = 0; i < 2000; i++)
    last += " zzzz";
  std::ofstream(Path("a.txt"), std::ios::app) << last;
  Documents documents = FindDocuments({Path("a.txt")}, 0);
  documents.list[0].held_out = last.size();
  const auto ignore = [](const std::string&, double) {
  };
  const TokenizerChoice choice = ChooseTokenizer("bpe:300", SplitPattern::kGpt2, documents, ignore);
  ASSERT_TRUE(choice.model);
  EXPECT_GE(choice.trained_bytes, documents.bytes - last.size());
  EXPECT_LE(choice.trained_bytes, documents.bytes - last.size() + 5);
  bool has_a = false, has_z = false;
  for (const BpeToken& token : choice.model->tokens) {
    has_a |= token.bytes == "aaaa";
    has_z |= token.bytes == "zz";
  }
  EXPECT_TRUE(has_a);
  EXPECT_FALSE(has_z);
  EXPECT_EQ(choice.tokenizer->end_of_text(), Token{0});
  for (const char* name : {"bpe:", "bpe:0", "bpe:256", "bpe:1000001", "bpe:3x", "bpe:-1"}) {
    EXPECT_THAT(Refusal([&] { ChooseTokenizer(name, SplitPattern::kGpt2, documents, ignore); }),
                HasSubstr("is no number of tokens from 257 to 1000000"));
  }
  EXPECT_THAT(
      Refusal([&] { ChooseTokenizer("/proc/none/x", SplitPattern::kGpt2, documents, ignore); }),
      HasSubstr("/proc/none/x: there is no such file or folder"));
}

}  // namespace
}  // namespace weft::trainer::documents_test
