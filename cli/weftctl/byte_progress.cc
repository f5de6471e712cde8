#include "cli/weftctl/byte_progress.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "base/wait.h"

namespace weft {
namespace {

constexpr int64_t kMomentNs = 500'000'000;  // of what is over sooner nothing is shown
constexpr int64_t kRedrawNs = 100'000'000;
constexpr size_t kBarCells = 20;

}  // namespace

std::string ByteText(size_t bytes) {
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  auto amount = static_cast<double>(bytes) / 1000;
  const char* const* unit = kUnits;
  for (; amount >= 999.5 && unit + 1 != std::end(kUnits); ++unit)
    amount /= 1000;
  return fmt::format("{:.{}f} {}", amount, amount < 99.95 ? 1 : 0, *unit);
}

ByteProgress::ByteProgress(std::string what, size_t total_bytes)
    : what_(std::move(what)),
      total_bytes_(std::max<size_t>(total_bytes, 1)),
      terminal_(isatty(STDERR_FILENO) == 1),
      begun_ns_(MonotonicNs()),
      shown_ns_(begun_ns_ + kMomentNs - kRedrawNs) {}

ByteProgress::~ByteProgress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void ByteProgress::Add(size_t bytes) {
  done_bytes_ = std::min(done_bytes_ + bytes, total_bytes_);
  const int64_t now_ns = MonotonicNs();
  if (!terminal_ || now_ns - shown_ns_ < kRedrawNs) return;
  shown_ns_ = now_ns;
  drawn_ = true;
  const double share = static_cast<double>(done_bytes_) / static_cast<double>(total_bytes_);
  const auto full = static_cast<size_t>(share * kBarCells);
  std::string bar;
  for (size_t i = 0; i < kBarCells; ++i)
    bar += i < full ? "█" : "░";
  const double seconds = static_cast<double>(now_ns - begun_ns_) * 1e-9;
  const auto left = static_cast<int64_t>(share > 0 ? seconds / share - seconds : 0);
  fmt::print(stderr, "\r\033[K{} {} of {} {} | eta {}:{:02}", bar, ByteText(done_bytes_),
             ByteText(total_bytes_), what_, left / 60, left % 60);
}

}  // namespace weft
