#include "trainer/corpus.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainer/failure.h"

namespace weft::trainer::corpus_test {
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

// Texts that no other file has a stretch of: each byte pair says the file and the place.
std::string TextOf(uint32_t file, size_t bytes) {
  std::string text;
  for (uint32_t word = 0; text.size() < bytes; word++)
    text += "<" + std::to_string(file) + "." + std::to_string(word) + ">";
  return text.substr(0, bytes);
}

TEST_F(CorpusTest, SmallFilesHaveASideAndItIsTheSameEveryTime) {
  for (int i = 0; i < 60; i++) {
    Write("d/f" + std::to_string(i) + ".h", "<file " + std::to_string(i) + ">\n");
  }
  const Corpus corpus = Load();
  const Corpus again = Load();
  EXPECT_EQ(corpus.train, again.train);
  EXPECT_EQ(corpus.validation, again.validation);
  EXPECT_EQ(corpus.train_files + corpus.validation_files, 60u);
  EXPECT_GE(corpus.validation_files, 1u);
  EXPECT_LE(corpus.validation_files, 9u);
  for (int i = 0; i < 60; i++) {
    const std::string text = "<file " + std::to_string(i) + ">";
    EXPECT_NE(corpus.train.find(text) == std::string::npos,
              corpus.validation.find(text) == std::string::npos)
        << text;
  }
}

TEST_F(CorpusTest, TwoToFifteenPercentValidateWhateverTheFilesAre) {
  const char* const given = std::getenv("WEFT_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
  SCOPED_TRACE("WEFT_TEST_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 150; round++) {
    // All sizes alike, or spread over some powers of two.
    const int low = int(random() % 12), powers = int(random() % 7);
    std::vector<TextFile> files;
    const auto count = uint32_t(1 + random() % (round % 3 == 0 ? 4 : 40));
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
      const size_t bytes = 1 + random() % (size_t{16} << (low + int(random() % (powers + 1))));
      // Some have the name of another one, as in two folders.
      files.push_back({"f" + std::to_string(random() % count), TextOf(i, bytes)});
    }
    Corpus corpus, again;
    SplitFiles(files, corpus);
    std::shuffle(files.begin(), files.end(), random);
    SplitFiles(files, again);
    ASSERT_EQ(corpus.train, again.train);
    ASSERT_EQ(corpus.validation, again.validation);
    for (const TextFile& file : files)
      total += file.text.size();
    ASSERT_LE(corpus.train.size() + corpus.validation.size(), total);
    total =
        corpus.train.size() + corpus.validation.size();  // without the short ones that are equal
    if (total < 10) continue;
    ASSERT_GE(corpus.validation.size() * 100, total * 2) << count << " files, round " << round;
    ASSERT_LE(corpus.validation.size() * 100, total * 15) << count << " files, round " << round;
  }
}

TEST_F(CorpusTest, OfALargeFileTheLastTenthValidatesAndNothingElseOfIt) {
  Write("book.txt", TextOf(0, 400000));
  Write("README.md", TextOf(1, 2000));
  for (const char* name : {"book.txt", "train.txt", "a", "input.txt", "corpus.txt", "all.txt"}) {
    if (!fs::exists(root_ / name)) fs::rename(root_ / "book.txt", root_ / name);
    const Corpus corpus = Load();
    EXPECT_EQ(corpus.cut_files, 1u);
    EXPECT_EQ(corpus.train_files + corpus.validation_files, 1u);
    EXPECT_NE(corpus.train.find(TextOf(0, 360000)), std::string::npos);
    EXPECT_NE(corpus.validation.find(TextOf(0, 400000).substr(360000)), std::string::npos);
    if (name != std::string("book.txt")) fs::rename(root_ / name, root_ / "book.txt");
  }
}

TEST_F(CorpusTest, FilesOfOneNameInTwoFoldersAreTwoFiles) {
  for (const size_t bytes : {size_t{20000}, size_t{300}}) {
    for (int i = 0; i < 24; i++) {
      Write("a/" + std::to_string(i), TextOf(2 * uint32_t(i), bytes));
      Write("b/" + std::to_string(i), TextOf(2 * uint32_t(i) + 1, bytes));
    }
    std::vector<std::string> folders = {(root_ / "a").string(), (root_ / "b").string()};
    const Corpus corpus = LoadCorpus(folders, "/");
    std::swap(folders[0], folders[1]);
    const Corpus other = LoadCorpus(folders, "/");
    EXPECT_EQ(corpus.train, other.train);
    EXPECT_EQ(corpus.validation, other.validation);
    EXPECT_EQ(corpus.train_files + corpus.validation_files, 48u);
    EXPECT_EQ(corpus.train.size() + corpus.validation.size(), 48 * bytes);
  }
  // Two files alone, given by name.
  Write("a/input.txt", TextOf(90, 20000));
  Write("b/input.txt", TextOf(91, 40000));
  const Corpus two =
      LoadCorpus({(root_ / "a/input.txt").string(), (root_ / "b/input.txt").string()}, "/");
  EXPECT_EQ(two.cut_files, 2u);
  EXPECT_EQ(two.train.size(), 54000u);
  EXPECT_EQ(two.validation.size(), 6000u);
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
  for (int i = 0; i < 30; i++)  // so that each of these is small beside all
    Write("g" + std::to_string(i), TextOf(uint32_t(i), 300));
  const Corpus corpus = Load();
  EXPECT_EQ(corpus.cut_files, 0u);
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

TEST_F(CorpusTest, CommentsInOtherAlphabetsAreDifferentWhereTheirCharactersAre) {
  const std::vector<std::string> words = {
      "这是第一个文件的说明它解释排序算法如何工作以及为什么选择它",
      "第二个文件描述网络协议的状态机与重试策略完全不同的内容",
      "Третий файл рассказывает о распределителе памяти и его границах",
      "Модуль читает файлы настроек и сообщает о месте каждой ошибки",
      "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33"};
  std::vector<TextFile> files;
  for (size_t i = 0; i < 5; i++) {
    // Tables of numbers have nothing in common but that they have no letters.
    const std::string numbers = words[4].substr(i);
    files.push_back({std::to_string(i), "/* " + (i < 4 ? words[i] : numbers) + " */\nint x;\n"});
    files.push_back({"n" + std::to_string(i), "/* " + numbers + " */\nint x;\n"});
  }
  EXPECT_EQ(RemoveSharedHeaders(files, 4), 0u);
  // What four files have alike is a licence in any language.
  for (TextFile& file : files)
    file.text = "/* " + words[4] + words[2] + " 20" + file.name.back() + "4 */\n" + file.text;
  EXPECT_EQ(RemoveSharedHeaders(files, 4),
            10 * (words[4].size() + words[2].size() + 11) + words[2].size() + 6);  // and file 2's
}

TEST_F(CorpusTest, DropsRepeatedFilesBinariesAndHiddenFolders) {
  for (int i = 0; i < 20; i++)
    Write("a" + std::to_string(i), "text " + std::to_string(i) + "\n");
  Write("b", "text 3\n");
  Write("binary", std::string("\0ELF", 4));
  Write(".git/config", "hidden\n");
  Write("build/x.h", "built\n");
  Write("empty", "");
  Write("blank", " \n\t\n");
  const Corpus corpus = Load();
  const std::string all = corpus.train + corpus.validation;
  EXPECT_EQ(corpus.duplicate_files, 1u);
  EXPECT_EQ(corpus.blank_files, 2u);
  EXPECT_EQ(corpus.sources[0].file_count, 23u);
  EXPECT_EQ(all.find("text 3\n"), all.rfind("text 3\n"));
  for (const char* gone : {"ELF", "hidden", "built"})
    EXPECT_EQ(all.find(gone), std::string::npos);
}

TEST_F(CorpusTest, WhatIsPassedOverIsCounted) {
  Write("text", "some text\n");
  Write("picture.png", std::string("\x89PNG\0", 5));
  Write("a/utf16.txt", std::string("h\0i\0", 4));
  Write("build/x.h", "built\n");
  Write("a/runs/x.h", "built\n");
  Write("elsewhere/x.h", "linked\n");
  Write(".hidden", "hidden\n");
  fs::create_directory_symlink(root_ / "elsewhere", root_ / "more");
  fs::create_directory_symlink(root_, root_ / "a/up");
  fs::create_symlink("loop", root_ / "loop");
  fs::create_symlink("absent", root_ / "dangling");
  fs::create_symlink("text", root_ / "also");  // a linked file is read, and is a repeat
  const Corpus corpus = Load();
  EXPECT_EQ(corpus.sources[0].file_count, 3u);
  EXPECT_EQ(corpus.duplicate_files, 1u);
  EXPECT_EQ(DescribePassedOver(corpus.sources[0].passed_over),
            (std::vector<std::string>{
                "2 files with NUL bytes, which are no text (a/utf16.txt and 1 more)",
                "2 folders named build or runs (a/runs and 1 more)",
                "2 linked folders (a/up and 1 more)", "1 hidden file or folder (.hidden)",
                "2 entries that lead to no file (dangling and 1 more)"}));
  // Such a folder is read when it is named.
  EXPECT_EQ(Load("more").sources[0].file_count, 1u);
  EXPECT_EQ(Load("build").sources[0].file_count, 1u);
}

TEST_F(CorpusTest, AFolderThatMayNotBeReadIsPassedOverBelowAnotherAndRefusedByName) {
  constexpr uid_t kNobody = 65534;
  Write("text", "some text\n");
  Write("secret/text", "other text\n");
  fs::permissions(root_ / "secret", fs::perms::none);
  const bool root = geteuid() == 0;  // who may read everything, unless its calls are another user's
  if (root) {
    ASSERT_EQ(chown(root_.c_str(), kNobody, kNobody), 0);
    setfsuid(kNobody);
  }
  std::vector<std::string> passed_over;
  std::string refused;
  try {
    passed_over = DescribePassedOver(Load().sources[0].passed_over);
    Load("secret");
  } catch (const BadInput& error) {
    refused = error.what();
  }
  if (root) setfsuid(0);
  fs::permissions(root_ / "secret", fs::perms::owner_all);
  EXPECT_EQ(passed_over, (std::vector<std::string>{"1 folder that may not be read (secret)"}));
  EXPECT_EQ(refused, "--data: cannot list " + (root_ / "secret").string() + ": Permission denied");
}

TEST_F(CorpusTest, OneFileIsSplitAtItsLastTenth) {
  Write("only", std::string(900, 'a') + std::string(100, 'b'));
  const Corpus corpus = Load("only");
  EXPECT_EQ(corpus.cut_files, 1u);
  EXPECT_EQ(corpus.train, std::string(900, 'a'));
  EXPECT_EQ(corpus.validation, std::string(100, 'b'));
}

TEST_F(CorpusTest, FewFilesStillGiveBothSides) {
  Write("a", "first\n");
  Write("b", "second\n");
  const Corpus corpus = Load();
  EXPECT_EQ(corpus.train.size(), 12u);
  EXPECT_EQ(corpus.validation.size(), 1u);
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
    EXPECT_NE(std::string(error.what()).find("absent.txt: No such file"), std::string::npos);
  }
  EXPECT_THROW(Load(), BadInput);  // an empty directory
  Write("empty", "");
  Write("utf16", std::string("h\0i\0", 4));
  EXPECT_THROW(Load("empty"), BadInput);
  try {
    Load();
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_EQ(std::string(error.what()),
              "--data " + root_.string() +
                  "/: found no text to learn from but 1 file with NUL bytes, which is no text "
                  "(utf16), 1 blank file; name a file or directory of text");
  }
  fs::create_symlink("loop", root_ / "loop");
  try {
    Load("loop");
    FAIL();
  } catch (const BadInput& error) {
    EXPECT_NE(std::string(error.what()).find("loop: Too many levels of symbolic links"),
              std::string::npos);
  }
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
}  // namespace weft::trainer::corpus_test
