#include "trainer/configuration/config_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string_view>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/edit_distance.h"
#include "trainer/failure.h"
#include "trainer/option_table.h"
#include "trainer/options.h"

namespace weft::trainer {
namespace {

using Kind = ConfigValue::Kind;

constexpr std::string_view kOtherFile = "deepspeed_config.deepspeed_config_file";
// What a run's config.json has beside options: where the file comes from.
constexpr std::string_view kOrigin[] = {"program", "version", "ranks", "commit",
                                        "began",   "job",     "text",  "config"};

bool IsOrigin(std::string_view key) {
  return std::find(std::begin(kOrigin), std::end(kOrigin), key) != std::end(kOrigin);
}

// "train_batch_size", "zero_optimization.stage": keys of all tables.
template <typename Visit>
void ForEachKey(const Visit& visit) {
  for (const auto& table : {DeepSpeedKeys(), DeepSpeedZeroKeys(), AccelerateKeys()}) {
    for (const ConfigKey& key : table)
      visit(key);
  }
}

}  // namespace

ConfigFile::ConfigFile(ProgramConfig& config) : config_(config) {
  for (const ResolvedOption& option : ResolvedOptions(config)) {
    if (!IsOrigin(option.key)) own_.push_back({option.key, option.quoted});
  }
}

void ConfigFile::Take(const ConfigDocument& document) {
  all_.file = document.file;
  for (const ConfigEntry& entry : document.entries) {
    if (entry.key != kOtherFile) {
      Set(document, entry);
      continue;
    }
    // As Accelerate, whose file lies beside DeepSpeed's, or names its place.
    const std::filesystem::path other(entry.value.text);
    const bool whole = other.is_absolute() || std::filesystem::exists(other);
    const ConfigDocument inner = ReadConfigDocument(
        whole ? other.string()
              : (std::filesystem::path(document.file).parent_path() / other).string());
    if (inner.Find(kOtherFile) != nullptr)
      throw BadInput(inner.file + ": a file that another one names cannot name a third one");
    for (const ConfigEntry& own : inner.entries)
      Set(inner, own);
    all_.file = document.file;
  }
}

void ConfigFile::Set(const ConfigDocument& document, const ConfigEntry& entry) {
  const bool known =
      FindConfigKey(entry.key) != nullptr || FindOwn(entry.key) != nullptr || IsOrigin(entry.key);
  if (!known) RefuseKey(document.file + ": ", entry.key);
  const auto old = std::find_if(all_.entries.begin(), all_.entries.end(),
                                [&](const ConfigEntry& one) { return one.key == entry.key; });
  if (old == all_.entries.end())
    all_.entries.push_back(entry);
  else
    old->value = entry.value;
}

void ConfigFile::Override(const std::string& key, const std::string& value) {
  if (all_.file.empty()) all_.file = "command line";
  if (FindConfigKey(key) == nullptr) RefuseKey("--", key);
  const ConfigDocument words{"command line", {{key, ParseConfigValue(value)}}};
  Set(words, words.entries[0]);
}

// In the order of the tables, not of the file: what a scheduler says of the rate beats what an optimizer does, as with DeepSpeed. The
// program's own names come last, as they are the most exact.
void ConfigFile::Apply() {
  ForEachKey([this](const ConfigKey& key) {
    const ConfigValue* const value = all_.Find(key.name);
    if (value != nullptr) ApplyOne(key.name, *value, EffectOf(key, *value, all_));
  });
  for (const OwnOption& option : own_) {
    const ConfigValue* const value = all_.Find(option.key);
    if (value != nullptr) ApplyOne(option.key, *value, EffectOfOwn(option, *value));
  }
}

void ConfigFile::ApplyOne(const std::string& key, const ConfigValue& value,
                          const KeyEffect& effect) {
  try {
    ParseWords(effect.options, config_);
  } catch (const BadInput& error) {
    throw BadInput(fmt::format("{}: {} {}: {}", all_.file, key, value.Shown(), error.what()));
  }
  const std::string options = fmt::format("{}", fmt::join(effect.options, " "));
  config_.notes.push_back({.key = key,
                           .value = value.Shown(),
                           .text = !options.empty() ? options : effect.why,
                           .in_force = effect.in_force});
}

const ConfigFile::OwnOption* ConfigFile::FindOwn(const std::string& key) const {
  const auto found = std::find_if(own_.begin(), own_.end(),
                                  [&](const OwnOption& option) { return option.key == key; });
  return found == own_.end() ? nullptr : &*found;
}

KeyEffect ConfigFile::EffectOfOwn(const OwnOption& option, const ConfigValue& value) const {
  if (value.kind == Kind::kText && !option.quoted) {
    throw BadInput(fmt::format("{}: {} is {}, and takes no text; write it without quotes",
                               all_.file, option.key, value.Shown()));
  }
  if (value.kind == Kind::kText && value.text.empty()) return {{}, "as if it were not given"};
  if (value.kind != Kind::kList) return {{OptionWord(option.key, value.text)}};
  KeyEffect effect{{"--" + option.key}};
  for (const ConfigValue& item : value.items)
    effect.options.push_back(item.text);
  return effect;
}

void ConfigFile::RefuseKey(const std::string& file, const std::string& key) const {
  std::string nearest;
  size_t least = std::numeric_limits<size_t>::max();
  const auto look = [&](std::string_view name) {
    const size_t distance = EditDistance(key, name);
    if (distance >= least) return;
    least = distance;
    nearest = name;
  };
  ForEachKey([&](const ConfigKey& known) { look(known.name); });
  for (const OwnOption& option : own_)
    look(option.key);
  throw BadInput(fmt::format("{}{} is unknown; did you mean {}? See docs/config.md", file, key,
                             file == "--" ? "--" + nearest : nearest));
}

std::string DescribeNotes(const ProgramConfig& config) {
  std::string out;
  for (const bool in_force : {true, false}) {
    const char* heading = in_force ? "config in force:\n" : "       without effect here:\n";
    for (const ConfigNote& note : config.notes) {
      if (note.in_force != in_force) continue;
      out += fmt::format("{}         {} {}{}{}\n", heading, note.key, note.value,
                         note.text.empty() ? "" : ": ", note.text);
      heading = "";
    }
  }
  return out;
}

}  // namespace weft::trainer
