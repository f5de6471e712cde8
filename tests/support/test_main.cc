// The main of a program that several tests of a folder share: each entry of ctest runs the cases of its own sources.
//
//   shard_tests --of=layout_test.cc [--gtest_filter=...]       // those of layout_test.cc alone; of these, what the filter lets through
//   shard_tests                                                // all
//
// Every case belongs to a source that is named like a test, so that some entry runs it, and has a name that no other source uses. It ends
// with 2 if that is not so: then a case would be lost, or would run in two entries.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include <fnmatch.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace {

constexpr std::string_view kOf = "--of=";
constexpr std::string_view kEndOfTests = "_test.cc";

std::string_view NameOf(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Of each case, the name of its source; empty, after a sentence on stderr, if that is not as it must be.
std::map<std::string, std::string> SourcesOfCases() {
  std::map<std::string, std::string> sources;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      const std::string name = std::string(suite.name()) + "." + test.name();
      const std::string source(NameOf(test.file() == nullptr ? "" : test.file()));
      const auto [known, added] = sources.emplace(name, source);
      if (EndsWith(source, kEndOfTests) && added) continue;
      std::fprintf(stderr,
                   "%s is in %s and in %s; a case of a shared program stands in one source alone, "
                   "whose name ends with %s\n",
                   name.c_str(), known->second.c_str(), source.c_str(), kEndOfTests.data());
      return {};
    }
  }
  return sources;
}

// Patterns of those of `of` that `wanted`, a filter of GoogleTest's (positive patterns, and behind a '-' negative ones), lets through.
std::string FilterOf(std::string_view of, const std::map<std::string, std::string>& sources,
                     const std::string& wanted) {
  const auto fits = [](const std::string& name, std::string_view patterns) {
    for (size_t begin = 0; begin <= patterns.size();) {
      const size_t end = std::min(patterns.find(':', begin), patterns.size());
      const std::string pattern(patterns.substr(begin, end - begin));
      if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
      begin = end + 1;
    }
    return false;
  };
  const size_t dash = std::min(wanted.find('-'), wanted.size());
  const std::string positive = dash == 0 ? "*" : wanted.substr(0, dash);
  const std::string negative = dash < wanted.size() ? wanted.substr(dash + 1) : "";
  std::string patterns;
  for (const auto& [name, source] : sources) {
    if (source == of && fits(name, positive) && !fits(name, negative))
      patterns += (patterns.empty() ? "" : ":") + name;
  }
  return patterns.empty() ? "-*" : patterns;
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view of;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kOf.data(), kOf.size()) == 0) of = argv[i] + kOf.size();
  }
  testing::InitGoogleMock(&argc, argv);
  const std::map<std::string, std::string> sources = SourcesOfCases();
  if (sources.empty()) return 2;
  if (!of.empty()) {
    if (std::none_of(sources.begin(), sources.end(),
                     [&](const auto& one) { return one.second == of; })) {
      std::fprintf(stderr, "no case is in %s\n", of.data());
      return 2;
    }
    GTEST_FLAG_SET(filter, FilterOf(of, sources, GTEST_FLAG_GET(filter)));
  }
  return RUN_ALL_TESTS();
}
