// One way through both formats: a builder that is told of names, values and lists, and knows nothing of how they were written.
#include "trainer/configuration/document.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/yaml.h>

#include "trainer/failure.h"

namespace weft::trainer {
namespace {

using Kind = ConfigValue::Kind;

constexpr size_t kFileBytesMax = 1'000'000;
constexpr size_t kDepthMax = 20;
constexpr size_t kEntriesMax = 10'000;

// Collects what a file says. Each object gives all names of its own, and ends, before the next one of its level.
class Builder {
 public:
  explicit Builder(std::string file) { document_.file = std::move(file); }

  void Begin() {
    if (in_list_) throw Wrong("has an object in a list, which no key takes");
    if (path_.size() >= kDepthMax) throw Wrong("is nested deeper than any key");
    path_.emplace_back();
  }

  void End() { path_.pop_back(); }

  void Name(const std::string& name) {
    if (name.empty() || name.find('.') != std::string::npos)
      throw Wrong(fmt::format("has the name \"{}\"; names have no dots of their own", name));
    path_.back() = name;
    if (!seen_.insert(Key()).second) throw Wrong("stands there twice");
  }

  void Value(Kind kind, std::string text) {
    if (path_.empty()) throw Wrong("is no object of names and values");
    ConfigValue value{kind, std::move(text), {}};
    if (in_list_) {
      document_.entries.back().value.items.push_back(std::move(value));
    } else {
      Add(std::move(value));
    }
  }

  void BeginList() {
    if (path_.empty()) throw Wrong("is no object of names and values");
    if (in_list_) throw Wrong("has a list in a list, which no key takes");
    Add({Kind::kList, "", {}});
    in_list_ = true;
  }

  void EndList() { in_list_ = false; }

  ConfigDocument Take() { return std::move(document_); }

 private:
  void Add(ConfigValue value) {
    if (document_.entries.size() >= kEntriesMax) throw Wrong("is one of too many keys");
    document_.entries.push_back({Key(), std::move(value)});
  }

  std::string Key() const { return fmt::format("{}", fmt::join(path_, ".")); }

  BadInput Wrong(const std::string& what) const {
    const std::string key = path_.empty() ? "" : Key();
    return BadInput(key.empty() ? fmt::format("{}: the file {}", document_.file, what)
                                : fmt::format("{}: {} {}", document_.file, key, what));
  }

  ConfigDocument document_;
  std::vector<std::string> path_;
  std::set<std::string> seen_;
  bool in_list_ = false;
};

// nlohmann's events; a number keeps the text that it was written with.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonEvents(Builder& builder, const std::string& file) : builder_(builder), file_(file) {}

  bool null() override { return Value(Kind::kNull, "null"); }

  bool boolean(bool value) override { return Value(Kind::kBool, value ? "true" : "false"); }

  bool number_integer(number_integer_t value) override {
    return Value(Kind::kNumber, fmt::format("{}", value));
  }

  bool number_unsigned(number_unsigned_t value) override {
    return Value(Kind::kNumber, fmt::format("{}", value));
  }

  bool number_float(number_float_t, const string_t& text) override {
    return Value(Kind::kNumber, text);
  }

  bool string(string_t& value) override { return Value(Kind::kText, value); }

  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override {
    builder_.Begin();
    return true;
  }

  bool end_object() override {
    builder_.End();
    return true;
  }

  bool start_array(size_t) override {
    builder_.BeginList();
    return true;
  }

  bool end_array() override {
    builder_.EndList();
    return true;
  }

  bool key(string_t& name) override {
    builder_.Name(name);
    return true;
  }

  bool parse_error(size_t, const std::string&, const nlohmann::json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 3, column 5: ...".
    const std::string text = error.what();
    const size_t bracket = text.find("] ");
    throw BadInput(fmt::format("{} is no JSON: {}", file_,
                               bracket == std::string::npos ? text : text.substr(bracket + 2)));
  }

 private:
  bool Value(Kind kind, std::string text) {
    builder_.Value(kind, std::move(text));
    return true;
  }

  Builder& builder_;
  const std::string& file_;
};

// A scalar that is written without quotes is what it looks like; Norway's "no" is a word to YAML 1.2 as to JSON.
Kind KindOf(const std::string& text) {
  if (text == "true" || text == "false") return Kind::kBool;
  if (text.empty() || text == "null" || text == "~") return Kind::kNull;
  return IsNumber(text) ? Kind::kNumber : Kind::kText;
}

void ReadYaml(const YAML::Node& node, size_t depth, Builder& builder) {
  // Anchors may make a small file a large tree.
  if (depth > kDepthMax) throw BadInput("a YAML file is nested deeper than any key");
  switch (node.Type()) {
    case YAML::NodeType::Map:
      builder.Begin();
      for (const auto& entry : node) {
        builder.Name(entry.first.as<std::string>());
        ReadYaml(entry.second, depth + 1, builder);
      }
      builder.End();
      break;
    case YAML::NodeType::Sequence:
      builder.BeginList();
      for (const YAML::Node& item : node)
        ReadYaml(item, depth + 1, builder);
      builder.EndList();
      break;
    case YAML::NodeType::Scalar:
      builder.Value(node.Tag() == "!" ? Kind::kText : KindOf(node.Scalar()), node.Scalar());
      break;
    default:
      builder.Value(Kind::kNull, "null");
  }
}

std::string ReadText(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  if (in) in.read(text.data(), std::streamsize(text.size()));
  // A folder opens, and cannot be read.
  if (in.bad() || (!in && !in.eof())) throw BadInput("--config " + path + " cannot be read");
  text.resize(size_t(in.gcount()));
  if (text.size() > kFileBytesMax)
    throw BadInput(fmt::format("--config {} has more than {} bytes", path, kFileBytesMax));
  return text;
}

}  // namespace

std::string ConfigValue::Shown() const {
  if (kind == Kind::kText) return "\"" + text + "\"";
  if (kind != Kind::kList) return text;
  std::vector<std::string> shown;
  for (const ConfigValue& item : items)
    shown.push_back(item.Shown());
  return fmt::format("[{}]", fmt::join(shown, ", "));
}

const ConfigValue* ConfigDocument::Find(std::string_view key) const {
  const auto found = std::find_if(entries.begin(), entries.end(),
                                  [key](const ConfigEntry& entry) { return entry.key == key; });
  const bool there = found != entries.end() && found->value.kind != Kind::kNull;
  return there ? &found->value : nullptr;
}

bool IsNumber(std::string_view text) {
  // As JSON has them, and YAML's 1. and .5 and +1.
  const auto digits = [&text] {
    size_t count = 0;
    for (; !text.empty() && text[0] >= '0' && text[0] <= '9'; text.remove_prefix(1))
      ++count;
    return count;
  };
  const auto sign = [&text] {
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  };
  sign();
  size_t count = digits();
  if (!text.empty() && text[0] == '.') {
    text.remove_prefix(1);
    count += digits();
  }
  if (count == 0) return false;
  if (!text.empty() && (text[0] == 'e' || text[0] == 'E')) {
    text.remove_prefix(1);
    sign();
    if (digits() == 0) return false;
  }
  return text.empty();
}

ConfigDocument ReadConfigDocument(const std::string& path) {
  const std::string text = ReadText(path);
  Builder builder(path);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) throw BadInput("--config " + path + " is empty");
  if (text[first] == '{') {
    JsonEvents events(builder, path);
    nlohmann::json::sax_parse(text, &events);
    return builder.Take();
  }
  try {
    ReadYaml(YAML::Load(text), 0, builder);
  } catch (const YAML::Exception& error) {
    throw BadInput(fmt::format("{} is no YAML: line {}, column {}: {}", path, error.mark.line + 1,
                               error.mark.column + 1, error.msg));
  }
  return builder.Take();
}

ConfigValue ParseConfigValue(const std::string& text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return {KindOf(text), text, {}};
  ConfigValue list{Kind::kList, "", {}};
  for (size_t begin = 1; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size() - 1);
    const std::string item = text.substr(begin, end - begin);
    const size_t first = item.find_first_not_of(' ');
    if (first != std::string::npos) {
      const std::string bare = item.substr(first, item.find_last_not_of(' ') + 1 - first);
      list.items.push_back({KindOf(bare), bare, {}});
    }
    begin = end + 1;
  }
  return list;
}

}  // namespace weft::trainer
