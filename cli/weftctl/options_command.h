// `weftctl options`: prints the table of settings that base/options.h holds.
//
// Thread-safety: pure functions.
#pragma once

#include <string>

namespace weft {

enum class OptionsFormat { kText, kMarkdown, kJson };

// The whole output, ending with a newline. docs/options.md is the Markdown form.
std::string FormatOptions(OptionsFormat format);

}  // namespace weft
