// The names of the functions that include/weft declares, for tests that must know all of them.
#pragma once

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace weft::test {

inline std::set<std::string> DeclaredFunctions() {
  std::set<std::string> functions;
  const std::regex declaration(R"(WEFT_EXPORT[^;(]*?\b(weft_\w+)\s*\()");
  for (const auto& entry : std::filesystem::directory_iterator(WEFT_HEADERS)) {
    if (entry.path().extension() != ".h") continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const std::string header = text.str();
    for (std::sregex_iterator i(header.begin(), header.end(), declaration), end; i != end; ++i)
      functions.insert((*i)[1]);
  }
  return functions;
}

}  // namespace weft::test
