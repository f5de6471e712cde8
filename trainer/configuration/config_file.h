// Takes a configuration file into the program's configuration, and says of each key what became of it.
//
//   ConfigFile file(config);                      // what it fills
//   file.Take(ReadConfigDocument("ds.json"));
//   file.Override("zero_optimization.stage", "3");          // --zero_optimization.stage 3 of the command line
//   file.Apply();                                  // throws BadInput: an unknown key, with the nearest name; a wrong value
//   config.notes                                   // for DescribeNotes
//
// Keys are those of DeepSpeed, of Accelerate and FSDP (keys.h), and the program's own options by their names. Each becomes words
// of a command line, which the program's own follow: so both are read and checked by one parser, and the command line has the last word.
//
// Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_CONFIGURATION_CONFIG_FILE_H_
#define WEFT_TRAINER_CONFIGURATION_CONFIG_FILE_H_

#include <functional>
#include <string>
#include <vector>

#include "trainer/config.h"
#include "trainer/configuration/document.h"
#include "trainer/configuration/keys.h"

namespace weft::trainer {

class ConfigFile {
 public:
  explicit ConfigFile(ProgramConfig& config);

  // Those of a later document, and of another file that it names, beat those of an earlier one.
  void Take(const ConfigDocument& document);
  // `value` as the command line has it. Throws BadInput for an unknown key.
  void Override(const std::string& key, const std::string& value);
  void Apply();

 private:
  struct OwnOption {
    std::string key;
    bool quoted;
  };

  void Set(const ConfigDocument& document, const ConfigEntry& entry);
  const OwnOption* FindOwn(const std::string& key) const;
  KeyEffect EffectOfOwn(const OwnOption& option, const ConfigValue& value) const;
  void ApplyOne(const std::string& key, const ConfigValue& value, const KeyEffect& effect);
  [[noreturn]] void RefuseKey(const std::string& file, const std::string& key) const;

  ProgramConfig& config_;
  std::vector<OwnOption> own_;
  ConfigDocument all_;  // of all documents, each key once
};

// The lines that say which keys are in force and which change nothing here. "" without a file.
std::string DescribeNotes(const ProgramConfig& config);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CONFIGURATION_CONFIG_FILE_H_
