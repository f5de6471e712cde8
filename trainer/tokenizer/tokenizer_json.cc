#include "trainer/tokenizer/tokenizer_json.h"

#include <optional>
#include <string>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "trainer/failure.h"
#include "trainer/tokenizer/vocabulary_file.h"
#include "trainer/tokenizer/vocabulary_text.h"

namespace weft::trainer {
namespace {

using Json = nlohmann::json;

// Reads one file; every sentence begins with it.
class TokenizerJson {
 public:
  explicit TokenizerJson(const std::filesystem::path& file)
      : file_(file), root_(ReadVocabularyJson(file)), vocabulary_(file) {}

  BpeModel Read() {
    if (!root_.is_object()) Refuse("this is no object");
    CheckModel(Member(root_, "model"));
    if (const Json* normalizer = Given(root_, "normalizer"))
      Refuse(
          fmt::format("normalizer {} changes text, which would not be the same again; weft reads "
                      "vocabularies without one",
                      TypeOf(*normalizer)));
    if (const Json* decoder = Given(root_, "decoder"); decoder && TypeOf(*decoder) != "ByteLevel")
      Refuse(fmt::format("decoder {} is not ByteLevel, the one that byte-level BPE has",
                         TypeOf(*decoder)));
    const SplitPattern split = PatternOfPreTokenizer();
    const Json& model = Member(root_, "model");
    vocabulary_.AddTokens(Member(model, "vocab"));
    AddMerges(Member(model, "merges"));
    AddAddedTokens();
    BpeModel read = vocabulary_.Finish();
    read.split = split;
    read.whole_pieces_first = Flag(model, "ignore_merges", false);
    return read;
  }

 private:
  [[noreturn]] void Refuse(const std::string& sentence) const {
    throw BadInput(fmt::format("{}: {}", file_.string(), sentence));
  }

  // Null if it is not there, or null.
  const Json* Given(const Json& object, const char* key) const {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }

  const Json& Member(const Json& object, const char* key) const {
    const Json* found = object.is_object() ? Given(object, key) : nullptr;
    if (found == nullptr) Refuse(fmt::format("\"{}\" is missing", key));
    return *found;
  }

  bool Flag(const Json& object, const char* key, bool otherwise) const {
    const Json* found = Given(object, key);
    if (found == nullptr) return otherwise;
    if (!found->is_boolean()) Refuse(fmt::format("\"{}\" is neither true nor false", key));
    return found->get<bool>();
  }

  std::string Text(const Json& object, const char* key) const {
    const Json& found = Member(object, key);
    if (!found.is_string()) Refuse(fmt::format("\"{}\" is no text", key));
    return found.get<std::string>();
  }

  std::string TypeOf(const Json& part) const { return Text(part, "type"); }

  void CheckModel(const Json& model) const {
    // Files of old versions of the package do not say BPE.
    if (const std::string type = Given(model, "type") ? TypeOf(model) : "BPE"; type != "BPE")
      Refuse(fmt::format("the model is {}; weft reads byte-level BPE only", type));
    if (Flag(model, "byte_fallback", false))
      Refuse(
          "byte_fallback: this is SentencePiece's BPE, whose tokens are characters; weft reads "
          "byte-level BPE only");
    if (const Json* dropout = Given(model, "dropout"); dropout && *dropout != 0)
      Refuse(
          fmt::format("dropout {} leaves merges out at random; set it to null", dropout->dump()));
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (const Json* text = Given(model, affix); text && *text != "")
        Refuse(fmt::format("{} is {}; byte-level BPE has none", affix, text->dump()));
    }
  }

  SplitPattern PatternOfPreTokenizer() const {
    const Json& pre = Member(root_, "pre_tokenizer");
    if (TypeOf(pre) == "ByteLevel") {
      CheckByteLevel(pre, true);
      return SplitPattern::kGpt2;
    }
    if (TypeOf(pre) != "Sequence")
      Refuse(
          fmt::format("pre_tokenizer {} is neither ByteLevel nor a Sequence of Split and ByteLevel",
                      TypeOf(pre)));
    const Json& steps = Member(pre, "pretokenizers");
    if (!steps.is_array() || steps.size() != 2 || TypeOf(steps[0]) != "Split" ||
        TypeOf(steps[1]) != "ByteLevel")
      Refuse("pre_tokenizer is not a Sequence of one Split and one ByteLevel");
    CheckByteLevel(steps[1], false);
    return PatternOfSplit(steps[0]);
  }

  void CheckByteLevel(const Json& step, bool use_regex) const {
    if (Flag(step, "add_prefix_space", true))
      Refuse(
          "pre_tokenizer ByteLevel has add_prefix_space, which adds a space to the text; weft "
          "gives back the bytes that it was given");
    if (Flag(step, "use_regex", true) != use_regex)
      Refuse(fmt::format("pre_tokenizer ByteLevel has use_regex {}, {}", !use_regex,
                         use_regex ? "so nothing cuts the text into pieces"
                                   : "which cuts the pieces of Split again"));
  }

  SplitPattern PatternOfSplit(const Json& split) const {
    if (Text(split, "behavior") != "Isolated" || Flag(split, "invert", false))
      Refuse(fmt::format("Split with behavior {} and invert {}: weft knows Isolated and false",
                         Text(split, "behavior"), Flag(split, "invert", false)));
    const std::string regex = Text(Member(split, "pattern"), "Regex");
    const std::optional<SplitPattern> pattern = PatternOf(regex);
    if (!pattern)
      Refuse(
          fmt::format("Split has the pattern {}, which is neither GPT-2's nor Llama 3's", regex));
    return *pattern;
  }

  // ["Ġ t", ...], or [["Ġ", "t"], ...]
  void AddMerges(const Json& merges) {
    if (!merges.is_array()) Refuse("\"merges\" is no list");
    for (const Json& merge : merges) {
      if (merge.is_string()) {
        vocabulary_.AddMergeLine(merge.get_ref<const std::string&>());
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        vocabulary_.AddMerge(merge[0].get_ref<const std::string&>(),
                             merge[1].get_ref<const std::string&>());
      } else {
        Refuse(fmt::format("merge {} is not two tokens", &merge - &merges[0] + 1));
      }
    }
  }

  void AddAddedTokens() {
    const Json* tokens = Given(root_, "added_tokens");
    if (tokens == nullptr) return;
    if (!tokens->is_array()) Refuse("\"added_tokens\" is no list");
    for (const Json& token : *tokens) {
      const std::string text = Text(token, "content");
      for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
        if (Flag(token, flag, false))
          Refuse(fmt::format(
              "added token \"{}\" has {}: it takes text beside its own, or leaves it out", text,
              flag));
      }
      const bool special = Flag(token, "special", false);
      vocabulary_.AddAdded(
          {TokenOf(Member(token, "id"), file_, fmt::format("added token \"{}\"", text)), text,
           special, Flag(token, "normalized", !special)});
    }
  }

  const std::filesystem::path& file_;
  const Json root_;
  VocabularyText vocabulary_;
};

}  // namespace

BpeModel ReadTokenizerJson(const std::filesystem::path& file) {
  return TokenizerJson(file).Read();
}

}  // namespace weft::trainer
