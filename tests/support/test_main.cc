// The main of a program that several tests of a folder share: each entry of ctest runs the cases of its own sources.
//
//   shard_tests --of=layout_test.cc [--gtest_filter=...]       // those of layout_test.cc alone; of these, what the filter lets through
//   shard_tests                                                // all
//
// Every case belongs to a source that is named like a test, so that some entry runs it, and has a name that no other source uses. It ends
// with 2 if that is not so: then a case would be lost, or would run in two entries.
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

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
    std::string others;
    bool found = false;
    for (const auto& [name, source] : sources) {
      found = found || source == of;
      if (source != of) others += ":" + name;
    }
    if (!found) {
      std::fprintf(stderr, "no case is in %s\n", of.data());
      return 2;
    }
    std::string filter = GTEST_FLAG_GET(filter);
    if (filter.find('-') == std::string::npos) filter += '-';
    GTEST_FLAG_SET(filter, filter + others);
  }
  return RUN_ALL_TESTS();
}
