// What the table of options (option_table.cc) is given to: one sink adds each option to a command
// line, the other collects what it is.
//
//   CommandLine sink(app);
//   sink.Count({"steps", Scope::kRanks, "optimizer steps"}, config.steps, 1, kStepsMax);
//
// Thread-safety: an object belongs to one thread, and borrows what it is given.
#ifndef WEFT_TRAINER_OPTION_SINKS_H_
#define WEFT_TRAINER_OPTION_SINKS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/App.hpp>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "trainer/resolved_config.h"
#include "trainer/whole_number.h"

namespace weft::trainer {

struct Row {
  const char* key;
  Scope scope;
  const char* meaning;
};

using SetText = std::function<void(const std::string&)>;

// Adds options to a command line.
class CommandLine {
 public:
  explicit CommandLine(CLI::App& app) : app_(app) {}

  void Count(const Row& row, size_t& value, uint64_t least, uint64_t most,
             const std::string& shown = "") {
    Whole(row, value, least, most);
    if (!shown.empty()) last_->default_str(shown);
  }

  void Count(const Row& row, int& value, uint64_t least, uint64_t most) {
    Whole(row, value, least, most);
  }

  void Number(const Row& row, double& value, const std::string& shown = "") {
    last_ = app_.add_option(Name(row), value, row.meaning)->capture_default_str();
    if (!shown.empty()) last_->default_str(shown);
  }

  void Text(const Row& row, std::string& value) {
    last_ = app_.add_option(Name(row), value, row.meaning);
    if (!value.empty()) last_->capture_default_str();
  }

  void Texts(const Row& row, std::vector<std::string>& values) {
    last_ = app_.add_option(Name(row), values, row.meaning);
  }

  void Keys(const Row& row, std::vector<std::string>& values) {
    Texts(row, values);
    last_->delimiter(',')->allow_extra_args(false);
  }

  void Flag(const Row& row, bool& value) { app_.add_flag(Name(row), value, row.meaning); }

  // One that is a name, or is written as people write it; `set` throws BadInput for any other.
  void Choice(const Row& row, const std::string&, const char* shown, const SetText& set) {
    app_.add_option_function<std::string>(Name(row), set, row.meaning)->default_str(shown);
  }

  // One that is set before those of the other kinds.
  void First(const Row& row, const std::string&, const char* shown, const SetText& set) {
    app_.add_option_function<std::string>(Name(row), set, row.meaning)
        ->default_str(shown)
        ->trigger_on_parse();
  }

 private:
  static std::string Name(const Row& row) { return std::string("--") + row.key; }

  template <typename Value>
  void Whole(const Row& row, Value& value, uint64_t least, uint64_t most) {
    last_ = app_.add_option(Name(row), value, row.meaning);
    last_->capture_default_str()->check(WholeNumber(least, most));
  }

  CLI::App& app_;
  CLI::Option* last_ = nullptr;
};

// Collects their values.
class Values {
 public:
  template <typename Value>
  void Count(const Row& row, const Value& value, uint64_t, uint64_t,
             const std::string& shown = "") {
    Add(row, fmt::format("{}", value), false, shown);
  }

  void Number(const Row& row, double value, const std::string& shown = "") {
    Add(row, fmt::format("{}", value), false, shown);
  }

  void Text(const Row& row, const std::string& value) { Add(row, value, true); }

  void Texts(const Row& row, const std::vector<std::string>& values) {
    Add(row, fmt::format("{}", fmt::join(values, " ")), true);
    options_.back().items = values;
  }

  void Keys(const Row& row, const std::vector<std::string>& values) {
    Add(row, fmt::format("{}", fmt::join(values, ",")), true);
    options_.back().items = values;
  }

  void Flag(const Row& row, bool value) { Add(row, value ? "true" : "false", false); }

  void Choice(const Row& row, const std::string& value, const char* shown, const SetText&) {
    Add(row, value, true, shown);
  }

  void First(const Row& row, const std::string& value, const char* shown, const SetText& set) {
    Choice(row, value, shown, set);
  }

  std::vector<ResolvedOption> Take() { return std::move(options_); }

 private:
  void Add(const Row& row, const std::string& value, bool quoted, const std::string& shown = "") {
    options_.push_back({.key = row.key,
                        .value = value,
                        .scope = row.scope,
                        .quoted = quoted,
                        .meaning = row.meaning,
                        .preset = shown.empty() ? value : shown});
  }

  std::vector<ResolvedOption> options_;
};

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTION_SINKS_H_
