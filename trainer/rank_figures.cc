#include "trainer/rank_figures.h"

#include <sys/resource.h>

#include "weft/collective.h"

#include "trainer/parallel.h"
#include "trainer/plan.h"

namespace weft::trainer {
namespace {

constexpr size_t kEvery = 100;  // steps

// A rank's, as the others get them.
struct Message {
  RankFigures figures;
  uint64_t machine = 0;
};

uint64_t PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return uint64_t(usage.ru_maxrss) << 10;
}

}  // namespace

void RankFigures::Add(const StepRecord& record) {
  if (!record.MadeHere()) return;
  steps++;
  tokens += record.rank_tokens;
  phases += record.phases;
  seconds += record.seconds + record.phases[Phase::kCheckpoint];
}

int SlowestRank(const std::vector<RankFigures>& ranks) {
  int slowest = -1;
  double longest = 0;
  for (size_t rank = 0; rank < ranks.size(); rank++) {
    if (ranks[rank].steps == 0) continue;
    const double busy = ranks[rank].phases.Busy() / double(ranks[rank].steps);
    if (slowest >= 0 && busy <= longest) continue;
    slowest = int(rank);
    longest = busy;
  }
  return slowest;
}

bool FiguresAreDue(size_t step, size_t steps) {
  return step == steps || step % kEvery == 0;
}

std::vector<RankFigures> ExchangeFigures(weft_group_t group, RankFigures& own) {
  int size = 1;
  Check(weft_group_size(group, &size), "asking for the group's size");
  Message message = {own, ThisMachine()};
  message.figures.peak_bytes = PeakBytes();
  std::vector<Message> all(static_cast<size_t>(size));
  Check(weft_all_gather(&message, all.data(), sizeof message, WEFT_UINT8, group, nullptr, nullptr),
        "comparing how fast the ranks are");
  own = {};
  std::vector<RankFigures> ranks;
  size_t machines = 0;
  for (size_t rank = 0; rank < all.size(); rank++) {
    ranks.push_back(all[rank].figures);
    size_t first = 0;
    while (all[first].machine != all[rank].machine)
      first++;
    ranks.back().machine = first == rank ? machines++ : ranks[first].machine;
  }
  return ranks;
}

}  // namespace weft::trainer
