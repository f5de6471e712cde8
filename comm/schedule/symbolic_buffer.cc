#include "comm/schedule/symbolic_buffer.h"

#include <algorithm>

namespace weft {
namespace {

// Of two runs that touch: whether they are one.
bool Continues(const SymbolicRun& a, const SymbolicRun& b) {
  return a.end == b.begin && a.sum == b.sum && a.shift == b.shift;
}

}  // namespace

std::vector<SymbolicRun> SymbolicBuffer::Read(uint64_t offset, uint64_t units) const {
  std::vector<SymbolicRun> found;
  const uint64_t end = offset + units;
  uint64_t at = offset;
  auto run = std::partition_point(runs_.begin(), runs_.end(),
                                  [&](const SymbolicRun& one) { return one.end <= offset; });
  for (; run != runs_.end() && run->begin < end; ++run) {
    const uint64_t begin = std::max(run->begin, offset);
    if (begin > at) found.push_back({at - offset, begin - offset, kNoSum, 0});
    at = std::min(run->end, end);
    found.push_back(
        {begin - offset, at - offset, run->sum, run->shift + static_cast<int64_t>(offset)});
  }
  if (at < end) found.push_back({at - offset, end - offset, kNoSum, 0});
  return found;
}

void SymbolicBuffer::Clear(uint64_t begin, uint64_t end) {
  std::vector<SymbolicRun> left;
  left.reserve(runs_.size() + 1);
  for (const SymbolicRun& run : runs_) {
    if (run.end <= begin || run.begin >= end) {
      left.push_back(run);
      continue;
    }
    if (run.begin < begin) left.push_back({run.begin, begin, run.sum, run.shift});
    if (run.end > end) left.push_back({end, run.end, run.sum, run.shift});
  }
  runs_ = std::move(left);
}

void SymbolicBuffer::Write(uint64_t offset, const std::vector<SymbolicRun>& runs) {
  if (runs.empty()) return;
  Clear(offset + runs.front().begin, offset + runs.back().end);
  for (const SymbolicRun& run : runs) {
    if (run.sum == kNoSum) continue;
    const SymbolicRun placed = {run.begin + offset, run.end + offset, run.sum,
                                run.shift - static_cast<int64_t>(offset)};
    const auto at = std::partition_point(runs_.begin(), runs_.end(), [&](const SymbolicRun& one) {
      return one.begin < placed.begin;
    });
    if (at != runs_.begin() && Continues(*(at - 1), placed)) {
      (at - 1)->end = placed.end;
    } else {
      runs_.insert(at, placed);
    }
  }
}

}  // namespace weft
