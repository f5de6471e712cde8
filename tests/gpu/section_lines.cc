#include "tests/gpu/section_lines.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace weft::test {
namespace {

using Json = nlohmann::json;

void Print(FILE* to, const Json& line) {
  std::fprintf(
      to, "%s\n",
      line.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace).c_str());
  std::fflush(to);
}

}  // namespace

void SectionLines::Cases(const std::string& check, int64_t cases, int64_t wrong) {
  wrong_ += wrong;
  Print(to_, {{"check", check}, {"cases", cases}, {"wrong", wrong}});
}

void SectionLines::Wrong(const std::string& check, const std::string& how) {
  ++wrong_;
  Print(to_, {{"check", check}, {"cases", 1}, {"wrong", 1}, {"error", how}});
}

void SectionLines::Skip(const std::string& check, const std::string& why) {
  Print(to_, {{"check", check}, {"skipped", why}});
}

void SectionLines::Fact(const std::string& name, const std::string& value) {
  Print(to_, {{"fact", name}, {"value", value}});
}

void SectionLines::Fact(const std::string& name, int64_t value) {
  Print(to_, {{"fact", name}, {"value", value}});
}

void SectionLines::Seed(uint32_t seed) {
  Print(to_, {{"seed", seed}});
}

void SectionLines::Figure(const test::Figure& figure) {
  Json line = {{"figure", figure.name}, {"bytes", figure.bytes}, {"us", figure.us}};
  if (figure.bound_us > 0) {
    line["bound_us"] = figure.bound_us;
    line["ratio"] = figure.bound_us / Median(figure.us);
  }
  if (figure.bar > 0) line["bar"] = figure.bar;
  Print(to_, line);
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace weft::test
