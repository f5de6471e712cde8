// Shard managers for C++17: mesh -> context -> unit -> param, and a step that cannot be left open.
//
//   weft::Mesh mesh(group);
//   weft::ShardContext context(mesh);
//   context.SetOptimizer();                                           // AdamW
//   weft_shard_policy_t policy = {sizeof(policy), WEFT_SHARD_FULL_SHARD};
//   weft::ShardUnit block = context.AddUnit("block0", &policy);
//   weft::ShardParam weight = block.AddParam("weight", {768, 768}, WEFT_FLOAT32);
//   block.Seal();
//   context.Finalize();
//   weight.Load(initial_values);                                      // rank 0's
//   for (...) {
//     weft::ShardStep step(context);
//     context.BeginMicrobatch(0, true);
//     { weft::ForwardScope scope(block);  Forward(weight.As<float>()); }
//     { weft::BackwardScope scope(block); Backward(weight.GradAs<float>());  weight.GradReady(); }
//     context.EndMicrobatch();
//     step.Finish();                       // the gradients are reduced from here
//     step.Update(3e-4);
//     step.End();
//   }
//
// Order of calls, collective calls, errors and the thread rule are as in shard.h. Units and params are names of what the
// context owns: copy them freely, use them while it lives.
#ifndef WEFT_SHARD_HPP_
#define WEFT_SHARD_HPP_

#include <cstdint>
#include <string>
#include <vector>

#include "weft/weft.hpp"

namespace weft {
inline namespace interface_0 {

// Named axes over the ranks of a group, which must outlive it.
class Mesh : public Handle<weft_mesh_t, weft_mesh_destroy> {
 public:
  Mesh() noexcept = default;

  explicit Mesh(weft_mesh_t mesh) noexcept : Handle(mesh) {}

  explicit Mesh(const Group& group, const weft_mesh_config_t* config = nullptr)
      : Handle(Create(group, config)) {}

 private:
  static weft_mesh_t Create(const Group& group, const weft_mesh_config_t* config) {
    weft_mesh_t mesh = nullptr;
    Check(weft_mesh_create(group.get(), config, &mesh));
    return mesh;
  }
};

// A view into a unit: one parameter and its gradient.
class ShardParam {
 public:
  ShardParam() noexcept = default;

  explicit ShardParam(weft_shard_param_t param) noexcept : param_(param) {}

  weft_shard_param_t get() const noexcept { return param_; }

  // Where it is. Call it after Finalize(), and if the param is sharded, inside a ForwardScope or BackwardScope of its unit.
  weft_shard_view_t View() const {
    weft_shard_view_t view = {};
    view.struct_size = sizeof(view);
    Check(weft_shard_param_view(param_, &view));
    return view;
  }

  template <typename T>
  T* As() const {
    return static_cast<T*>(View().data);
  }

  template <typename T>
  T* GradAs() const {
    return static_cast<T*>(View().grad);
  }

  // What this rank keeps of it.
  weft_shard_part_t Part() const {
    weft_shard_part_t part = {};
    part.struct_size = sizeof(part);
    Check(weft_shard_param_part(param_, &part));
    return part;
  }

  // Between steps: its values become those of `root`, or of every rank with WEFT_SHARD_EVERY_RANK; and writes all of
  // it to `values`. Both are collective.
  void Load(const void* values, int root = 0) const {
    Check(weft_shard_param_load(param_, values, root));
  }

  void Read(void* values) const { Check(weft_shard_param_read(param_, values)); }

  // The gradient is complete for this micro-batch; null: it stands at View().grad.
  void GradReady(const void* grad = nullptr, void* stream = nullptr) const {
    Check(weft_shard_grad_ready(param_, grad, stream));
  }

 private:
  weft_shard_param_t param_ = nullptr;
};

// What is gathered and reduced together.
class ShardUnit {
 public:
  ShardUnit() noexcept = default;

  explicit ShardUnit(weft_shard_unit_t unit) noexcept : unit_(unit) {}

  weft_shard_unit_t get() const noexcept { return unit_; }

  // An empty shape is a scalar; flags: WEFT_SHARD_PARAM_*.
  ShardParam AddParam(const std::string& name, const std::vector<std::int64_t>& shape,
                      weft_dtype_t dtype, std::uint32_t flags = 0) const {
    weft_shard_param_t param = nullptr;
    Check(weft_shard_unit_add_param(unit_, name.c_str(), shape.data(),
                                    static_cast<int>(shape.size()), dtype, flags, &param));
    return ShardParam(param);
  }

  // A param of an earlier unit that this one uses too.
  ShardParam TieParam(const std::string& name, const ShardParam& param) const {
    weft_shard_param_t tied = nullptr;
    Check(weft_shard_unit_tie_param(unit_, name.c_str(), param.get(), &tied));
    return ShardParam(tied);
  }

  void Seal() const { Check(weft_shard_unit_seal(unit_)); }

  void PreForward(void* stream = nullptr) const { Check(weft_shard_pre_forward(unit_, stream)); }

  void PostForward(void* stream = nullptr) const { Check(weft_shard_post_forward(unit_, stream)); }

  void UnshardStart(void* stream = nullptr) const {
    Check(weft_shard_unshard_start(unit_, stream));
  }

  void UnshardWait(void* stream = nullptr) const { Check(weft_shard_unshard_wait(unit_, stream)); }

  void Reshard(void* stream = nullptr) const { Check(weft_shard_reshard(unit_, stream)); }

  void ReduceWait(void* stream = nullptr) const { Check(weft_shard_reduce_wait(unit_, stream)); }

  void PreBackward(void* stream = nullptr) const { Check(weft_shard_pre_backward(unit_, stream)); }

  void PostBackward(void* stream = nullptr) const {
    Check(weft_shard_post_backward(unit_, stream));
  }

 private:
  weft_shard_unit_t unit_ = nullptr;
};

// All units over a mesh, which must outlive it. Owns parameters and gradients.
class ShardContext : public Handle<weft_shard_context_t, weft_shard_context_destroy> {
 public:
  ShardContext() noexcept = default;

  explicit ShardContext(const Mesh& mesh, const weft_shard_config_t* config = nullptr)
      : Handle(Create(mesh, config)) {}

  // Opens a unit, to be filled and sealed.
  ShardUnit AddUnit(const std::string& name, const weft_shard_policy_t* policy = nullptr) const {
    weft_shard_unit_t unit = nullptr;
    Check(weft_shard_unit_begin(get(), name.c_str(), policy, &unit));
    return ShardUnit(unit);
  }

  // Gives the context an optimizer, AdamW by default, before Finalize().
  void SetOptimizer(const weft_optimizer_config_t* config = nullptr) const {
    Check(weft_shard_context_optimizer(get(), config));
  }

  // What the loss of the next step is to be multiplied by.
  double LossScale() const {
    double scale = 1;
    Check(weft_shard_loss_scale(get(), &scale));
    return scale;
  }

  // The caller has written its parts of the params. Collective.
  void ParamsUpdated() const { Check(weft_shard_params_updated(get())); }

  // Ends the set-up and returns what was decided. Collective.
  weft_shard_plan_t Finalize() const {
    weft_shard_plan_t plan = {};
    plan.struct_size = sizeof(plan);
    Check(weft_shard_context_finalize(get(), &plan));
    return plan;
  }

  // Copies all parameters that are not sharded from one rank to all. Collective.
  void Broadcast(int root = 0) const { Check(weft_shard_context_broadcast(get(), root)); }

  // Compares everything that exists more than once between the ranks, as weft_shard_context_verify. Collective.
  void Verify() const { Check(weft_shard_context_verify(get())); }

  void BeginMicrobatch(int index, bool last) const {
    Check(weft_shard_microbatch_begin(get(), index, last ? 1 : 0));
  }

  void EndMicrobatch(void* stream = nullptr) const {
    Check(weft_shard_microbatch_end(get(), stream));
  }

  // This rank cannot finish the step: releases the others, with the reason.
  void AbortStep(const std::string& reason) const {
    Check(weft_shard_abort_step(get(), reason.c_str()));
  }

 private:
  static weft_shard_context_t Create(const Mesh& mesh, const weft_shard_config_t* config) {
    weft_shard_context_t context = nullptr;
    Check(weft_shard_context_create(mesh.get(), config, &context));
    return context;
  }
};

}  // namespace interface_0
}  // namespace weft

#include "weft/shard_step.hpp"

#endif  // WEFT_SHARD_HPP_
