#include "trainer/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "weft/collective.h"
#include "weft/error.h"

#include "trainer/agreement.h"
#include "trainer/failure.h"
#include "trainer/parallel.h"
#include "trainer/verdict.h"

namespace weft::trainer {
namespace {

constexpr int kRunVersion = 2;

// 0 where there is none, as JSON has no number for what is none.
template <typename Number>
Number NumberOf(const nlohmann::json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<Number>() : Number{0};
}

// Whether it is due to what is in files, or to who may read them, rather than to the ranks.
bool IsOfFiles(weft_result_t result) {
  return result == WEFT_INVALID_ARGUMENT || result == WEFT_CORRUPT || result == WEFT_UNSUPPORTED ||
         result == WEFT_SYSTEM_ERROR;
}

// Of a directory that is made when it is needed; "" if that would do.
std::string WhyNotWritable(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path there = fs::absolute(directory, error);
  while (!fs::exists(there, error) && there.has_relative_path())
    there = there.parent_path();
  if (!fs::is_directory(there, error)) return there.string() + " is no directory";
  if (access(there.c_str(), W_OK | X_OK) == 0) return "";
  return fmt::format("{}: {}", there.string(), std::strerror(errno));
}

}  // namespace

bool HasManifest(const std::string& directory) {
  std::error_code ignored;
  return std::filesystem::exists(directory + "/manifest.json", ignored);
}

Checkpoints::Checkpoints(weft_group_t group, const DataParallel& parallel,
                         const std::string& directory, size_t keep, const ResolvedConfig& config,
                         const std::vector<std::string>& changed)
    : group_(group), directory_(directory), config_(config), changed_(changed) {
  int ranks = 1;
  Check(weft_group_size(group, &ranks), "asking for the group's size");
  const std::string text = ConfigText(config, size_t(ranks));
  weft_checkpoint_config_t settings = {};
  settings.struct_size = sizeof settings;
  settings.directory = directory.c_str();
  settings.keep_last = int64_t(keep);
  settings.config = text.c_str();
  const weft_result_t created = weft_checkpoint_create(group, &settings, &checkpoint_);
  if (IsOfFiles(created)) ThrowOnAllRanks(group, weft_last_error());
  Check(created, "preparing checkpoints");
  weft_checkpoint_value_t run = {};
  run.struct_size = sizeof run;
  run.name = "run";
  run.save = SaveRun;
  run.load = LoadRun;
  run.user = this;
  Check(weft_checkpoint_add_context(checkpoint_, nullptr, parallel.context()),
        "adding the model to checkpoints");
  Check(weft_checkpoint_add_value(checkpoint_, &run), "adding the run to checkpoints");
}

Checkpoints::~Checkpoints() {
  weft_checkpoint_destroy(checkpoint_);
}

weft_result_t Checkpoints::SaveRun(void* self, const void** bytes, size_t* count) {
  Checkpoints& own = *static_cast<Checkpoints*>(self);
  own.text_ = own.RunText();
  *bytes = own.text_.data();
  *count = own.text_.size();
  return WEFT_SUCCESS;
}

weft_result_t Checkpoints::LoadRun(void* self, const void* bytes, size_t count) {
  Checkpoints& own = *static_cast<Checkpoints*>(self);
  own.refused_ = bytes == nullptr
                     ? "it was not saved by weft_train"
                     : own.ReadRun(std::string(static_cast<const char*>(bytes), count));
  if (own.refused_.empty()) return WEFT_SUCCESS;
  return weft_callback_failed(WEFT_INVALID_ARGUMENT, own.refused_.c_str());
}

std::string Checkpoints::RunText() const {
  nlohmann::ordered_json json = {{"version", kRunVersion},
                                 {"step", record_.step},
                                 {"loss", record_.loss},
                                 {"grad_norm", record_.grad_norm},
                                 {"loss_max", record_.loss_max},
                                 {"lr", record_.lr},
                                 {"tokens", record_.tokens},
                                 {"seconds", record_.seconds},
                                 {"comm_exposed_s", record_.comm_exposed_s},
                                 {"epoch", place_.epoch},
                                 {"position", place_.position}};
  const StepStatistics& s = record_.statistics;
  if (s.count > 0)
    json["statistics"] = {s.count, s.loss_mean, s.loss_variance, s.norm_mean, s.norm_variance};
  nlohmann::ordered_json& options = json["options"];
  for (const ResolvedOption& option : config_) {
    if (option.scope == Scope::kRun || option.scope == Scope::kRanks)
      options[option.key] = option.value;
  }
  return json.dump();
}

std::string Checkpoints::CompareOptions(const std::map<std::string, std::string>& saved) {
  differences_.clear();
  for (const ResolvedOption& option : config_) {
    const auto found = saved.find(option.key);
    if (found == saved.end() || found->second == option.value) continue;
    const std::string label = LabelOf(option.key);
    const bool told = std::find(changed_.begin(), changed_.end(), option.key) != changed_.end();
    if (option.scope == Scope::kRun && !told) {
      return option.key == kTextKey
                 ? fmt::format(
                       "its run read another text ({}, and now {}), or the files of --data "
                       "have changed since; give the same, or --changed text to go on with "
                       "this one",
                       found->second, option.value)
                 : fmt::format(
                       "its run had {0} {1}, this one has {0} {2}; use the same{3}", label,
                       found->second, option.value,
                       MayChange(option.key)
                           ? fmt::format(", or --changed {} to go on all the same", option.key)
                           : "");
    }
    differences_ += fmt::format("{}{} {} -> {}", differences_.empty() ? "" : ", ", label,
                                found->second, option.value);
  }
  return "";
}

std::string Checkpoints::ReadRun(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || NumberOf<int>(json, "version") != kRunVersion)
    return "it was saved by another version of weft_train";
  std::map<std::string, std::string> options;
  if (const auto found = json.find("options"); found != json.end() && found->is_object()) {
    for (const auto& [key, value] : found->items()) {
      if (value.is_string()) options[key] = value.get<std::string>();
    }
  }
  std::string refused = CompareOptions(options);
  if (!refused.empty()) return refused;
  record_ = {};
  record_.step = NumberOf<size_t>(json, "step");
  record_.loss = NumberOf<double>(json, "loss");
  record_.loss_max = json.contains("loss_max") ? NumberOf<double>(json, "loss_max") : record_.loss;
  record_.grad_norm = NumberOf<double>(json, "grad_norm");
  record_.lr = NumberOf<double>(json, "lr");
  record_.tokens = NumberOf<size_t>(json, "tokens");
  record_.seconds = NumberOf<double>(json, "seconds");
  record_.comm_exposed_s = NumberOf<double>(json, "comm_exposed_s");
  const auto statistics = json.find("statistics");
  if (statistics != json.end() && statistics->is_array() && statistics->size() == 5 &&
      std::ranges::all_of(*statistics, [](const auto& value) { return value.is_number(); })) {
    const auto number = [&](size_t i) {
      return (*statistics)[i].get<double>();
    };
    record_.statistics = {uint64_t(number(0)), number(1), number(2), number(3), number(4)};
  }
  place_ = {NumberOf<size_t>(json, "epoch"), NumberOf<size_t>(json, "position")};
  return "";
}

weft_checkpoint_loaded_t Checkpoints::Load(const weft_checkpoint_load_config_t& config,
                                           const char* attempt) {
  weft_checkpoint_loaded_t loaded = {};
  loaded.struct_size = sizeof loaded;
  const weft_result_t result = weft_checkpoint_load(checkpoint_, &config, &loaded);
  if (IsOfFiles(result)) {
    const std::string reason = refused_.empty() ? weft_last_error() : refused_;
    ThrowOnAllRanks(group_, fmt::format("{}: {}", attempt, reason));
  }
  Check(result, "loading a checkpoint");
  return loaded;
}

std::optional<InitialValues> Checkpoints::TakeValues(const std::string& source, bool partial) {
  weft_checkpoint_load_config_t config = {};
  config.struct_size = sizeof config;
  // A model of another program may be of fewer bits than this one's float32.
  config.flags = WEFT_CHECKPOINT_VALUES_ONLY | WEFT_CHECKPOINT_CONVERT |
                 (partial ? WEFT_CHECKPOINT_PARTIAL : WEFT_CHECKPOINT_WHOLE);
  config.source = source.c_str();
  const weft_checkpoint_loaded_t loaded = Load(config, "cannot take the checkpoint's values");
  if (loaded.found == 0) return std::nullopt;
  InitialValues values = {loaded.path, HasManifest(loaded.path) ? loaded.ranks : 0, {}, {}};
  values.unused.assign(loaded.unused, loaded.unused + loaded.unused_count);
  values.kept.assign(loaded.kept, loaded.kept + loaded.kept_count);
  return values;
}

void Checkpoints::CheckWritable() const {
  DecideOnFirst(group_, [this] {
    const std::string reason = WhyNotWritable(directory_);
    if (reason.empty()) return;
    throw BadInput(
        fmt::format("checkpoints cannot be saved in {}: {}; choose another --run-dir or "
                    "--name, or let this user write there",
                    directory_, reason));
  });
}

std::optional<Resumed> Checkpoints::Resume(std::optional<int64_t> step) {
  weft_checkpoint_load_config_t config = {};
  config.struct_size = sizeof config;
  config.flags = step ? WEFT_CHECKPOINT_STEP : 0;
  config.step = step.value_or(0);
  const weft_checkpoint_loaded_t loaded = Load(config, "cannot go on from the checkpoint");
  if (loaded.found == 0) return std::nullopt;
  last_saved_ = record_.step;
  return Resumed{record_, place_, loaded.path, loaded.ranks, differences_};
}

void Checkpoints::Save(const StepRecord& record, const SamplePlace& next) {
  if (record.step <= last_saved_) return;
  record_ = record;
  place_ = next;
  last_saved_ = record.step;
  weft_checkpoint_save_config_t config = {};
  config.struct_size = sizeof config;
  config.step = int64_t(record.step);
  config.background = 1;
  last_refused_ = weft_checkpoint_save(checkpoint_, &config) != WEFT_SUCCESS;
  if (last_refused_) ComplainOfLast();
}

bool Checkpoints::Finish() {
  if (last_refused_) return false;
  if (weft_checkpoint_wait(checkpoint_, 0) == WEFT_SUCCESS) return true;
  ComplainOfLast();
  return false;
}

void Checkpoints::ComplainOfLast() const {
  Complain(
      fmt::format("the checkpoint of step {} was not saved: {}", last_saved_, weft_last_error()));
}

}  // namespace weft::trainer
