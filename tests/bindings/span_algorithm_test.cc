// Algorithms that calls name: those of one node are a hint over several, unless a call insists.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "weft/weft.h"

#include "tests/bindings/forked_group.h"

namespace weft::test {
namespace {

// Small and large; every name that weft_explain prints of a group on one node.
constexpr size_t kCounts[] = {5, 30'011};
constexpr const char* kNames[] = {"auto", "inline", "slot", "direct", "staged", "single_copy"};

weft_result_t Sum(const GroupRank& self, size_t count, const char* algorithm, uint32_t fields,
                  bool* right) {
  std::vector<int32_t> data(count, self.rank + 1);
  weft_call_t call = {};
  call.struct_size = sizeof(call);
  call.algorithm = algorithm;
  call.fields = fields;
  const weft_result_t result = weft_all_reduce(data.data(), data.data(), count, WEFT_INT32,
                                               WEFT_SUM, self.group, &call, nullptr);
  *right = data == std::vector<int32_t>(count, self.size * (self.size + 1) / 2);
  return result;
}

std::string Explained(const GroupRank& self, const char* algorithm, uint32_t fields) {
  const weft_explain_query_t query = {.struct_size = sizeof(query),
                                      .operation = "all_reduce",
                                      .count = 30'011,
                                      .dtype = WEFT_INT32,
                                      .op = WEFT_SUM,
                                      .algorithm = algorithm,
                                      .fields = fields};
  char text[8192];
  if (weft_explain(self.group, &query, text, sizeof(text), nullptr) != WEFT_SUCCESS)
    return weft_last_error();
  return text;
}

TEST(SpanAlgorithm, OfOneNodeIsAHintThatExplainLeavesAside) {
  OnForkedGroup({3, "0,1,0"}, [](const GroupRank& self) -> std::string {
    std::string without = Explained(self, nullptr, 0);
    if (without.find("asked for") != std::string::npos) return without;
    for (const char* name : kNames) {
      for (const size_t count : kCounts) {
        bool right = false;
        SAY_UNLESS(Sum(self, count, name, 0, &right) == WEFT_SUCCESS);
        if (!right) return std::string("a wrong sum by ") + name;
      }
      std::string text = Explained(self, name, 0);
      const bool says = text.find(std::string("algorithm: ") + name +
                                  " is asked for and not taken") != std::string::npos;
      if (says != (std::string(name) != "auto") || text.find("schedule: ") == std::string::npos)
        return text;
    }
    return "";
  });
}

// On all ranks alike, and the group works on.
TEST(SpanAlgorithm, IsUnsupportedWhereTheCallInsists) {
  OnForkedGroup({3, "0,1,0"}, [](const GroupRank& self) -> std::string {
    bool right = false;
    for (const char* name : kNames) {
      const bool chosen = std::string(name) == "auto";
      const weft_result_t expected = chosen ? WEFT_SUCCESS : WEFT_UNSUPPORTED;
      for (const size_t count : kCounts) {
        const weft_result_t result = Sum(self, count, name, WEFT_CALL_STRICT_ALGORITHM, &right);
        if (result != expected || right != chosen)
          return name + std::string(": ") + std::to_string(result) + ", " + weft_last_error();
      }
      std::string text = Explained(self, name, WEFT_CALL_STRICT_ALGORITHM);
      if ((text.find("refused: all_reduce: algorithm \"") == 0) == chosen) return text;
    }
    SAY_UNLESS(Sum(self, 7, nullptr, WEFT_CALL_STRICT_ALGORITHM, &right) == WEFT_SUCCESS);
    return right ? "" : "a wrong sum";
  });
}

TEST(SpanAlgorithm, ThatIsNoneOfWeftsIsInvalidEverywhere) {
  for (const NodesOfGroup& shape : {NodesOfGroup{2, ""}, NodesOfGroup{2, "2"}}) {
    OnForkedGroup(shape, [](const GroupRank& self) -> std::string {
      bool right = false;
      for (const uint32_t fields : {0U, WEFT_CALL_STRICT_ALGORITHM}) {
        if (Sum(self, 5, "quickest", fields, &right) != WEFT_INVALID_ARGUMENT)
          return weft_last_error();
      }
      SAY_UNLESS(Sum(self, 5, nullptr, 0, &right) == WEFT_SUCCESS);
      return right ? "" : "a wrong sum";
    });
  }
}

}  // namespace
}  // namespace weft::test
