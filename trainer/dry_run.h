// What a run would be, without running it: weft_train --dry-run.
//
//   fmt::print("{}", DescribeDryRun(config.train, {.ranks = 64, .price_per_hour = 1.2}));
//
// Sizes, traffic and operations are exact. Times are predicted from steps of a smaller model that
// are timed here for about three seconds, by threads of this process: no other rank is needed, and
// nothing is trained, read or written.
//
// Thread-safety: one call at a time, before the process has a group of its own.
#ifndef WEFT_TRAINER_DRY_RUN_H_
#define WEFT_TRAINER_DRY_RUN_H_

#include <cstddef>
#include <string>

#include "trainer/config.h"

namespace weft::trainer {

struct DryRunSettings {
  size_t ranks = 1;
  double price_per_hour = 0;     // of each rank's device; 0: it is not known
  size_t ranks_per_machine = 0;  // of machines like this one; 0: all ranks are on one
};

// How much a run trains, and how much there is to compute.
struct RunWork {
  double parameters = 0;
  double tokens = 0;          // of all steps
  double flops_per_step = 0;  // of all ranks; matrix products and attention, forward and backward
  double flops = 0;           // of all steps
  double flops_6nd = 0;       // as usually estimated: 6 x parameters x tokens
  double chinchilla_tokens = 0;  // 20 x parameters: about the best use of that many operations
};

RunWork WorkOf(const TrainConfig& config);

// Text for people. `config` has the defaults for so many ranks (WithDefaults). Throws BadInput for
// what cannot be run.
std::string DescribeDryRun(const TrainConfig& config, const DryRunSettings& settings);

// "38.1 ms", "12.5 s", "3 min 20 s", "2 h 05 min", "12 days 4 h".
std::string FormatSeconds(double seconds);

// "3.38 G", "16.9 T": FLOP and FLOP/s.
std::string FormatFlops(double flops);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_DRY_RUN_H_
