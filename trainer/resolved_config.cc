#include "trainer/resolved_config.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "weft/version.h"

#include "trainer/option_table.h"
#include "trainer/random.h"

namespace weft::trainer {

ResolvedConfig ResolveConfig(const ProgramConfig& config, const std::string& text, size_t ranks) {
  ProgramConfig with_defaults = config;
  with_defaults.train = WithDefaults(config.train, ranks);
  ResolvedConfig resolved = ResolvedOptions(with_defaults);
  resolved.push_back({.key = kTextKey, .value = text, .scope = Scope::kRun, .quoted = true});
  return resolved;
}

std::string ConfigText(const ResolvedConfig& config, size_t ranks) {
  nlohmann::ordered_json json = {
      {"program", "weft_train"}, {"version", WEFT_VERSION_STRING}, {"ranks", ranks}};
  for (const ResolvedOption& option : config) {
    if (option.items.size() > 1) {
      json[option.key] = option.items;
      continue;
    }
    json[option.key] = option.quoted ? nlohmann::ordered_json(option.value)
                                     : nlohmann::ordered_json::parse(option.value);
  }
  // A name may have bytes that are no UTF-8.
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

uint64_t Digest(const ResolvedConfig& config) {
  uint64_t digest = 0;
  for (const ResolvedOption& option : config) {
    if (option.scope == Scope::kFree) continue;
    for (const std::string* text : {&option.key, &option.value}) {
      for (const char c : *text)
        digest = Mix(digest ^ uint8_t(c));
      digest = Mix(digest ^ 0x100);  // the end of a text
    }
  }
  return digest;
}

bool MayChange(const std::string& key) {
  return key == "heads" || key == "seed" || key == kTextKey;
}

std::string LabelOf(const std::string& key) {
  return key == kTextKey ? "the text of --data" : "--" + key;
}

}  // namespace weft::trainer
