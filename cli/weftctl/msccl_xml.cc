#include "cli/weftctl/msccl_xml.h"

#include <charconv>
#include <climits>
#include <memory>

#include <expat.h>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

constexpr uint64_t kMscclNumberMax = 1 << 20;
constexpr size_t kMscclGpusMax = 4096;
constexpr size_t kMscclStepsMax = 1 << 22;

// What the callbacks of expat fill. The first thing that is wrong is kept, and ends the parse.
class MscclReader {
 public:
  explicit MscclReader(XML_Parser parser) : parser_(parser) {}

  absl::Status status() const { return status_; }

  MscclAlgorithm& algorithm() { return algorithm_; }

  void Fail(std::string_view what) {
    if (status_.ok())
      status_ = MakeError(WEFT_CORRUPT, StrCat("line ", XML_GetCurrentLineNumber(parser_),
                                               " of the algorithm has ", what));
    XML_StopParser(parser_, XML_FALSE);
  }

  void Start(std::string_view element, const char** attributes) {
    attributes_ = attributes;
    if (++depth_ == 1)
      return element == "algo" ? StartAlgorithm() : Fail(StrCat("no algo, but ", element));
    if (depth_ == 2 && element == "gpu") return StartGpu();
    if (depth_ == 3 && element == "tb") return StartBlock();
    if (depth_ == 4 && element == "step") return StartStep();
    Fail(StrCat("an element ", element, " where none is expected"));
  }

  void End() { --depth_; }

 private:
  // nullptr if there is no such attribute.
  const char* Attribute(std::string_view name) {
    for (const char** at = attributes_; at[0] != nullptr; at += 2) {
      if (name == at[0]) return at[1];
    }
    return nullptr;
  }

  std::string Text(const char* name) {
    const char* const value = Attribute(name);
    if (value == nullptr) Fail(StrCat("no attribute ", name));
    return value == nullptr ? "" : value;
  }

  // -1 only where `least` allows it.
  int64_t Number(const char* name, int64_t least) {
    const std::string text = Text(name);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error == std::errc() && end == text.data() + text.size() && value >= least &&
        value <= int64_t{kMscclNumberMax})
      return value;
    Fail(StrCat("no number in ", name, "=\"", text, "\""));
    return least;
  }

  uint64_t Count(const char* name) { return static_cast<uint64_t>(Number(name, 0)); }

  char Buffer(const char* name) {
    const std::string text = Text(name);
    if (text == "i" || text == "o" || text == "s") return text[0];
    Fail(StrCat("no buffer ", name, "=\"", text, "\""));
    return 'i';
  }

  void StartAlgorithm() {
    algorithm_.name = Text("name");
    algorithm_.collective = Text("coll");
    algorithm_.in_place = Number("inplace", 0) != 0;
    algorithm_.chunks = Count("nchunksperloop");
    algorithm_.gpus.reserve(kMscclGpusMax);
    gpus_ = Count("ngpus");
  }

  void StartGpu() {
    if (Count("id") != algorithm_.gpus.size() || algorithm_.gpus.size() == gpus_ ||
        gpus_ > kMscclGpusMax) {
      return Fail("a gpu that is not the next one, or too many of them");
    }
    algorithm_.gpus.push_back({.scratch_chunks = Count("s_chunks")});
  }

  void StartBlock() {
    MscclBlock block;
    block.id = static_cast<int>(Number("id", 0));
    block.send_to = static_cast<int>(Number("send", -1));
    block.recv_from = static_cast<int>(Number("recv", -1));
    block.channel = static_cast<int>(Number("chan", -1));
    algorithm_.gpus.back().blocks.push_back(std::move(block));
  }

  void StartStep() {
    if (++steps_ > kMscclStepsMax) return Fail("too many steps");
    MscclStep step;
    step.number = static_cast<int>(Number("s", 0));
    step.type = Text("type");
    step.after_block = static_cast<int>(Number("depid", -1));
    step.after_step = static_cast<int>(Number("deps", -1));
    if (step.type != "nop") {
      step.from_buffer = Buffer("srcbuf");
      step.from = Count("srcoff");
      step.to_buffer = Buffer("dstbuf");
      step.to = Count("dstoff");
      step.count = Count("cnt");
    }
    algorithm_.gpus.back().blocks.back().steps.push_back(std::move(step));
  }

  const XML_Parser parser_;
  const char** attributes_ = nullptr;
  absl::Status status_;
  MscclAlgorithm algorithm_;
  uint64_t gpus_ = 0;
  size_t steps_ = 0;
  int depth_ = 0;
};

void OnStart(void* reader, const XML_Char* name, const XML_Char** attributes) {
  static_cast<MscclReader*>(reader)->Start(name, attributes);
}

void OnEnd(void* reader, const XML_Char*) {
  static_cast<MscclReader*>(reader)->End();
}

// Entities can grow without bound, and no algorithm has any.
void OnDoctype(void* reader, const XML_Char*, const XML_Char*, const XML_Char*, int) {
  static_cast<MscclReader*>(reader)->Fail("a document type");
}

struct FreeParser {
  void operator()(XML_ParserStruct* parser) const { XML_ParserFree(parser); }
};

}  // namespace

absl::StatusOr<MscclAlgorithm> ReadMscclXml(std::string_view text) {
  const std::unique_ptr<XML_ParserStruct, FreeParser> parser(XML_ParserCreate(nullptr));
  if (parser == nullptr) return MakeError(WEFT_OUT_OF_MEMORY, "no memory for an XML parser");
  if (text.size() > INT_MAX) return MakeError(WEFT_CORRUPT, "the algorithm is too long");
  MscclReader reader(parser.get());
  XML_SetUserData(parser.get(), &reader);
  XML_SetElementHandler(parser.get(), OnStart, OnEnd);
  XML_SetStartDoctypeDeclHandler(parser.get(), OnDoctype);
  const XML_Status parsed =
      XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), /*isFinal=*/XML_TRUE);
  WEFT_RETURN_IF_ERROR(reader.status());
  if (parsed != XML_STATUS_OK) {
    return MakeError(WEFT_CORRUPT,
                     StrCat("line ", XML_GetCurrentLineNumber(parser.get()), " of the algorithm: ",
                            XML_ErrorString(XML_GetErrorCode(parser.get()))));
  }
  return std::move(reader.algorithm());
}

}  // namespace weft
