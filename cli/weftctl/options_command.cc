// PrintOptions.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/options.h"
#include "cli/weftctl/commands.h"

namespace weft {
namespace {

std::string AsText() {
  size_t name_width = 0;
  size_t type_width = 0;
  size_t default_width = 0;
  for (size_t i = 0; i < OptionCount(); ++i) {
    const OptionRow& row = OptionAt(i);
    name_width = std::max(name_width, std::string_view(row.environment).size());
    type_width = std::max(type_width, std::string_view(row.type).size());
    default_width = std::max(default_width, std::string_view(row.default_value).size());
  }
  std::string text;
  for (size_t i = 0; i < OptionCount(); ++i) {
    const OptionRow& row = OptionAt(i);
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {}\n", row.environment, name_width, row.type,
                        type_width, row.default_value, default_width, row.meaning);
  }
  return text;
}

std::string AsMarkdown() {
  std::string text =
      "# Options\n\n"
      "Made by `weftctl options --markdown` from the table in base/options.cc. weft reads these\n"
      "environment variables once, when it is first used; a value that does not parse is warned\n"
      "about and its default taken.\n\n"
      "| Variable | Type | Default | Meaning |\n"
      "|---|---|---|---|\n";
  for (size_t i = 0; i < OptionCount(); ++i) {
    const OptionRow& row = OptionAt(i);
    const std::string_view value = row.default_value;
    text += fmt::format("| `{}` | {} | {} | {} |\n", row.environment, row.type,
                        value.empty() ? "" : fmt::format("`{}`", value), row.meaning);
  }
  return text;
}

std::string AsJson() {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < OptionCount(); ++i) {
    const OptionRow& row = OptionAt(i);
    rows.push_back({{"environment", row.environment},
                    {"type", row.type},
                    {"default", row.default_value},
                    {"meaning", row.meaning}});
  }
  return nlohmann::ordered_json{{"version", 1}, {"options", rows}}.dump(2) + "\n";
}

}  // namespace

CommandOutput PrintOptions(OptionsFormat format) {
  switch (format) {
    case OptionsFormat::kText:
      break;
    case OptionsFormat::kMarkdown:
      return {AsMarkdown(), {}};
    case OptionsFormat::kJson:
      return {AsJson(), {}};
  }
  return {AsText(), {}};
}

}  // namespace weft
