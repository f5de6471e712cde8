// The lines of an explanation as JSON.
//
//   ExplanationAsJson("operation: ...\nalgorithm: staged\nnot direct: ...\n");
//
// Thread-safety: a pure function.
#pragma once

#include <string>

namespace weft {

// {"version", each line's name: its value, "rejected": {algorithm: why}}; ends with a new line. Spaces in names
// become underscores.
std::string ExplanationAsJson(const std::string& text);

}  // namespace weft
