#include "trainer/corpus.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

// A directory of its own, gone afterwards.
class CorpusTest : public testing::Test {
 protected:
  CorpusTest() {
    std::string pattern = (fs::temp_directory_path() / "weft_corpus_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
  }

  ~CorpusTest() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << text;
  }

  Corpus Load(const std::string& name = "") { return LoadCorpus({(root_ / name).string()}, "/"); }

  fs::path root_;
};

std::string Licence(int year) {
  return "// Copyright (C) " + std::to_string(year) +
         " The Example Authors. All rights are reserved, and here follow many more words\n"
         "// that stand at the top of every file and teach a model nothing but themselves.\n";
}

TEST_F(CorpusTest, SplitsByFileAndIsTheSameEveryTime) {
  for (int i = 0; i < 60; i++) {
    Write("d/f" + std::to_string(i) + ".h", "<file " + std::to_string(i) + ">\n");
  }
  const Corpus corpus = Load();
  const Corpus again = Load();
  EXPECT_EQ(corpus.train, again.train);
  EXPECT_EQ(corpus.validation, again.validation);
  EXPECT_EQ(corpus.train_files + corpus.validation_files, 60u);
  EXPECT_GE(corpus.validation_files, 1u);
  EXPECT_LE(corpus.validation_files, 18u);
  for (int i = 0; i < 60; i++) {
    const std::string text = "<file " + std::to_string(i) + ">";
    EXPECT_NE(corpus.train.find(text) == std::string::npos,
              corpus.validation.find(text) == std::string::npos)
        << text;
  }
}

TEST_F(CorpusTest, AFileKeepsItsSideWhenOthersComeAndGo) {
  for (int i = 0; i < 40; i++)
    Write(std::to_string(i), "<" + std::to_string(i) + ">");
  const Corpus before = Load();
  for (int i = 40; i < 80; i++)
    Write(std::to_string(i), "<" + std::to_string(i) + ">");
  const Corpus after = Load();
  for (int i = 0; i < 40; i++) {
    const std::string text = "<" + std::to_string(i) + ">";
    EXPECT_EQ(before.train.find(text) == std::string::npos,
              after.train.find(text) == std::string::npos);
  }
}

TEST_F(CorpusTest, RemovesCommentBlocksThatSeveralFilesShareWhateverTheirYear) {
  for (int i = 0; i < 5; i++) {
    Write("f" + std::to_string(i), "// file " + std::to_string(i) + "\n\n" + Licence(2001 + i) +
                                       "int code_" + std::to_string(i) + ";\n");
  }
  Write("other",
        "/* A long comment of one file only, which is text like any other text and of "
        "course stays where it is. */\nint other;\n");
  const Corpus corpus = Load();
  const std::string all = corpus.train + corpus.validation;
  EXPECT_EQ(all.find("Copyright"), std::string::npos);
  EXPECT_EQ(corpus.licence_bytes, 5 * Licence(2001).size());
  EXPECT_NE(all.find("// file 3"), std::string::npos);
  EXPECT_NE(all.find("int code_3;"), std::string::npos);
  EXPECT_NE(all.find("of one file only"), std::string::npos);
}

TEST_F(CorpusTest, KeepsCommentsThatFewFilesShareOrThatFollowCode) {
  std::vector<TextFile> files;
  for (int i = 0; i < 3; i++)
    files.push_back({std::to_string(i), Licence(2000) + "int x;\n"});
  for (int i = 3; i < 9; i++) {
    files.push_back({std::to_string(i), "int x;\n/* " + std::string(90, 'a') + " */\n"});
  }
  const auto before = files;
  EXPECT_EQ(RemoveSharedHeaders(files, 4), 0u);
  for (size_t i = 0; i < files.size(); i++)
    EXPECT_EQ(files[i].text, before[i].text);
}

TEST_F(CorpusTest, DropsRepeatedFilesBinariesAndHiddenFolders) {
  for (int i = 0; i < 20; i++)
    Write("a" + std::to_string(i), "text " + std::to_string(i) + "\n");
  Write("b", "text 3\n");
  Write("binary", std::string("\0ELF", 4));
  Write(".git/config", "hidden\n");
  Write("build/x.h", "built\n");
  const Corpus corpus = Load();
  const std::string all = corpus.train + corpus.validation;
  EXPECT_EQ(corpus.duplicate_files, 1u);
  EXPECT_EQ(all.find("text 3\n"), all.rfind("text 3\n"));
  for (const char* gone : {"ELF", "hidden", "built"})
    EXPECT_EQ(all.find(gone), std::string::npos);
}

TEST_F(CorpusTest, OneFileIsSplitAtItsLastTenth) {
  Write("only", std::string(900, 'a') + std::string(100, 'b'));
  const Corpus corpus = Load("only");
  EXPECT_TRUE(corpus.split_inside);
  EXPECT_EQ(corpus.train, std::string(900, 'a'));
  EXPECT_EQ(corpus.validation, std::string(100, 'b'));
}

TEST_F(CorpusTest, FewFilesStillGiveBothSides) {
  Write("a", "first\n");
  Write("b", "second\n");
  const Corpus corpus = Load();
  EXPECT_EQ(corpus.train_files, 1u);
  EXPECT_EQ(corpus.validation_files, 1u);
}

TEST_F(CorpusTest, AutoFindsTheProjectAboveTheProgram) {
  Write("include/weft/weft.h", "#define HERE 1\n");
  Write("docs/tour.md", "a tour of everything\n");
  Write("docs/picture.svg", "<svg/>\n");
  Write("build/release/bin/weft_train", "program");
  const Corpus corpus = LoadCorpus({"auto"}, (root_ / "build/release/bin").string());
  const std::string all = corpus.train + corpus.validation;
  EXPECT_NE(all.find("a tour of everything"), std::string::npos);
  EXPECT_EQ(all.find("<svg/>"), std::string::npos);
}

TEST_F(CorpusTest, MissingAndEmptyDataAreNamed) {
  try {
    Load("absent.txt");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("absent.txt: no such file"), std::string::npos);
  }
  EXPECT_THROW(Load(), BadInput);  // an empty directory
  Write("empty", "");
  EXPECT_THROW(Load("empty"), BadInput);
}

TEST_F(CorpusTest, WhatIsNeitherFileNorDirectoryIsRefusedAtOnce) {
  const std::string fifo = (root_ / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, std::string("/dev/zero")}) {
    try {
      LoadCorpus({path}, "/");
      ADD_FAILURE() << path << " was read";
    } catch (const BadInput& error) {
      EXPECT_EQ(error.what(), "--data " + path +
                                  " is neither a regular file nor a directory; name files or "
                                  "directories of text");
    }
  }
  // Below a directory such things are passed by.
  Write("text", "some text\n");
  EXPECT_EQ(Load().sources[0].file_count, 1u);
}

}  // namespace
}  // namespace weft::trainer
