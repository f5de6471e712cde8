#include "shard/context/context.h"

#include "base/status.h"
#include "comm/kernels/reduce.h"

namespace weft {

absl::StatusOr<std::unique_ptr<Context>> Context::Create(std::shared_ptr<const Mesh> mesh,
                                                         const ContextOptions& options) {
  WEFT_ASSIGN_OR_RETURN(const Isa isa, SelectIsa());
  return std::unique_ptr<Context>(new Context(std::move(mesh), options, isa));
}

Context::Context(std::shared_ptr<const Mesh> mesh, const ContextOptions& options, Isa isa)
    : core_(std::move(mesh), options, isa),
      builder_(core_),
      params_(core_),
      steps_(core_),
      optimizer_(core_),
      state_(core_, params_, optimizer_),
      checks_(core_, params_, steps_.clock()) {}

absl::Status Context::Broadcast(int root) {
  WEFT_RETURN_IF_ERROR(params_.Broadcast(root));
  return checks_.CompareCopies("broadcast", /*optimizer_too=*/false);
}

absl::Status Context::StepEnd() {
  WEFT_RETURN_IF_ERROR(optimizer_.EndCallersTurn());
  WEFT_ASSIGN_OR_RETURN(const bool trained, steps_.End());
  return trained ? checks_.VerifyIfDue("step_end") : core_.Drain();
}

}  // namespace weft
