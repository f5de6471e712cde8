#include "cli/weftctl/explain_json.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kRejected[] = "not ";

}  // namespace

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

}  // namespace weft
