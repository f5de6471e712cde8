#include "trainer/data/tokenize.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "trainer/data/documents.h"
#include "trainer/data/token_set.h"
#include "trainer/data/token_set_place.h"
#include "trainer/data/token_shards.h"
#include "trainer/data/tokenizer_choice.h"
#include "trainer/failure.h"
#include "trainer/plan.h"
#include "trainer/stop_signals.h"
#include "trainer/tokenizer/tokenizer_json.h"
#include "trainer/tokenizer/vocabulary_file.h"
#include "trainer/work_line.h"

namespace weft::trainer {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDocumentsListed = 20;

// A signal has asked to end.
struct Stopped {
  int code;
};

// A vocabulary's file, under another name until the set is published. Of all sets of a folder one makes it.
class VocabularyFile {
 public:
  VocabularyFile(const BpeModel& model, fs::path path, fs::path begun)
      : path_(std::move(path)), begun_(std::move(begun)) {
    try {
      WriteTokenizerJson(model, begun_);
      std::error_code error;
      if (fs::exists(path_, error)) CheckSame();
    } catch (...) {
      Remove();
      throw;
    }
  }

  ~VocabularyFile() { Remove(); }

  VocabularyFile(const VocabularyFile&) = delete;
  VocabularyFile& operator=(const VocabularyFile&) = delete;

  void Publish() const {
    if (link(begun_.c_str(), path_.c_str()) == 0) return;
    if (errno == EEXIST) return CheckSame();
    // A file system without links.
    if (std::rename(begun_.c_str(), path_.c_str()) != 0)
      ThrowUnwritable(path_.string(), errno, kTokenPlace);
  }

 private:
  void CheckSame() const {
    if (ReadVocabularyFile(path_) == ReadVocabularyFile(begun_)) return;
    throw BadInput(
        fmt::format("{} is another vocabulary than that of these tokens; choose another "
                    "folder for --out",
                    path_.string()));
  }

  void Remove() const {
    std::error_code error;
    fs::remove(begun_, error);
  }

  const fs::path path_, begun_;
};

class Tokenization {
 public:
  explicit Tokenization(const TokenizeConfig& config)
      : config_(config),
        work_(isatty(STDOUT_FILENO) == 1),
        documents_(FindDocuments(config.files, config.validation_part)),
        place_(config.out) {}

  void Run() {
    Print(DescribeDocuments());
    choice_ = ChooseTokenizer(config_.tokenizer, config_.split, documents_,
                              [this](const std::string& what, double share) { Show(what, share); });
    Print(work_.End());
    if (choice_.model)
      vocabulary_.emplace(*choice_.model, place_.TokenizerPath(), place_.BegunTokenizerPath());
    Print(DescribeTokenizer());
    const TokenFormat& format = FormatFor(choice_.tokenizer->vocabulary());
    train_.emplace(place_.Stem("train"), format, config_.shard_tokens);
    validation_.emplace(place_.Stem("val"), format, config_.shard_tokens);
    for (const Document& document : documents_.list)
      Encode(document);
    Publish();
    Print(work_.End());
    Print(DescribeResult());
  }

 private:
  // Throws Stopped if somebody asks to end.
  void Show(const std::string& what, double share) {
    if (const int code = StopCode(PendingRequests()); code != 0) throw Stopped{code};
    Print(work_.Show(what, share));
  }

  static void Print(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return;
    throw NotWritten(fmt::format("writing the output: {}", std::strerror(errno)));
  }

  // The last `held_out` bytes validate, from the first place on where a cut changes no token.
  void Encode(const Document& document) {
    TextSlices slices(document.path, CutsOf(*choice_.tokenizer));
    const uint64_t cut = document.held_out == 0 ? UINT64_MAX : document.bytes - document.held_out;
    TokenShards* side = nullptr;  // of the slice before
    for (;;) {
      const bool validates = slices.position() >= cut;
      const uint64_t left = validates ? kSliceBytes : cut - slices.position();
      const std::string_view slice = slices.Next(size_t(std::min<uint64_t>(kSliceBytes, left)));
      if (slice.empty()) break;
      tokens_.clear();
      TokenShards* const now = validates ? &*validation_ : &*train_;
      if (std::exchange(side, now) != now && choice_.tokenizer->end_of_text())
        tokens_.push_back(*choice_.tokenizer->end_of_text());
      choice_.tokenizer->Encode(slice, &tokens_, SpecialText::kAsText);
      now->Write(tokens_);
      bytes_ += slice.size();
      Show("tokenizing", double(bytes_) / double(documents_.bytes));
    }
  }

  void Publish() {
    if (train_->tokens() == 0)
      throw BadInput(
          "tokenize: no text is left to train on; give more text, or a smaller "
          "--val-part");
    train_->Close();
    validation_->Close();
    train_->Publish();
    validation_->Publish();
    if (vocabulary_) vocabulary_->Publish();
    place_.Sync();
    TokenSet set;
    set.path = place_.path();
    set.tokenizer = choice_.model ? kTokenizerJson : kByteTokenizerName;
    set.vocabulary = choice_.tokenizer->vocabulary();
    set.end_of_text = choice_.tokenizer->end_of_text();
    set.documents = documents_.list.size();
    set.bytes = bytes_;
    set.train = SideOf(*train_);
    set.validation = SideOf(*validation_);
    WriteTokenSet(set);
    place_.Sync();
  }

  static TokenSide SideOf(const TokenShards& shards) {
    TokenSide side{shards.tokens(), {}};
    for (const std::string& path : shards.Paths())
      side.files.push_back(fs::path(path).filename().string());
    return side;
  }

  std::string DescribeDocuments() const {
    const size_t count = documents_.list.size();
    std::string text =
        fmt::format("text   {} document{}, {}{}\n", count, count == 1 ? "" : "s",
                    FormatBytes(documents_.bytes), count == 1 ? "" : ", in this order:");
    for (size_t i = 0; i < std::min(count, kDocumentsListed); i++)
      text += fmt::format("       {}\n", documents_.list[i].path.string());
    if (count > kDocumentsListed)
      text += fmt::format("       and {} more, to {}\n", count - kDocumentsListed,
                          documents_.list.back().path.string());
    for (const std::string& phrase : DescribePassedOver(documents_.passed_over))
      text += fmt::format("       passed over {}\n", phrase);
    if (documents_.empty_files > 0)
      text += fmt::format("       {} empty file{}\n", documents_.empty_files,
                          documents_.empty_files == 1 ? "" : "s");
    return text;
  }

  std::string DescribeTokenizer() const {
    if (!choice_.model) return "vocab  256 tokens, the bytes\n";
    const size_t tokens = choice_.tokenizer->vocabulary();
    if (choice_.trained_bytes == 0)
      return fmt::format("vocab  {} tokens, of {}\n", tokens, config_.tokenizer);
    const bool all = config_.tokenizer == fmt::format("bpe:{}", tokens);
    return fmt::format("vocab  {} tokens, made of {} of the text{}\n", tokens,
                       FormatBytes(choice_.trained_bytes),
                       all ? "" : "; no other pair is there twice");
  }

  std::string DescribeResult() const {
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    const uint64_t all = train_->tokens() + validation_->tokens();
    std::string text =
        fmt::format("tokens {} to train on, {} to validate; {:.2f} bytes per token\n",
                    train_->tokens(), validation_->tokens(), double(bytes_) / double(all));
    for (const TokenShards* const side : {&*train_, &*validation_}) {
      const std::vector<std::string> paths = side->Paths();
      if (paths.empty()) continue;
      text += fmt::format(
          "wrote  {}{}\n", paths.front(),
          paths.size() == 1 ? "" : fmt::format(" to {}, {} files", paths.back(), paths.size()));
    }
    if (choice_.model) text += fmt::format("wrote  {}\n", place_.TokenizerPath().string());
    text += fmt::format("wrote  {}\n", place_.path().string());
    return text + fmt::format("       {:.1f} s, {}/s\n", seconds,
                              FormatBytes(uint64_t(double(bytes_) / seconds)));
  }

  const TokenizeConfig config_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  WorkLine work_;
  const Documents documents_;
  const TokenSetPlace place_;  // goes last: it keeps the name
  TokenizerChoice choice_;
  std::optional<VocabularyFile> vocabulary_;
  std::optional<TokenShards> train_, validation_;
  std::vector<Token> tokens_;  // of a slice
  uint64_t bytes_ = 0;         // encoded so far
};

}  // namespace

int RunTokenize(const TokenizeConfig& config) {
  try {
    Tokenization(config).Run();
  } catch (const Stopped& stopped) {
    Complain("tokenize: asked to end; nothing is written");
    return stopped.code;
  }
  return 0;
}

}  // namespace weft::trainer
