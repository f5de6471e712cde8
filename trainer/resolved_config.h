// The configuration of a run as it is once defaults are chosen and the ranks have agreed: key and value of each option, and where that value
// has to be the same.
//
//   const ResolvedConfig config = ResolveConfig(program_config, data.Identity(), ranks);
//   if (Digest(config) != digest_of_another_rank) ...
//   WriteRunFile(directory, "config.json", ConfigText(config, ranks));
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_RESOLVED_CONFIG_H_
#define WEFT_TRAINER_RESOLVED_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config.h"
#include "trainer/corpus.h"

namespace weft::trainer {

// Where the value of an option must be the same.
enum class Scope {
  kRun,  // on all ranks, and when the run goes on, unless --changed names it: it says what is trained
  kRanks,  // on all ranks; a run may go on with another value, which is said
  kStart,  // on all ranks; it is about this start of the program, and no matter of the run
  kFree,   // nowhere: each rank has its own
};

struct ResolvedOption {
  std::string key;  // the option's name without its dashes
  std::string value;
  Scope scope = Scope::kFree;
  bool quoted = false;             // in JSON: it is no number, true or false
  std::vector<std::string> items;  // of one that takes several; `value` has them all in one text
  const char* meaning = "";
  std::string preset;  // what it is if nothing is said, for people
};

using ResolvedConfig = std::vector<ResolvedOption>;

// The key of the text that --data leads to; its value tells texts apart, wherever their files lie.
inline constexpr const char* kTextKey = "text";

// Whether --changed may name it: a run can go on though it is another one. With what else is of Scope::kRun it would be another model.
bool MayChange(const std::string& key);

// All options, and which text they read (RunData::Identity): what `config` is on `ranks` ranks.
ResolvedConfig ResolveConfig(const ProgramConfig& config, const std::string& text, size_t ranks);

// As JSON, for whoever finds a run or a checkpoint.
std::string ConfigText(const ResolvedConfig& config, size_t ranks);

// Of what must be the same on all ranks.
uint64_t Digest(const ResolvedConfig& config);

// How a sentence names an option.
std::string LabelOf(const std::string& key);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_RESOLVED_CONFIG_H_
