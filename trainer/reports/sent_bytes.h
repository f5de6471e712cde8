// What a rank has to send in a step by the books, whoever reduces and gathers: what the library's
// plan is held against.
//
//   TheorySentBytes(config, 4)      // with ddp 2 (4-1)/4 of the gradients
//
// Thread-safety: a pure function.
#ifndef WEFT_TRAINER_REPORTS_SENT_BYTES_H_
#define WEFT_TRAINER_REPORTS_SENT_BYTES_H_

#include <cstddef>

#include "trainer/config.h"

namespace weft::trainer {

// 0: there is no book, as where a part of the ranks shards.
double TheorySentBytes(const TrainConfig& config, size_t ranks);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_REPORTS_SENT_BYTES_H_
