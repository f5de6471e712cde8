// Training over the ranks of a group through weft's public headers: the one file of the trainer
// that knows weft.
//
//   DataParallel parallel(group, units, config);
//   parallel.Load(unit, param, values);      // for all of them; values of rank 0
//   Model<float> model(config.model, batch, *matmul, parallel);
//   parallel.BeginStep();
//   parallel.BeginMicrobatch(0, true);
//   model.Forward(...); model.Backward(...);
//   parallel.EndMicrobatch();
//   parallel.Finish();                       // gradients are the average over all ranks
//   parallel.Update(learning_rate, grad_clip);
//   parallel.EndStep();
//
// Parameters, gradients and the state of AdamW live in a weft shard context, cut between the ranks
// as the strategy says. As UnitHooks it tells the context when a unit is used and when a gradient
// is complete, so that gathering and reducing overlap computing, and tells the model where the unit
// is. Calls that fail throw WeftFailure with weft's sentence.
//
// The group is borrowed and must outlive the object. Thread-safety: belongs to one thread.
#ifndef WEFT_TRAINER_PARALLEL_H_
#define WEFT_TRAINER_PARALLEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/group.h"
#include "weft/shard.h"
#include "weft/shard_state.h"

#include "trainer/config.h"
#include "trainer/matmul.h"
#include "trainer/model_units.h"
#include "trainer/unit_params.h"

namespace weft::trainer {

// What ranks keep, and how long their steps took.
struct RankReports {
  weft_shard_report_t summary = {};
  std::vector<weft_shard_rank_report_t> ranks;  // by rank
};

// For how long a step has waited for other ranks.
struct StepWaits {
  double gather_forward_s = 0;   // for parameters
  double gather_backward_s = 0;  // the same, in backward
  double reduce_s = 0;           // for gradients

  double Sum() const { return gather_forward_s + gather_backward_s + reduce_s; }
};

class DataParallel : public UnitHooks<float> {
 public:
  // What rank `rank` of `size` would keep and send, without taking any memory or asking the others.
  static weft_shard_plan_t PlanOf(const std::vector<UnitSpec>& units, const TrainConfig& config,
                                  size_t rank, size_t size);

  DataParallel(weft_group_t group, const std::vector<UnitSpec>& units, const TrainConfig& config);
  ~DataParallel() override;
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  size_t rank() const { return rank_; }

  size_t size() const { return size_; }

  // The model's, for what is saved of it.
  weft_shard_context_t context() const { return context_; }

  // What a rank's memory and a step's traffic will be.
  const weft_shard_plan_t& plan() const { return plan_; }

  // What the last Finish found.
  const weft_shard_step_result_t& step_result() const { return step_result_; }

  // Gives a parameter the values that rank 0 passes, rounded to its type; NULL is fine on the
  // others. Collective.
  void Load(size_t unit, size_t param, const float* values);
  // The whole parameter. Collective.
  std::vector<float> Read(size_t unit, size_t param);
  // Weights, moments and counts of what a rank has, also after a failure: then those after the last
  // update. False if an update was left half done. Only of strategies that shard nothing: then
  // every rank has all, and the same. Local.
  bool ReadState(std::vector<std::byte>& values, weft_shard_state_scalars_t& scalars);
  // Goes on from them; all ranks pass the same. Collective.
  void WriteState(const std::vector<std::byte>& values, const weft_shard_state_scalars_t& scalars);
  // How many updates have been made. Local.
  int64_t update_count();
  // What the loss of the next step is to be multiplied by. Local.
  double loss_scale();
  // The sum over all ranks, the same bits on each. Collective.
  double Sum(double value);
  // That of each rank. Collective.
  std::vector<double> Gather(double value);
  // The bits that any rank passes, between steps. Collective.
  uint64_t Any(uint64_t bits);
  // All ranks get what rank 0 passes, between steps. Collective.
  void HearFirst(void* values, size_t bytes);

  // What every rank keeps, and the times of its steps since the last call, between steps.
  // Collective.
  RankReports Report() const;
  // Throws if another rank passes the same bytes, before or between micro-batches. Collective.
  void CheckSamples(const void* samples, size_t bytes);

  void BeginStep();
  // A step without backward, of so many micro-batches.
  void BeginEvaluation(size_t microbatches);
  void BeginMicrobatch(size_t index, bool last);
  void EndMicrobatch();
  // Ends the communication of a step, with or without backward.
  StepWaits Finish();
  // Clips the reduced gradients to the global norm `clip` unless that is 0, and updates the
  // parameters; weight decay is on where ParamSpec says so. `skipped` in the result: a gradient was
  // infinite or not a number, and nothing was updated. `requests`: bits of this rank's; the result
  // has those of all ranks. `norm`: of GradientNorm, or nullptr.
  weft_shard_update_result_t Update(double learning_rate, double clip, uint64_t requests,
                                    const weft_shard_norm_t* norm = nullptr);
  // Between Finish and Update. Collective.
  weft_shard_norm_t GradientNorm();
  // In place of Update: nothing is updated. Collective.
  void DropGradients();
  void EndStep();
  // This rank cannot go on: the others learn why instead of waiting.
  void Abort(const std::string& reason);

  UnitView<float> PreForward(size_t unit) override;
  void PostForward(size_t unit) override;
  UnitView<float> PreBackward(size_t unit) override;
  void GradReady(size_t unit, size_t param) override;
  void PostBackward(size_t unit) override;

 private:
  struct Unit {
    weft_shard_unit_t handle = nullptr;
    std::vector<weft_shard_param_t> params;
    std::vector<size_t> counts;          // elements, by param
    std::vector<ParamView<float>> view;  // as of the last pre_ call
  };

  // A rank that does not exist, for its plan.
  DataParallel(const std::vector<UnitSpec>& units, const TrainConfig& config, size_t rank,
               size_t size);
  void Create(const std::vector<UnitSpec>& units, const TrainConfig& config);
  void CreateMesh(const TrainConfig& config);
  void CreateContext(const TrainConfig& config);
  // A group of params that Muon updates.
  void AddMuonGroup(double factor, double momentum);
  void Declare(const UnitSpec& spec, const TrainConfig& config);
  // Tells the context in which order forward uses the units.
  void HintOrder(const std::vector<UnitSpec>& units);
  UnitView<float> ViewOf(Unit& unit);
  // What is kept of a param; asked for where it is used, since parts may move.
  bool StatePart(weft_shard_param_t param, int kind, weft_shard_state_part_t& part);
  void Destroy();

  const weft_group_t group_;  // nullptr: of a rank that does not exist
  const NumberType param_type_;
  weft_mesh_t mesh_ = nullptr;
  weft_shard_context_t context_ = nullptr;
  size_t rank_ = 0;
  size_t size_ = 1;
  std::unique_ptr<Matmul<float>> muon_product_;  // used by the context
  int muon_group_ = 0;                           // 0: there is none
  weft_shard_plan_t plan_ = {};
  weft_shard_step_result_t step_result_ = {};
  int64_t entering_ns_ = 0;  // of this step: for pre_forward calls, which wait for parameters
  std::vector<Unit> units_;
};

// Throws WeftFailure with weft's sentence unless `result` is WEFT_SUCCESS.
void Check(weft_result_t result, const char* attempted);

}  // namespace weft::trainer

#endif  // WEFT_TRAINER_PARALLEL_H_
