#include "tests/shard/trained_model.h"

#include <numeric>
#include <utility>

#include "base/status.h"
#include "base/text.h"

namespace weft {
namespace {

// Of three numbers, in [-0.5, 0.5).
float MadeUp(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t mixed = a * 2654435761u ^ b * 2246822519u ^ c * 3266489917u;
  mixed ^= mixed >> 15;
  mixed *= 2246822519u;
  return static_cast<float>(mixed >> 8) * 0x1p-24f - 0.5f;
}

}  // namespace

absl::Status TrainedModel::Make(std::shared_ptr<const Mesh> mesh, const ContextOptions& options) {
  rank_ = static_cast<uint32_t>(mesh->group()->rank());
  WEFT_ASSIGN_OR_RETURN(context_, Context::Create(std::move(mesh), options));
  WEFT_RETURN_IF_ERROR(context_->SetOptimizer({}));
  for (size_t i = 0; i < options_.counts.size(); ++i) {
    WEFT_ASSIGN_OR_RETURN(const int unit,
                          context_->BeginUnit(StrCat("u", i), PlacementOf(options_.preset)));
    WEFT_RETURN_IF_ERROR(
        context_->AddParam(unit, StrCat("w", i), &options_.counts[i], 1, WEFT_FLOAT32).status());
    WEFT_RETURN_IF_ERROR(context_->SealUnit(unit));
  }
  order.resize(options_.counts.size());
  std::iota(order.begin(), order.end(), 0);
  WEFT_ASSIGN_OR_RETURN(plan_, context_->Finalize());
  for (const int param : order) {
    WEFT_ASSIGN_OR_RETURN(const auto part, context_->OwnPart(param));
    auto* const weights = static_cast<float*>(part.first.data);
    for (size_t i = 0; i < part.first.count; ++i) {
      weights[i] =
          MadeUp(~0u, static_cast<uint32_t>(param), static_cast<uint32_t>(part.second + i));
    }
  }
  return context_->Updated();
}

absl::Status TrainedModel::Done(const absl::Status& status, std::string_view call,
                                const AtEvent& at) const {
  return status.ok() && at != nullptr ? at(call) : status;
}

absl::Status TrainedModel::Forward(const AtEvent& at) {
  for (const int unit : order) {
    WEFT_RETURN_IF_ERROR(Done(context_->PreForward(unit), "pre_forward", at));
    WEFT_RETURN_IF_ERROR(Done(context_->PostForward(unit), "post_forward", at));
  }
  return absl::OkStatus();
}

absl::Status TrainedModel::Backward(const AtEvent& at) {
  for (size_t i = order.size(); i > 0; --i) {
    const int unit = order[i - 1];
    WEFT_RETURN_IF_ERROR(Done(context_->PreBackward(unit), "pre_backward", at));
    WEFT_ASSIGN_OR_RETURN(const ParamView view, context_->View(unit));
    for (size_t k = 0; k < view.count; ++k) {
      static_cast<float*>(view.grad)[k] +=
          0.1f * static_cast<const float*>(view.data)[k] +
          MadeUp(64 * step_ + rank_, static_cast<uint32_t>(unit), static_cast<uint32_t>(k));
    }
    WEFT_RETURN_IF_ERROR(Done(context_->GradReady(unit, nullptr), "grad_ready", at));
    WEFT_RETURN_IF_ERROR(Done(context_->PostBackward(unit), "post_backward", at));
  }
  return absl::OkStatus();
}

absl::Status TrainedModel::Step(const AtEvent& at) {
  ++step_;
  WEFT_RETURN_IF_ERROR(Done(context_->StepBegin(WEFT_SHARD_TRAIN, 0), "step_begin", at));
  for (int i = 0; i < options_.microbatches; ++i) {
    const bool last = i + 1 == options_.microbatches;
    WEFT_RETURN_IF_ERROR(Done(context_->MicrobatchBegin(i, last), "microbatch_begin", at));
    WEFT_RETURN_IF_ERROR(Forward(at));
    WEFT_RETURN_IF_ERROR(Backward(at));
    WEFT_RETURN_IF_ERROR(Done(context_->MicrobatchEnd(), "microbatch_end", at));
  }
  WEFT_RETURN_IF_ERROR(Done(context_->Finish().status(), "finish", at));
  const weft_shard_update_t update = {sizeof(update), 1e-3, 1.0};
  WEFT_RETURN_IF_ERROR(Done(context_->OptimizerStep(update).status(), "optimizer_step", at));
  return Done(context_->StepEnd(), "step_end", at);
}

absl::StatusOr<std::vector<float>> TrainedModel::Read() {
  std::vector<float> all;
  for (size_t i = 0; i < options_.counts.size(); ++i) {
    std::vector<float> values(static_cast<size_t>(options_.counts[i]));
    WEFT_RETURN_IF_ERROR(context_->Read(static_cast<int>(i), values.data()));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace weft
