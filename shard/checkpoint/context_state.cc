#include "shard/checkpoint/context_state.h"

#include "base/status.h"

namespace weft {

absl::StatusOr<ContextState> ContextState::Of(Context& context) {
  // Before it is finalized there is nothing to ask for.
  WEFT_RETURN_IF_ERROR(context.state().Scalars().status());
  ContextState state(context);
  const std::vector<ParamSpec>& params = context.registry().params();
  for (size_t param = 0; param < params.size(); ++param) {
    const GlobalInterval& global = params[param].global;
    SavedTensor tensor{.name = global.name,
                       .shape = global.shape,
                       .dtype = params[param].dtype,
                       .frozen = params[param].frozen};
    // An empty one has a name and a shape alone.
    tensor.kinds = WEFT_SHARD_STATE_VALUES;
    for (int number = 0; number < WEFT_SHARD_STATE_KINDS; ++number) {
      const auto kind = static_cast<weft_shard_state_kind_t>(number);
      WEFT_ASSIGN_OR_RETURN(const weft_shard_state_part_t part,
                            context.state().Part(static_cast<int>(param), kind));
      if (part.replicas > 0) tensor.kinds |= 1u << number;
    }
    state.tensors_.push_back(std::move(tensor));
  }
  return state;
}

std::optional<weft_optimizer_kind_t> ContextState::OptimizerOf(size_t tensor) const {
  const ParamSpec& param = context_->registry().params()[tensor];
  if (param.frozen) return std::nullopt;
  const absl::StatusOr<OptimizerGroup> group = context_->optimizer().Group(param.group);
  if (!group.ok()) return std::nullopt;  // there is no optimizer
  return group->kind;
}

std::vector<SavedGroup> ContextState::Groups() const {
  std::vector<SavedGroup> groups;
  for (int number = 0; number < WEFT_SHARD_PARAM_GROUPS_MAX; ++number) {
    const absl::StatusOr<OptimizerGroup> group = context_->optimizer().Group(number);
    if (!group.ok()) break;  // there is none of that number
    SavedGroup saved{.kind = group->kind};
    for (const auto& [name, value] : NamedNumbers(*group))
      saved.numbers.emplace_back(name, value);
    groups.push_back(std::move(saved));
  }
  return groups;
}

absl::StatusOr<StatePart> ContextState::Part(size_t tensor, weft_shard_state_kind_t kind) {
  WEFT_ASSIGN_OR_RETURN(const weft_shard_state_part_t part,
                        context_->state().Part(static_cast<int>(tensor), kind));
  const size_t before = FirstElement(tensor);
  return StatePart{.data = part.data,
                   .begin = before + part.begin,
                   .count = part.count,
                   .write_begin = before + part.write_begin,
                   .write_count = part.write_count};
}

absl::Status ContextState::ReadHeld(size_t tensor, weft_shard_state_kind_t kind, size_t begin,
                                    size_t count, void* to) {
  return context_->state().ReadHeld(static_cast<int>(tensor), kind,
                                    {begin - FirstElement(tensor), count}, to);
}

absl::Status ContextState::Write(size_t tensor, weft_shard_state_kind_t kind, size_t begin,
                                 size_t count, const void* from) {
  return context_->state().Write(static_cast<int>(tensor), kind,
                                 {begin - FirstElement(tensor), count}, from);
}

size_t ContextState::FirstElement(size_t tensor) const {
  return context_->registry().params()[tensor].global.begin;
}

}  // namespace weft
