// Words that stand for values of options: both directions of those that are nobody else's.
//
//   config.recompute = ParseRecompute("full");     // throws BadInput for what is no such word
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_OPTION_WORDS_H_
#define WEFT_TRAINER_OPTION_WORDS_H_

#include <cstddef>
#include <string>

#include "trainer/config.h"

namespace weft::trainer {

// --dtype; auto: this CPU's best, for the ranks to agree on one.
void SetPrecision(ProgramConfig& config, const std::string& text);

const char* ParamTypeName(NumberType type);
NumberType ParseParamType(const std::string& text);

// Of an option that is one of two words.
bool IsFirst(const char* option, const std::string& text, const char* first, const char* second);

inline constexpr const char* kRecomputeNames[] = {"none", "selective", "full"};  // by Recompute
Recompute ParseRecompute(const std::string& text);

inline constexpr const char* kOrder3Names[] = {"auto", "on", "off"};  // by Order3Choice
void SetOrder3(ProgramConfig& config, const std::string& text);

// --trace: "10-12", "10" or "none".
void SetTrace(TrainConfig& train, const std::string& text);
std::string TraceText(const TrainConfig& train);

// "40000", "40MB" (10^6), "1.5MiB" (2^20).
size_t ParseBytes(const char* option, const std::string& text);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_OPTION_WORDS_H_
