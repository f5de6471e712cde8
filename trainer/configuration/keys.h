// The keys of configuration files that other programs have: one table, which reading a file, docs/config.md and the nearest name of a
// misspelt key are made from.
//
//   const ConfigKey* const key = FindConfigKey("gradient_clipping");
//   const KeyEffect effect = EffectOf(*key, value, document);          // throws BadInput: a value of another type
//   effect.options                                                      // {"--clip=1.0"}: what the command line would say
//
// A key of DeepSpeed has DeepSpeed's meaning, and one of Accelerate and FSDP theirs. What weft does not do, or always does, is a key as
// well: a file of theirs is read as it is, and each key that changes nothing is listed with the reason.
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_CONFIGURATION_KEYS_H_
#define WEFT_TRAINER_CONFIGURATION_KEYS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/configuration/document.h"

namespace weft::trainer {

// What a value has to be.
enum class Takes { kBool, kWhole, kNumber, kText, kNumbers, kAny };

const char* NameOf(Takes takes);

// What a key with its value leads to.
struct KeyEffect {
  std::vector<std::string> options;  // as the command line has them
  std::string why;                   // why it changes nothing here; or what it is called here
  bool in_force = true;
};

struct ConfigKey {
  // The usual ways to take effect; `detail` is by these
  enum class Role {
    kOption,   // an option of the program, of this name
    kAlways,   // so it always is here: this is the value that says so
    kNothing,  // it changes nothing
    kOwn,      // `read` says
  };

  const char* name;
  Takes takes;
  Role role;
  const char* detail;
  const char* meaning;  // what it does here, or why nothing; for people
  KeyEffect (*read)(const ConfigValue& value, const ConfigDocument& document) = nullptr;
};

std::span<const ConfigKey> DeepSpeedKeys();
std::span<const ConfigKey> DeepSpeedZeroKeys();
std::span<const ConfigKey> AccelerateKeys();

// Of all tables; nullptr if there is none.
const ConfigKey* FindConfigKey(std::string_view name);

// Whose value is "auto" changes nothing: the program chooses. Throws BadInput.
KeyEffect EffectOf(const ConfigKey& key, const ConfigValue& value, const ConfigDocument& document);

// "--clip=1.0".
std::string OptionWord(std::string_view option, std::string_view value);

// A whole number that may be written 5e8. Throws BadInput, which names the key.
uint64_t WholeOf(const char* key, const ConfigValue& value, const ConfigDocument& document);

// For a key whose value is one of some words, each with options: {{"gloo", {}}, ...}. Throws BadInput, which lists them.
struct WordEffect {
  const char* word;
  KeyEffect effect;
};

KeyEffect ByWord(const char* key, const ConfigValue& value, const ConfigDocument& document,
                 std::span<const WordEffect> words);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_CONFIGURATION_KEYS_H_
