// A configuration file as it was written: dotted names and their values, in the order of the file.
//
//   const ConfigDocument document = ReadConfigDocument("ds.json");     // throws BadInput
//   if (const ConfigValue* stage = document.Find("zero_optimization.stage")) ...
//
// JSON if its first sign is {, else YAML. Nested names are joined with dots; a list of plain values is one value. What a file cannot mean
// is refused with its place: a name that comes twice, a name with a dot in it, lists of lists.
//
// Thread-safety: values and a pure function.
#ifndef WEFT_TRAINER_CONFIGURATION_DOCUMENT_H_
#define WEFT_TRAINER_CONFIGURATION_DOCUMENT_H_

#include <string>
#include <string_view>
#include <vector>

namespace weft::trainer {

struct ConfigValue {
  enum class Kind { kNull, kBool, kNumber, kText, kList };

  Kind kind = Kind::kNull;
  std::string text;                // as written, without quotes: "true", "5e8", "adamw"
  std::vector<ConfigValue> items;  // of a list, none of which is a list

  // "auto", which leaves the choice to the program.
  bool IsAuto() const { return kind == Kind::kText && text == "auto"; }

  // As a sentence shows it: "adamw" in quotes, [0.9, 0.95].
  std::string Shown() const;
};

struct ConfigEntry {
  std::string key;
  ConfigValue value;
};

struct ConfigDocument {
  std::string file;  // how sentences name it
  std::vector<ConfigEntry> entries;

  // nullptr if there is no such key, or it is null.
  const ConfigValue* Find(std::string_view key) const;
};

// What a number of a file may be the text of: 2, -1.5, 5e8.
bool IsNumber(std::string_view text);

ConfigDocument ReadConfigDocument(const std::string& path);

// A value of the command line: a number, true or false, a list in brackets, else text.
ConfigValue ParseConfigValue(const std::string& text);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CONFIGURATION_DOCUMENT_H_
