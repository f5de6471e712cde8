// The learning rate of each step: a warm-up from a part of the peak up to it, then a shape that ends at another part.
//
//   const double rate = LearningRate(config, step);     // step from 0
//
// cosine and linear fall from the end of the warm-up to the end of the run; constant stays; wsd (warmup, stable, decay; MiniCPM,
// arXiv:2404.06395) stays, and falls in a line over the last steps. The logarithmic warm-up is that of DeepSpeed's WarmupLR.
//
// Thread-safety: pure functions.
#ifndef WEFT_TRAINER_SCHEDULE_H_
#define WEFT_TRAINER_SCHEDULE_H_

#include <cstddef>
#include <string>

namespace weft::trainer {

struct TrainConfig;

enum class Schedule { kCosine, kLinear, kConstant, kWsd };
enum class WarmupShape { kLinear, kLog };

// Throws BadInput, which lists the names.
Schedule ParseSchedule(const std::string& name);
WarmupShape ParseWarmupShape(const std::string& name);

const char* NameOf(Schedule schedule);
const char* NameOf(WarmupShape shape);

// How the peak grows with the batch: not at all, in proportion, by the square root.
enum class LrScaling { kNone, kLinear, kSqrt };

LrScaling ParseLrScaling(const std::string& name);
const char* NameOf(LrScaling scaling);

// The largest rate of a run: --lr, for the batch of a step instead of --lr-batch.
double PeakRate(const TrainConfig& config);

double LearningRate(const TrainConfig& config, size_t step);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_SCHEDULE_H_
