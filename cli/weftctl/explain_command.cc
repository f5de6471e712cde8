// PrintExplanation. JSON is made of the lines that weft_explain gives, so that the two cannot differ.
#include <algorithm>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "base/text.h"
#include "cli/weftctl/commands.h"
#include "cli/weftctl/explained_call.h"
#include "comm/group/collective.h"
#include "comm/node/explain_without_group.h"

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kRejected[] = "not ";

absl::StatusOr<std::string> Explain(const ExplainArguments& arguments) {
  if (arguments.operation.empty() || arguments.bytes.empty()) {
    return MakeError(WEFT_INVALID_ARGUMENT, "OP and BYTES are required, but with --nodes");
  }
  WEFT_ASSIGN_OR_RETURN(const Collective call,
                        ReadExplainedCall(arguments.operation, arguments.bytes, arguments.dtype));
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
