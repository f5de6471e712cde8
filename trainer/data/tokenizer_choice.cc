#include "trainer/data/tokenizer_choice.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/core.h>

#include "trainer/data/token_set.h"
#include "trainer/failure.h"
#include "trainer/tokenizer/bpe_tokenizer.h"
#include "trainer/tokenizer/bpe_trainer.h"
#include "trainer/tokenizer/byte_tokenizer.h"
#include "trainer/tokenizer/read_tokenizer.h"

namespace weft::trainer {
namespace {

constexpr std::string_view kTrained = "bpe:";
constexpr const char* kDocumentMark = "<|endoftext|>";
constexpr size_t kTrainedLeast = 257;  // the bytes and the mark
constexpr size_t kTrainedMost = 1'000'000;

size_t TokensWanted(const std::string& name) {
  const std::string_view number = std::string_view(name).substr(kTrained.size());
  size_t wanted = 0;
  const char* const end = number.data() + number.size();
  const auto [rest, error] = std::from_chars(number.data(), end, wanted);
  if (error != std::errc() || rest != end || wanted < kTrainedLeast || wanted > kTrainedMost)
    throw BadInput(fmt::format("--tokenizer {}: {} is no number of tokens from {} to {}", name,
                               number, kTrainedLeast, kTrainedMost));
  return wanted;
}

BpeModel TrainOn(const Documents& documents, size_t wanted, SplitPattern split,
                 const WorkShare& progress, uint64_t* trained_bytes) {
  BpeTrainer trainer(split);
  const uint64_t every = documents.bytes / kBpeTextBytesMax + 1;
  uint64_t slices_seen = 0, bytes_seen = 0;
  for (const Document& document : documents.list) {
    const uint64_t trains = document.bytes - document.held_out;
    TextSlices slices(document.path, {NextPieceBorder, kBorderLookahead});
    while (slices.position() < trains) {
      const size_t next = size_t(std::min<uint64_t>(kSliceBytes, trains - slices.position()));
      const std::string_view slice = slices.Next(next);
      if (slice.empty()) break;  // the file has become shorter
      if (slices_seen++ % every == 0) {
        trainer.Add(slice);
        *trained_bytes += slice.size();
      }
      bytes_seen += slice.size();
      progress("counting the text's words", double(bytes_seen) / double(documents.bytes));
    }
  }
  BpeTraining training;
  training.vocabulary = wanted;
  training.special = {kDocumentMark};
  training.progress = [&](size_t done, size_t of) {
    progress("making tokens of frequent pairs", double(done) / double(of));
  };
  return trainer.Train(training);
}

}  // namespace

TokenizerChoice ChooseTokenizer(const std::string& name, SplitPattern split,
                                const Documents& documents, const WorkShare& progress) {
  TokenizerChoice choice;
  if (name == kByteTokenizerName) {
    choice.tokenizer = std::make_unique<ByteTokenizer>();
    return choice;
  }
  if (name.starts_with(kTrained)) {
    choice.model = TrainOn(documents, TokensWanted(name), split, progress, &choice.trained_bytes);
  } else {
    choice.model = ReadBpeModel(name, split);
  }
  choice.tokenizer = std::make_unique<BpeTokenizer>(*choice.model, name);
  return choice;
}

TextCuts CutsOf(const Tokenizer& tokenizer) {
  return {
      [&tokenizer](std::string_view text, size_t from) { return tokenizer.NextCut(text, from); },
      tokenizer.cut_lookahead()};
}

}  // namespace weft::trainer
