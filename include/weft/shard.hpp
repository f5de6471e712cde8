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

#include <cstddef>
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
      : Handle(internal::Returned<weft_mesh_t>(weft_mesh_create, group.get(), config)) {}
};

// A view into a unit: one parameter and its gradient.
class ShardParam {
 public:
  ShardParam() noexcept = default;

  explicit ShardParam(weft_shard_param_t param) noexcept : param_(param) {}

  weft_shard_param_t get() const noexcept { return param_; }

  // Where it is. Call it after Finalize(), and if the param is sharded, inside a ForwardScope or BackwardScope of its unit.
  weft_shard_view_t View() const {
    return internal::Filled<weft_shard_view_t>(weft_shard_param_view, param_);
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
    return internal::Filled<weft_shard_part_t>(weft_shard_param_part, param_);
  }

  // Between steps: its values become those of `root`, or of every rank with WEFT_SHARD_EVERY_RANK; and writes all of
  // it to `values`. Both are collective.
  void Load(const void* values, int root = 0) const {
    const weft_shard_load_t load = {sizeof load, values, root, nullptr};
    Check(weft_shard_param_load(param_, &load));
  }

  // With a root, only that rank gets the values, and the others may pass null.
  void Read(void* values, int root = WEFT_SHARD_EVERY_RANK) const {
    const weft_shard_read_t read = {sizeof read, values, root, nullptr};
    Check(weft_shard_param_read(param_, &read));
  }

  // The gradient is complete for this micro-batch; null: it stands at View().grad.
  void GradReady(const void* grad = nullptr, void* stream = nullptr) const {
    Check(weft_shard_grad_ready(param_, grad, stream));
  }

  // Before Finalize(): it is so many elements of that tensor of the whole model, of this shape, from element `offset` on
  // (shard_global.h).
  void SetGlobal(const std::string& name, const std::vector<std::int64_t>& shape,
                 std::size_t offset) const {
    const weft_shard_global_t global = {sizeof global, name.c_str(), shape.data(),
                                        static_cast<int>(shape.size()), offset};
    Check(weft_shard_param_global(param_, &global));
  }

  // Its name, shape, type and unit, as they were declared (shard_info.h).
  weft_shard_param_info_t Info() const {
    return internal::Filled<weft_shard_param_info_t>(weft_shard_param_info, param_);
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
    const weft_shard_param_config_t config = {
        sizeof config, name.c_str(), shape.data(), static_cast<int>(shape.size()), dtype, flags};
    return ShardParam(
        internal::Returned<weft_shard_param_t>(weft_shard_unit_add_param, unit_, &config));
  }

  // A param of an earlier unit that this one uses too.
  ShardParam TieParam(const std::string& name, const ShardParam& param) const {
    return ShardParam(internal::Returned<weft_shard_param_t>(weft_shard_unit_tie_param, unit_,
                                                             name.c_str(), param.get()));
  }

  void Seal() const { Check(weft_shard_unit_seal(unit_)); }

  void PreForward(void* stream = nullptr) const { Check(weft_shard_pre_forward(unit_, stream)); }

  void PostForward(void* stream = nullptr) const { Check(weft_shard_post_forward(unit_, stream)); }

  void UnshardStart(const weft_shard_unshard_t* options = nullptr) const {
    Check(weft_shard_unshard_start(unit_, options));
  }

  void UnshardWait(void* stream = nullptr) const { Check(weft_shard_unshard_wait(unit_, stream)); }

  void Reshard(void* stream = nullptr) const { Check(weft_shard_reshard(unit_, stream)); }

  void ReduceWait(void* stream = nullptr) const { Check(weft_shard_reduce_wait(unit_, stream)); }

  void PreBackward(void* stream = nullptr) const { Check(weft_shard_pre_backward(unit_, stream)); }

  void PostBackward(void* stream = nullptr) const {
    Check(weft_shard_post_backward(unit_, stream));
  }

  // Its name and policy, as they were declared, and whether it is unsharded now (shard_info.h).
  weft_shard_unit_info_t Info() const {
    return internal::Filled<weft_shard_unit_info_t>(weft_shard_unit_info, unit_);
  }

  // In the order of declaration, tied ones included.
  std::vector<ShardParam> Params() const {
    std::vector<ShardParam> params(Info().param_count);
    for (std::size_t i = 0; i < params.size(); ++i) {
      params[i] =
          ShardParam(internal::Returned<weft_shard_param_t>(weft_shard_unit_param_at, unit_, i));
    }
    return params;
  }

 private:
  weft_shard_unit_t unit_ = nullptr;
};

// All units over a mesh, which must outlive it. Owns parameters and gradients.
class ShardContext : public Handle<weft_shard_context_t, weft_shard_context_destroy> {
 public:
  ShardContext() noexcept = default;

  explicit ShardContext(const Mesh& mesh, const weft_shard_config_t* config = nullptr)
      : Handle(internal::Returned<weft_shard_context_t>(weft_shard_context_create, mesh.get(),
                                                        config)) {}

  // Opens a unit, to be filled and sealed.
  ShardUnit AddUnit(const std::string& name, const weft_shard_policy_t* policy = nullptr) const {
    return ShardUnit(
        internal::Returned<weft_shard_unit_t>(weft_shard_unit_begin, get(), name.c_str(), policy));
  }

  // In the order of declaration.
  std::vector<ShardUnit> Units() const {
    std::vector<ShardUnit> units(
        internal::Returned<std::size_t>(weft_shard_context_unit_count, get()));
    for (std::size_t i = 0; i < units.size(); ++i) {
      units[i] =
          ShardUnit(internal::Returned<weft_shard_unit_t>(weft_shard_context_unit_at, get(), i));
    }
    return units;
  }

  // Throw WEFT_INVALID_ARGUMENT if nothing has this name.
  ShardUnit UnitByName(const std::string& name) const {
    return ShardUnit(internal::Returned<weft_shard_unit_t>(weft_shard_context_unit_by_name, get(),
                                                           name.c_str()));
  }

  ShardParam ParamByName(const std::string& name) const {
    return ShardParam(internal::Returned<weft_shard_param_t>(weft_shard_context_param_by_name,
                                                             get(), name.c_str()));
  }

  // Gives the context an optimizer, AdamW by default, before Finalize().
  void SetOptimizer(const weft_optimizer_config_t* config = nullptr) const {
    Check(weft_shard_context_optimizer(get(), config));
  }

  // What the loss of the next step is to be multiplied by.
  double LossScale() const { return internal::Returned<double>(weft_shard_loss_scale, get()); }

  // The caller has written its parts of the params. Collective.
  void ParamsUpdated(void* stream = nullptr) const {
    Check(weft_shard_params_updated(get(), stream));
  }

  // Ends the set-up and returns what was decided. Collective.
  weft_shard_plan_t Finalize() const {
    return internal::Filled<weft_shard_plan_t>(weft_shard_context_finalize, get());
  }

  // Other settings, between steps. Collective.
  void Set(const weft_shard_settings_t& settings) const {
    Check(weft_shard_context_set(get(), &settings));
  }

  // Copies all parameters that are not sharded from one rank to all. Collective.
  void Broadcast(int root = 0) const { Check(weft_shard_context_broadcast(get(), root)); }

  // Compares everything that exists more than once between the ranks, as weft_shard_context_verify. Collective.
  void Verify() const { Check(weft_shard_context_verify(get())); }

  void BeginMicrobatch(int index, bool last) const {
    const weft_shard_microbatch_t microbatch = {sizeof microbatch, index, last ? 1 : 0, nullptr};
    Check(weft_shard_microbatch_begin(get(), &microbatch));
  }

  void EndMicrobatch(void* stream = nullptr) const {
    Check(weft_shard_microbatch_end(get(), stream));
  }

  // This rank cannot finish the step: releases the others, with the reason.
  void AbortStep(const std::string& reason) const {
    Check(weft_shard_abort_step(get(), reason.c_str()));
  }
};

}  // namespace interface_0
}  // namespace weft

#include "weft/shard_step.hpp"

#endif  // WEFT_SHARD_HPP_
