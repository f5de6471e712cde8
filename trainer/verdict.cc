#include "trainer/verdict.h"

#include <cstdint>
#include <cstring>
#include <exception>
#include <string>

#include "weft/collective.h"

#include "trainer/failure.h"
#include "trainer/parallel.h"

namespace weft::trainer {
namespace {

enum class Kind : uint8_t { kGood, kBadInput, kNotWritten, kFailure };

struct Verdict {
  Kind kind = Kind::kGood;
  char text[8191] = {};  // paths are up to 4096 bytes long
};

Verdict VerdictOf(const std::function<std::string()>& decide) {
  Verdict verdict;
  const auto note = [&verdict](Kind kind, const std::string& text) {
    verdict.kind = kind;
    std::strncpy(verdict.text, text.c_str(), sizeof verdict.text - 1);
  };
  try {
    note(Kind::kGood, decide());
  } catch (const BadInput& error) {
    note(Kind::kBadInput, error.what());
  } catch (const NotWritten& error) {
    note(Kind::kNotWritten, error.what());
  } catch (const std::exception& error) {
    note(Kind::kFailure, error.what());
  }
  return verdict;
}

}  // namespace

std::string HearOfFirst(weft_group_t group, const std::function<std::string()>& decide) {
  int rank = 0;
  Check(weft_group_rank(group, &rank), "asking for the rank");
  Verdict verdict;
  if (rank == 0) verdict = VerdictOf(decide);
  Check(weft_broadcast(&verdict, &verdict, sizeof verdict, WEFT_UINT8, 0, group, nullptr, nullptr),
        "hearing what rank 0 has decided");
  if (verdict.kind == Kind::kGood) return verdict.text;
  weft_barrier(group, nullptr,
               nullptr);  // none is to end the group while another one is still being told
  if (verdict.kind == Kind::kBadInput) throw BadInput(verdict.text);
  if (verdict.kind == Kind::kNotWritten) throw NotWritten(verdict.text);
  throw RunFailure(verdict.text);
}

void DecideOnFirst(weft_group_t group, const std::function<void()>& decide) {
  HearOfFirst(group, [&decide] {
    decide();
    return std::string();
  });
}

bool AllSay(weft_group_t group, bool yes) {
  uint8_t all = yes ? 1 : 0;
  Check(weft_all_reduce(&all, &all, 1, WEFT_UINT8, WEFT_MIN, group, nullptr, nullptr),
        "asking all ranks whether all is written");
  return all == 1;
}

}  // namespace weft::trainer
