// Data parallel training through weft's public headers: the one file of the trainer that knows weft.
//
//   DataParallel parallel(group, units, {});
//   Model<float> model(config, batch, parallel.views(), *matmul, parallel);
//   parallel.BeginStep(true);
//   parallel.BeginMicrobatch(0, true);
//   model.Forward(...); model.Backward(...);
//   parallel.EndMicrobatch();
//   parallel.Finish();                       // gradients are the average over all ranks
//   (update the parameters)
//   parallel.EndStep();
//
// Parameters and gradients live in a weft shard context. As UnitHooks it tells the context when a
// unit is used and when a gradient is complete, so that reduction overlaps backward. Calls that fail
// throw RunFailure with weft's sentence.
//
// The group is borrowed and must outlive the object. Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_PARALLEL_H_
#define WEFT_TRAINER_PARALLEL_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/group.h"
#include "weft/shard.h"

#include "trainer/model.h"

namespace weft::trainer {

struct ParallelConfig {
  bool no_overlap = false;
  size_t bucket_bytes = 0;  // 0: weft's default
};

// What communication cost in one step.
struct StepComm {
  int64_t exposed_ns = 0;  // the step waited for it
  uint64_t bytes = 0;
};

class DataParallel : public UnitHooks {
 public:
  DataParallel(weft_group_t group, const std::vector<UnitSpec>& units,
               const ParallelConfig& config);
  ~DataParallel() override;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  size_t rank() const { return rank_; }

  size_t size() const { return size_; }

  size_t bucket_count() const { return bucket_count_; }

  const std::vector<std::vector<ParamView<float>>>& views() const { return views_; }

  // Makes the parameters of rank 0 everybody's.
  void Broadcast();
  // The sum over all ranks, the same bits on each.
  double Sum(double value);

  void BeginStep(bool train);
  void BeginMicrobatch(size_t index, bool last);
  void EndMicrobatch();
  StepComm Finish();
  void EndStep();
  // This rank cannot go on: the others learn why instead of waiting.
  void Abort(const std::string& reason);

  void PreForward(size_t unit) override;
  void PostForward(size_t unit) override;
  void PreBackward(size_t unit) override;
  void GradReady(size_t unit, size_t param) override;
  void PostBackward(size_t unit) override;

 private:
  struct Unit {
    weft_shard_unit_t handle = nullptr;
    std::vector<weft_shard_param_t> params;
  };

  void Declare(const UnitSpec& spec);
  void Create(const std::vector<UnitSpec>& units, const ParallelConfig& config);
  void Destroy();

  const weft_group_t group_;
  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
  size_t rank_ = 0;
  size_t size_ = 1;
  size_t bucket_count_ = 0;
  std::vector<Unit> units_;
  std::vector<std::vector<ParamView<float>>> views_;
};

// Throws RunFailure with weft's sentence unless `result` is WEFT_SUCCESS.
void Check(weft_result_t result, const char* attempted);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_PARALLEL_H_
