// PrintExplanation. JSON is made of the lines that weft_explain gives, so that the two cannot differ.
#include <algorithm>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/quantity.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "comm/group/collective.h"
#include "comm/kernels/dtype.h"
#include "comm/kernels/reduce.h"
#include "comm/node/explain_without_group.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kRejected[] = "not ";

absl::Status ReadOperation(const std::string& name, OpKind* kind) {
  for (int i = 0; i < kOpKindCount; ++i) {
    *kind = static_cast<OpKind>(i);
    if (name != OpKindName(*kind)) continue;
    if (*kind < OpKind::kAllGatherV) return absl::OkStatus();
    return MakeError(
        WEFT_INVALID_ARGUMENT,
        StrCat(name, " has a count per rank or buffer, which a command line cannot say; ask ",
               "weft_explain"));
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("there is no operation \"", name, "\"; all_reduce is one"));
}

absl::Status ReadDtype(const std::string& name, weft_dtype_t* dtype) {
  for (const weft_dtype_t one : kDtypes) {
    *dtype = one;
    if (name == DtypeName(one)) return absl::OkStatus();
  }
  return MakeError(WEFT_INVALID_ARGUMENT,
                   StrCat("there is no type \"", name, "\"; float32 is one"));
}

// A rank's buffers, and those of all ranks together, must fit in memory.
absl::Status ReadCount(const ExplainArguments& arguments, Collective* call) {
  int64_t bytes = 0;
  if (!ParseBytes(arguments.bytes, &bytes) || bytes < 0 || bytes > INT64_MAX / (1 << 16)) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat("\"", arguments.bytes, "\" is no number of bytes like 4096 or 64K"));
  }
  const auto size = static_cast<int64_t>(DtypeSize(call->dtype));
  if (bytes % size != 0) {
    return MakeError(WEFT_INVALID_ARGUMENT,
                     StrCat(bytes, " bytes are not a whole number of ", arguments.dtype));
  }
  call->count = static_cast<size_t>(bytes / size);
  return absl::OkStatus();
}

absl::StatusOr<std::string> Explain(const ExplainArguments& arguments) {
  Collective call{.op = WEFT_SUM};
  WEFT_RETURN_IF_ERROR(ReadOperation(arguments.operation, &call.kind));
  WEFT_RETURN_IF_ERROR(ReadDtype(arguments.dtype, &call.dtype));
  WEFT_RETURN_IF_ERROR(ReadCount(arguments, &call));
  if (TraitsOf(call.kind).reduces) {
    WEFT_RETURN_IF_ERROR(CheckReduction(call.dtype, call.op, nullptr));
  }
  return ExplainWithoutGroup(
      call, arguments.symmetric ? BufferKind::kSymmetric : BufferKind::kPrivate, arguments.ranks);
}

// {"version", each line's name: its value, "rejected": {algorithm: why}}. Spaces in names become
// underscores.
std::string ExplanationAsJson(const std::string& text) {
  Json json;
  json["version"] = 1;
  Json rejected = Json::object();
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    std::string value = line.substr(colon + 2);
    if (name.rfind(kRejected, 0) == 0) {
      rejected[name.substr(sizeof(kRejected) - 1)] = std::move(value);
      continue;
    }
    std::replace(name.begin(), name.end(), ' ', '_');
    json[name] = std::move(value);
  }
  json["rejected"] = std::move(rejected);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

CommandOutput PrintExplanation(const ExplainArguments& arguments, bool json) {
  const absl::StatusOr<std::string> text = Explain(arguments);
  if (!text.ok()) return {"", {std::string(text.status().message())}};
  return {json ? ExplanationAsJson(*text) : *text, {}};
}

}  // namespace weft
