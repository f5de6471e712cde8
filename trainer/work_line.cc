#include "trainer/work_line.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

namespace weft::trainer {
namespace {

constexpr double kPlainSeconds = 5;     // between plain lines
constexpr double kDrawnSeconds = 0.1;   // between redraws
constexpr double kEstimateSeconds = 1;  // before that the time left would be a guess
constexpr size_t kCells = 20;

}  // namespace

std::string WorkLine::Show(const std::string& what, double share) {
  const auto now = std::chrono::steady_clock::now();
  const auto since = [now](std::chrono::steady_clock::time_point then) {
    return std::chrono::duration<double>(now - then).count();
  };
  if (what != what_) {
    what_ = what;
    began_ = shown_ = now;
  }
  if (since(shown_) < (terminal_ ? kDrawnSeconds : kPlainSeconds)) return "";
  shown_ = now;
  drawn_ = terminal_;
  const double gone = since(began_);
  std::string line = fmt::format("       {}: {}{}{:.0f} %", what, terminal_ ? BarOf(share) : "",
                                 terminal_ ? " " : "", 100 * share);
  if (gone >= kEstimateSeconds && share > 0)
    line += fmt::format(", {} left", ClockTime(gone / share * (1 - share)));
  return terminal_ ? "\r\033[K" + line : line + "\n";
}

std::string WorkLine::End() {
  return std::exchange(drawn_, false) ? "\r\033[K" : "";
}

std::string BarOf(double share) {
  const size_t full = size_t(std::clamp(share, 0.0, 1.0) * double(kCells));
  std::string bar;
  for (size_t i = 0; i < kCells; i++)
    bar += i < full ? "█" : "░";
  return bar;
}

std::string ClockTime(double seconds) {
  const long s = std::lround(seconds);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

}  // namespace weft::trainer
