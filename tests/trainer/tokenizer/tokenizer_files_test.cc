#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "tests/trainer/tokenizer/random_bpe.h"
#include "trainer/failure.h"
#include "trainer/tokenizer/bpe_trainer.h"
#include "trainer/tokenizer/read_tokenizer.h"
#include "trainer/tokenizer/tokenizer_bin.h"
#include "trainer/tokenizer/tokenizer_json.h"
#include "trainer/tokenizer/vocab_files.h"
#include "trainer/tokenizer/vocabulary_file.h"

namespace weft::trainer::tokenizer_files_test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const char* const kText =
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age "
    "of foolishness, "
    "it was the epoch of belief, it was the epoch of incredulity, it was the season of Light "
    "\xff\n\n";

// A folder of its own, gone afterwards.
class TokenizerFiles : public testing::Test {
 protected:
  TokenizerFiles() {
    std::string pattern = (fs::temp_directory_path() / "weft_tokenizer_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }

  ~TokenizerFiles() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  std::string Read(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return text.str();
  }

  // The sentence with which a file or the folder is refused, without the folder's name.
  std::string Refusal(const std::string& name = "") const {
    try {
      ReadBpeModel(name.empty() ? folder_ : folder_ / name);
    } catch (const BadInput& error) {
      std::string sentence = error.what();
      const std::string prefix =
          folder_.string() + (sentence.starts_with(folder_.string() + "/") ? "/" : "");
      if (sentence.starts_with(prefix)) sentence.erase(0, prefix.size());
      return sentence;
    }
    return "";
  }

  // The same for a tokenizer.json that `change` has been at.
  std::string RefusalOf(const std::function<void(Json&)>& change) const {
    WriteTokenizerJson(Trained(SplitPattern::kGpt2), folder_ / "tokenizer.json");
    Json json = Json::parse(Read("tokenizer.json"));
    change(json);
    Write("tokenizer.json", json.dump());
    const std::string sentence = Refusal("tokenizer.json");
    const std::string file = "tokenizer.json: ";
    return sentence.starts_with(file) ? sentence.substr(file.size()) : sentence;
  }

  static BpeModel Trained(SplitPattern split) {
    BpeTrainer trainer(split);
    trainer.Add(kText);
    return trainer.Train(
        {.vocabulary = 300, .special = {"<|endoftext|>"}, .count_min = 1, .progress = {}});
  }

  fs::path folder_;
};

std::vector<Token> Encoded(const fs::path& path, SplitPattern split = kSplitOfOldFiles) {
  std::vector<Token> tokens;
  ReadTokenizer(path, split)
      ->Encode(std::string("<|endoftext|>") + kText, &tokens, SpecialText::kAsTokens);
  return tokens;
}

// llm.c's file of a model.
std::string BinOf(const BpeModel& model, uint32_t version) {
  std::vector<uint32_t> header(256);
  header[0] = kTokenizerBinMagic;
  header[1] = version;
  header[2] = uint32_t(model.tokens.size());
  header[3] = version == 1 ? 0 : *model.end_of_text;
  std::string file(reinterpret_cast<const char*>(header.data()), 1024);
  for (const BpeToken& token : model.tokens)
    file += char(token.bytes.size()) + token.bytes;
  return file;
}

TEST_F(TokenizerFiles, AllOfThemHaveTheSameTokens) {
  for (const SplitPattern split : {SplitPattern::kGpt2, SplitPattern::kLlama3}) {
    const BpeModel model = Trained(split);
    ASSERT_GT(model.merges.size(), 20u);
    WriteTokenizerJson(model, folder_ / "tokenizer.json");
    WriteVocabFiles(model, folder_);
    Write("tokenizer.bin", BinOf(model, 2));
    const std::vector<Token> tokens = Encoded(folder_);
    EXPECT_EQ(tokens[0], 0u) << "<|endoftext|>";
    EXPECT_LT(tokens.size(), std::string(kText).size());
    EXPECT_EQ(Encoded(folder_ / "tokenizer.json"), tokens);
    EXPECT_EQ(Encoded(folder_ / "vocab.json", split), tokens);
    EXPECT_EQ(Encoded(folder_ / "merges.txt", split), tokens);
    EXPECT_EQ(Encoded(folder_ / "tokenizer.bin", split), tokens);
    for (const char* gone : {"tokenizer.json", "vocab.json"}) {
      fs::remove(folder_ / gone);
      EXPECT_EQ(Encoded(folder_, split), tokens) << "without " << gone;
    }
    const BpeModel read = ReadTokenizerBin(folder_ / "tokenizer.bin", split);
    EXPECT_EQ(read.end_of_text, 0u);
    EXPECT_EQ(read.merges.size(), model.merges.size());
    std::string text;
    ReadTokenizer(folder_, split)->Decode(tokens, &text);
    EXPECT_EQ(text, std::string("<|endoftext|>") + kText);
  }
}

TEST_F(TokenizerFiles, MergesMayBeLinesAndCarriageReturnsAreNoneOfThem) {
  const BpeModel model = Trained(SplitPattern::kGpt2);
  WriteTokenizerJson(model, folder_ / "tokenizer.json");
  WriteVocabFiles(model, folder_);
  const std::vector<Token> tokens = Encoded(folder_ / "tokenizer.json");
  EXPECT_EQ("", RefusalOf([](Json& json) {
              for (Json& merge : json["model"]["merges"])
                merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
              // As the files of the package's old versions are.
              json["model"].erase("type");
              json["model"]["end_of_word_suffix"] = "";
              json["pre_tokenizer"].erase("use_regex");
            }));
  EXPECT_EQ(Encoded(folder_ / "tokenizer.json"), tokens);
  std::string lines;
  for (const char c : Read("merges.txt"))
    lines += c == '\n' ? "\r\n" : std::string(1, c);
  Write("merges.txt", lines);
  EXPECT_EQ(Encoded(folder_ / "vocab.json"), tokens);
}

TEST_F(TokenizerFiles, RefusesWhatItDoesNotReadByName) {
  EXPECT_EQ("", RefusalOf([](Json&) {}));
  EXPECT_EQ("the model is Unigram; weft reads byte-level BPE only",
            RefusalOf([](Json& json) { json["model"]["type"] = "Unigram"; }));
  EXPECT_EQ("the model is WordPiece; weft reads byte-level BPE only",
            RefusalOf([](Json& json) { json["model"]["type"] = "WordPiece"; }));
  EXPECT_EQ(
      "byte_fallback: this is SentencePiece's BPE, whose tokens are characters; weft reads "
      "byte-level BPE only",
      RefusalOf([](Json& json) { json["model"]["byte_fallback"] = true; }));
  EXPECT_EQ("dropout 0.1 leaves merges out at random; set it to null",
            RefusalOf([](Json& json) { json["model"]["dropout"] = 0.1; }));
  EXPECT_EQ("continuing_subword_prefix is \"##\"; byte-level BPE has none",
            RefusalOf([](Json& json) { json["model"]["continuing_subword_prefix"] = "##"; }));
  EXPECT_EQ("end_of_word_suffix is \"</w>\"; byte-level BPE has none",
            RefusalOf([](Json& json) { json["model"]["end_of_word_suffix"] = "</w>"; }));
  EXPECT_EQ(
      "normalizer NFC changes text, which would not be the same again; weft reads vocabularies "
      "without one",
      RefusalOf([](Json& json) {
        json["normalizer"] = {{"type", "NFC"}};
      }));
  EXPECT_EQ("decoder Metaspace is not ByteLevel, the one that byte-level BPE has",
            RefusalOf([](Json& json) {
              json["decoder"] = {{"type", "Metaspace"}};
            }));
  EXPECT_EQ("pre_tokenizer Metaspace is neither ByteLevel nor a Sequence of Split and ByteLevel",
            RefusalOf([](Json& json) {
              json["pre_tokenizer"] = {{"type", "Metaspace"}};
            }));
  EXPECT_EQ(
      "pre_tokenizer ByteLevel has add_prefix_space, which adds a space to the text; weft gives "
      "back the bytes that it was given",
      RefusalOf([](Json& json) { json["pre_tokenizer"]["add_prefix_space"] = true; }));
  EXPECT_EQ("pre_tokenizer ByteLevel has use_regex false, so nothing cuts the text into pieces",
            RefusalOf([](Json& json) { json["pre_tokenizer"]["use_regex"] = false; }));
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", "\\d+"}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  const Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  EXPECT_EQ("Split has the pattern \\d+, which is neither GPT-2's nor Llama 3's",
            RefusalOf([&](Json& json) {
              json["pre_tokenizer"] = {{"type", "Sequence"},
                                       {"pretokenizers", Json::array({split, bytes})}};
            }));
  EXPECT_EQ(
      "added token \"<|endoftext|>\" has lstrip: it takes text beside its own, or leaves it out",
      RefusalOf([](Json& json) { json["added_tokens"][0]["lstrip"] = true; }));
  fs::remove(folder_ / "tokenizer.json");
  Write("tokenizer.model", "x");
  EXPECT_EQ(
      ": tokenizer.model is SentencePiece's, with byte fallback; weft reads byte-level BPE only",
      Refusal());
}

TEST_F(TokenizerFiles, RefusesVocabulariesThatAreNone) {
  EXPECT_EQ("300 tokens have numbers up to 300, but none has 299", RefusalOf([](Json& json) {
              for (Json& number : json["model"]["vocab"]) {
                if (number == 299) number = 300;
              }
            }));
  EXPECT_EQ("\"B\" and another token have number 34", RefusalOf([](Json& json) {
              json["model"]["vocab"]["A"] = json["model"]["vocab"]["B"];
            }));
  EXPECT_EQ("no token is byte 0x41 (\"A\"), so some text has no tokens", RefusalOf([](Json& json) {
              Json& tokens = json["model"]["vocab"];
              tokens["AAAA"] = tokens["A"];
              tokens.erase("A");
            }));
  for (const Json& number : {Json(-1), Json(1.5), Json("7"), Json(nullptr), Json(4294967295u),
                             Json(1e300), Json::array({1})}) {
    EXPECT_EQ("token \"A\" is " + number.dump() + " and not the number of a token",
              RefusalOf([&](Json& json) { json["model"]["vocab"]["A"] = number; }));
  }
  EXPECT_EQ("a token has number 4000000000; vocabularies have at most 4194304",
            RefusalOf([](Json& json) { json["model"]["vocab"]["A"] = 4000000000u; }));
  EXPECT_EQ("merge 1, of \"q\" and \"q\", needs token \"qq\", which the vocabulary has not got",
            RefusalOf([](Json& json) {
              json["model"]["merges"] = Json::array({Json::array({"q", "q"})});
            }));
  EXPECT_EQ("merge 1 is not two tokens", RefusalOf([](Json& json) {
              json["model"]["merges"] = Json::array({Json::array({"q"})});
            }));
  EXPECT_EQ("merge 1, \"qq\", is not two tokens with a space between them",
            RefusalOf([](Json& json) { json["model"]["merges"] = Json::array({"qq"}); }));
  const std::string twice =
      RefusalOf([](Json& json) { json["model"]["merges"].push_back(json["model"]["merges"][0]); });
  EXPECT_TRUE(twice.ends_with("is there twice")) << twice;
  EXPECT_EQ("\"vocab\" is missing", RefusalOf([](Json& json) { json["model"].erase("vocab"); }));
  EXPECT_EQ("\"model\" is missing", RefusalOf([](Json& json) { json.erase("model"); }));
  EXPECT_EQ("\"merges\" is no list", RefusalOf([](Json& json) { json["model"]["merges"] = 1; }));
  EXPECT_EQ("\"added_tokens\" is no list", RefusalOf([](Json& json) {
              json["added_tokens"] = {{"a", 1}};
            }));
  EXPECT_EQ("\"content\" is missing",
            RefusalOf([](Json& json) { json["added_tokens"] = Json::array({1}); }));
  EXPECT_EQ("added token \"x y\" has number 5, which another token has", RefusalOf([](Json& json) {
              json["added_tokens"].push_back({{"id", 5}, {"content", "x y"}, {"special", true}});
            }));
}

TEST_F(TokenizerFiles, RefusesHostileJson) {
  const auto refusal = [&](const std::string& text) {
    Write("tokenizer.json", text);
    return Refusal("tokenizer.json");
  };
  EXPECT_TRUE(refusal("").starts_with("tokenizer.json: this is no JSON: ")) << refusal("");
  EXPECT_TRUE(refusal("{\"a\": 1e999}").starts_with("tokenizer.json: this is no JSON: "))
      << refusal("{\"a\": 1e999}");
  EXPECT_TRUE(refusal("{\"\xff\": 1}").starts_with("tokenizer.json: this is no JSON: "));
  EXPECT_EQ(refusal("[]"), "tokenizer.json: this is no object");
  EXPECT_EQ(refusal(std::string(1 << 20, '[')),
            "tokenizer.json: lists in lists, more than 32 deep, are no vocabulary");
  EXPECT_EQ(refusal("{\"model\": {\"vocab\": {\"a\": 1, \"a\": 2}}}"),
            "tokenizer.json: the object that ends with \"a\" has a key twice");
  std::string zeros = "[0";
  while (zeros.size() < 2 * (kJsonValuesMax + 10))
    zeros += ",0";
  EXPECT_EQ(refusal(zeros + "]"), "tokenizer.json: more than 4194304 values are no vocabulary");
  fs::resize_file(folder_ / "tokenizer.json", (size_t{128} << 20) + 1);
  EXPECT_EQ(Refusal("tokenizer.json"),
            "tokenizer.json: more than 134217728 bytes are no vocabulary");
  // Any cut of a whole file.
  WriteTokenizerJson(Trained(SplitPattern::kLlama3), folder_ / "tokenizer.json");
  const std::string whole = Read("tokenizer.json");
  for (size_t size = 0; size < whole.size(); size += 1 + whole.size() / 50)
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
}

TEST_F(TokenizerFiles, RefusesWhatIsNotThere) {
  EXPECT_EQ(Refusal(),
            ": there is no tokenizer.json, no vocab.json with merges.txt, and no tokenizer.bin");
  EXPECT_EQ(Refusal("none.json"), "none.json: there is no such file");
  EXPECT_EQ(Refusal("none"), "none: there is no such file or folder");
  ASSERT_EQ(mkfifo((folder_ / "fifo.json").c_str(), 0600), 0);
  EXPECT_EQ(Refusal("fifo.json"), "fifo.json: this is no file of a vocabulary");
  WriteVocabFiles(Trained(SplitPattern::kGpt2), folder_);
  Write("merges.txt", "#version: 0.2\ni t x\n");
  EXPECT_EQ(Refusal(),
            "merges.txt: merge 1, \"i t x\", is not two tokens with a space between them");
  fs::remove(folder_ / "merges.txt");
  EXPECT_EQ(Refusal(), "merges.txt: there is no such file");
  EXPECT_THROW(WriteVocabFiles(Trained(SplitPattern::kGpt2), folder_ / "none"), NotWritten);
}

TEST_F(TokenizerFiles, RefusesBrokenTokenizerBin) {
  const BpeModel model = Trained(SplitPattern::kGpt2);
  const std::string good = BinOf(model, 2);
  const auto refusal = [&](std::string text, size_t word = 256, uint32_t value = 0) {
    for (int i = 0; word < 256 && i < 4; i++)
      text[4 * word + size_t(i)] = char(value >> 8 * i);
    Write("tokenizer.bin", text);
    const std::string sentence = Refusal("tokenizer.bin"), file = "tokenizer.bin: ";
    return sentence.starts_with(file) ? sentence.substr(file.size()) : sentence;
  };
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(refusal("x"), "1 bytes are less than the header has");
  EXPECT_EQ(refusal(good, 0, 7),
            "it begins with 7 and not with 20240328, so it is no tokenizer.bin");
  EXPECT_EQ(refusal(good, 1, 3), "version 3 is neither 1 nor 2");
  EXPECT_EQ(refusal(good, 1, 1),
            "version 1 with 300 tokens does not say which one ends a text; write version 2");
  EXPECT_TRUE(refusal(good, 2, 0xffffffff).starts_with("it says 4294967295 tokens, and "));
  EXPECT_EQ(refusal(good, 3, 300), "token 300 of 300 ends a text");
  EXPECT_EQ(refusal(good + "x"), "1 bytes follow the last token");
  EXPECT_EQ(refusal(good.substr(0, good.size() - 1)), "it ends in token 299 of 300");
  std::string empty = good;
  empty[1024] = 0;
  EXPECT_EQ(refusal(empty), "token 0 has no text");
  BpeModel loose = model;
  loose.tokens.back().bytes = "~~~";
  EXPECT_EQ(refusal(BinOf(loose, 2)),
            "token 299 (\"~~~\") is not made of two tokens before it but of 3, so the merges "
            "cannot be found again; "
            "read the vocabulary's tokenizer.json");
  for (size_t size = 0; size < good.size(); size += 97)
    EXPECT_NE(refusal(good.substr(0, size)), "") << size;
}

// One to three bytes are other ones, or lost, or there twice.
std::string Changed(std::mt19937_64& random, std::string file) {
  for (size_t changes = 1 + random() % 3; changes > 0; changes--) {
    const size_t at = random() % file.size();
    const char other = random() % 2 == 0 ? file[random() % file.size()] : char(random());
    switch (random() % 3) {
      case 0:
        file[at] = other;
        break;
      case 1:
        file.erase(at, 1);
        break;
      default:
        file.insert(at, 1, other);
    }
  }
  return file;
}

TEST_F(TokenizerFiles, ChangedFilesAreRefusedOrGiveTextBack) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  const BpeModel model = Trained(SplitPattern::kLlama3);
  WriteTokenizerJson(model, folder_ / "tokenizer.json");
  WriteVocabFiles(model, folder_);
  Write("tokenizer.bin", BinOf(model, 2));
  size_t read = 0, refused = 0;
  for (const std::string name : {"tokenizer.json", "vocab.json", "merges.txt", "tokenizer.bin"}) {
    const std::string good = Read(name);
    for (int round = 0; round < 100; round++) {
      Write(name, Changed(random, good));
      std::vector<Token> tokens;
      std::string text;
      try {
        const auto tokenizer = ReadTokenizer(folder_ / name);
        tokenizer->Encode(kText, &tokens, SpecialText::kAsTokens);
        tokenizer->Decode(tokens, &text);
        ASSERT_EQ(text, kText) << name;
        read++;
      } catch (const BadInput&) {
        refused++;
      }
    }
    Write(name, good);
  }
  EXPECT_GT(read, 0u);
  EXPECT_GT(refused, 0u);
}

TEST_F(TokenizerFiles, ASpecialTokenThatIsNoUtf8CannotBeWritten) {
  BpeModel model = BytesAlone();
  model.tokens.push_back({"\xff\xfe", false});
  model.added.push_back({256, "\xff\xfe", true, false});
  EXPECT_THROW(WriteTokenizerJson(model, folder_ / "tokenizer.json"), BadInput);
}

}  // namespace
}  // namespace weft::trainer::tokenizer_files_test
